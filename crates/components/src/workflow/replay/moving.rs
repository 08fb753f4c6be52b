//! The driver's side: results that are due, attempts that begin.

use abide::Result;
use serde_json::value::RawValue;

use super::{
    Replay,
    asking::WHAT_TO_DO,
    history::History,
    ready::{Ready, next},
};
use crate::workflow::{Failure, FailureKind, StepKind, StepState, limits, rows::Outcome};

impl Replay {
    /// Delivers the next result to the run; false if it has all.
    pub(in super::super) fn deliver(&self) -> bool {
        self.history.borrow_mut().deliver()
    }

    /// True if the consequences of a cancellation are not complete.
    pub(in super::super) fn is_canceling(&self) -> bool {
        self.history.borrow().is_canceling()
    }

    /// A request that an idle or finished run should have made and has not.
    pub(in super::super) fn misses(&self, ended: bool) -> Option<String> {
        let history = self.history.borrow();
        let missing = if ended {
            history.missing_at_all()
        } else {
            history.missing()
        };
        missing.map(|op| {
            format!(
                "{} `{}` was requested after {} results, and no longer is: {WHAT_TO_DO}",
                op.row.kind.as_str(),
                op.row.step(),
                op.row.asked
            )
        })
    }

    /// True if the run knows that it is canceled.
    pub(in super::super) fn is_canceled(&self) -> bool {
        self.history.borrow().canceled
    }

    /// Running attempts; only those that a cancellation waits for, or all.
    pub(in super::super) fn flights(&self, only_plain: bool) -> usize {
        let history = self.history.borrow();
        let flying = history.open.iter().map(|at| &history.ops[*at]);
        let counted = |shielded: bool| !(only_plain && shielded);
        flying
            .filter(|op| op.flying && counted(op.is_shielded()))
            .count()
    }

    /// The run learns next that it is canceled.
    pub(in super::super) fn cancel(&self) -> Result<()> {
        let mut history = self.history.borrow_mut();
        self.rows
            .set_canceled(Some(history.next_seq()), self.now())?;
        history.cancel();
        Ok(())
    }

    /// Steps that the run waits for; if it is being canceled, only shielded ones.
    fn open(&self, canceling: bool) -> Vec<usize> {
        let history = self.history.borrow();
        let canceling = canceling || history.canceled;
        let open = history.open.iter().copied();
        open.filter(|at| !canceling || history.ops[*at].is_shielded())
            .collect()
    }

    /// The awaited steps, which a rehearsal compares.
    pub(in super::super) fn waits_for(&self) -> Vec<String> {
        let history = self.history.borrow();
        let open = history.open.iter();
        open.map(|at| history.ops[*at].row.step().to_string())
            .collect()
    }

    /// Ends the attempts of an earlier activation.
    pub(in super::super) fn end_cut_off(&self, canceling: bool) -> Result<()> {
        let history = &mut *self.history.borrow_mut();
        let canceling = canceling || history.canceled;
        let cut_off = std::mem::take(&mut history.cut_off);
        let alone = cut_off.len() == 1;
        for at in cut_off {
            let is_wanted = !canceling || history.ops[at].is_shielded();
            if is_wanted && history.open.contains(&at) {
                self.fail(history, at, &Failure::cut_off(), alone)?;
            }
        }
        Ok(())
    }

    /// Assigns the next position to a result, if there is one: the earliest of stored results, elapsed times, and
    /// available events.
    pub(in super::super) fn advance(&self, canceling: bool) -> Result<bool> {
        let history = &mut *self.history.borrow_mut();
        for event in self.rows.events(history.inbox.newest())? {
            history.inbox.add(event);
        }
        let now = self.now();
        let Some(next) = next(history, canceling, now) else {
            return Ok(false);
        };
        match next {
            Ready::Stored(at) => self.give(history, at, now)?,
            Ready::Due(at) => self.end_wait(history, at, now)?,
            Ready::Arrived(at, event) => self.receive(history, at, event, now)?,
        }
        Ok(true)
    }

    /// The result of a step is the next of the order. Time does not go backwards along it.
    pub(super) fn give(&self, history: &mut History, at: usize, now: i64) -> Result<()> {
        let row = &history.ops[at].row;
        let time = row.finished_at.unwrap_or(now).max(history.time);
        self.rows.give(row.id, history.next_seq(), time)?;
        history.order(at, time);
        Ok(())
    }

