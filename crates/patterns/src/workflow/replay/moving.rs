//! The driver's side: results that are due, attempts that begin.

use abide::Result;

use super::{Replay, asking::WHAT_TO_DO};
use crate::broken::{Variant, broken};
use crate::workflow::{Failure, StepKind, StepState, limits};

impl Replay {
    /// Gives the run the next result; false if it has all.
    pub(in super::super) fn deliver(&self) -> bool {
        self.history.borrow_mut().deliver()
    }

    /// What a run that rests, or has ended, should have asked for and has not.
    pub(in super::super) fn misses(&self, ended: bool) -> Option<String> {
        if broken(Variant::MissingUnnoticed) {
            return None;
        }
        let history = self.history.borrow();
        let missing = if ended {
            history.missing_at_all()
        } else {
            history.missing()
        };
        missing.map(|op| {
            format!(
                "{} `{}` was asked for after {} results, and is not any more: {WHAT_TO_DO}",
                op.row.kind.as_str(),
                op.row.name,
                op.row.asked
            )
        })
    }

    /// True if the run knows that it is canceled.
    pub(in super::super) fn is_canceled(&self) -> bool {
        self.history.borrow().canceled
    }

    /// Attempts that are on their way; only those that a cancellation waits for, or all.
    pub(in super::super) fn flights(&self, only_plain: bool) -> usize {
        let history = self.history.borrow();
        let flying = history.open.iter().map(|at| &history.ops[*at]);
        let counted = |shielded: bool| !(only_plain && shielded);
        flying
            .filter(|op| {
                op.flying && counted(op.asked.as_ref().is_some_and(|asked| asked.shielded))
            })
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

    /// Steps that the run waits for; if it is to be canceled, only those that are done all the same.
    fn open(&self, canceling: bool) -> Vec<usize> {
        let history = self.history.borrow();
        let canceling = canceling || history.canceled;
        let open = history.open.iter().copied();
        open.filter(|at| {
            let asked = history.ops[*at].asked.as_ref();
            !canceling || asked.is_some_and(|asked| asked.shielded)
        })
        .collect()
    }

    /// Writes the results of what is due: times that have come, events that are there, attempts that nobody makes any more.
    /// True if there are some.
    pub(in super::super) fn advance(&self, canceling: bool) -> Result<bool> {
        let before = self.history.borrow().last;
        for at in self.open(canceling) {
            self.advance_one(at)?;
        }
        Ok(self.history.borrow().last > before)
    }

    fn advance_one(&self, at: usize) -> Result<()> {
        let history = &mut *self.history.borrow_mut();
        let op = &history.ops[at];
        let early = 1_000 * i64::from(broken(Variant::SleepEarly));
        let due = op.row.due.is_some_and(|due| due <= self.now() + early);
        match op.row.kind {
            StepKind::Step if op.row.state == StepState::Running && !op.flying => {
                // Its object or its process has ended.
                let cut_off =
                    Failure::temporary("the object or its process ended before the answer came");
                self.fail(history, at, &cut_off)
            }
            StepKind::Sleep if due => self.done(history, at, Ok("null"), None),
            StepKind::Event | StepKind::Child => {
                let Some(asked) = &op.asked else {
                    return Ok(());
                };
                match self.rows.take_event(op.row.kind, &asked.event)? {
                    Some((id, payload)) if op.row.kind == StepKind::Event => {
                        self.done(history, at, Ok(&payload), Some(id))
                    }
                    Some((id, payload)) => {
                        let result: Result<Box<serde_json::value::RawValue>, Failure> =
                            serde_json::from_str(&payload).unwrap_or_else(|error| {
                                Err(Failure::permanent(format!("a child's result: {error}")))
                            });
                        match result {
                            Ok(output) => self.done(history, at, Ok(output.get()), Some(id)),
                            Err(failure) => self.done(history, at, Err(&failure), Some(id)),
                        }
                    }
                    None if due => {
                        let late =
                            Failure::timeout(format!("no event `{}` came in time", asked.event));
                        self.done(history, at, Err(&late), None)
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Begins attempts that are due, as many as may run at a time. They are to be let go when they are on disk.
    pub(in super::super) fn begin(&self, canceling: bool) -> Result<Vec<usize>> {
        let mut room = limits::MAX_PARALLEL.saturating_sub(self.flights(false));
        let mut begun = Vec::new();
        let now = self.now();
        for at in self.open(canceling) {
            if room == 0 {
                break;
            }
            let history = &mut *self.history.borrow_mut();
            let op = &mut history.ops[at];
            let waits = matches!(op.row.state, StepState::New | StepState::Waiting);
            let due = op.row.due.is_none_or(|due| due <= now);
            if op.row.kind == StepKind::Step && waits && due && !op.flying {
                self.rows.begin(op.row.id, now)?;
                op.row.state = StepState::Running;
                op.row.attempts += u32::from(!broken(Variant::AttemptUncounted));
                op.row.due = None;
                op.flying = true;
                begun.push(at);
                room -= 1;
            }
        }
        Ok(begun)
    }

    /// Calls the functions of attempts that have begun.
    pub(in super::super) fn let_go(&self, begun: &[usize]) {
        let mut history = self.history.borrow_mut();
        for at in begun {
            // The run may have lost interest.
            if history.is_asked(*at, StepKind::Step) {
                let op = &mut history.ops[*at];
                op.go = true;
                op.wake();
            }
        }
    }

    /// When something of the run is due next.
    pub(in super::super) fn due(&self, canceling: bool) -> Option<i64> {
        let open = self.open(canceling);
        let history = self.history.borrow();
        let due = open.iter().filter_map(|at| history.ops[*at].row.due);
        due.min()
    }
}