    /// A sleep has ended, or a wait for an event.
    fn end_wait(&self, history: &mut History, at: usize, now: i64) -> Result<()> {
        let op = &history.ops[at];
        let late = op.row.due.map(|due| now - due);
        if op.row.kind == StepKind::Sleep {
            self.write(history, at, Ok("null"), now)?;
        } else {
            let event = op.asked.as_ref().map_or("", |asked| &asked.event);
            let failure = Failure::new(
                FailureKind::Timeout,
                format!("no event `{event}` arrived in time"),
            );
            self.write(history, at, Err(&failure), now)?;
        }
        if let Some(late) = late.filter(|late| *late >= 0) {
            self.metrics.woken(late);
        }
        self.give(history, at, now)
    }

    /// A step consumes an event, or the result of its child.
    fn receive(&self, history: &mut History, at: usize, event: i64, now: i64) -> Result<()> {
        let row = &history.ops[at].row;
        let name = (
            row.kind,
            history.ops[at]
                .asked
                .as_ref()
                .map(|asked| asked.event.clone())
                .unwrap_or_default(),
        );
        history.inbox.take(&name);
        if name.0 == StepKind::Event {
            self.rows.take_event(event, row.id)?;
            let outcome = Outcome {
                state: StepState::Done,
                output: None,
                error: None,
            };
            self.rows.store(row.id, outcome, now)?;
            let row = &mut history.ops[at].row;
            (row.state, row.event) = (StepState::Done, Some(event));
        } else {
            let payload = self.rows.take_result(event)?;
            let result: Result<Box<RawValue>, Failure> = serde_json::from_str(&payload)
                .unwrap_or_else(|error| {
                    Err(Failure::permanent(format!("a child's result: {error}")))
                });
            self.write(history, at, result.as_ref().map(|output| output.get()), now)?;
        }
        self.give(history, at, now)
    }

    /// Begins due attempts, as many as may run at a time. They start when they are on disk.
    pub(in super::super) fn begin(&self, canceling: bool) -> Result<Vec<usize>> {
        let flights = self.flights(false);
        let room = limits::MAX_PARALLEL.saturating_sub(flights);
        let now = self.now();
        let open = self.open(canceling);
        let history = &mut *self.history.borrow_mut();
        let mut due: Vec<usize> = open
            .into_iter()
            .filter(|at| history.ops[*at].may_begin(now))
            .collect();
        let alone = history.ops.iter().any(|op| op.flying && op.alone);
        let suspect = due.iter().find(|at| history.ops[**at].is_suspect());
        match suspect.copied() {
            // It begins, or others do, when what is in flight has landed.
            _ if alone => due.clear(),
            Some(_) if flights > 0 => due.clear(),
            Some(at) => {
                due = vec![at];
                history.ops[at].alone = true;
            }
            None => due.truncate(room),
        }
        for at in &due {
            let op = &mut history.ops[*at];
            self.rows.begin(op.row.id, now)?;
            op.row.state = StepState::Running;
            op.row.attempts += 1;
            op.row.due = None;
            op.flying = true;
        }
        Ok(due)
    }

    /// Calls the functions of attempts that have begun.
    pub(in super::super) fn let_go(&self, begun: &[usize]) {
        let mut history = self.history.borrow_mut();
        for at in begun {
            // The run may no longer wait for it.
            if history.open.contains(at) {
                let op = &mut history.ops[*at];
                op.go = true;
                op.wake();
            }
        }
    }

    /// Puts back attempts that have not begun after all.
    pub(in super::super) fn give_back(&self, begun: &[usize]) -> Result<()> {
        let now = self.now();
        let history = &mut *self.history.borrow_mut();
        for at in begun {
            if history.open.contains(at) {
                let op = &mut history.ops[*at];
                self.rows.unbegin(op.row.id, now)?;
                op.row.state = StepState::Waiting;
                op.row.attempts = op.row.attempts.saturating_sub(1);
                op.row.due = Some(now);
                (op.flying, op.alone) = (false, false);
            }
        }
        Ok(())
    }

    /// When something of the run is due next.
    pub(in super::super) fn due(&self, canceling: bool) -> Option<i64> {
        let open = self.open(canceling);
        let history = self.history.borrow();
        let rows = open.iter().map(|at| &history.ops[*at].row);
        rows.filter(|row| !row.has_result())
            .filter_map(|row| row.due)
            .min()
    }
}
