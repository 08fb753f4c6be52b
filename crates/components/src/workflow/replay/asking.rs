//! The run's side: requests, attempts, results.

use std::{
    future::{pending, poll_fn},
    rc::Rc,
    task::Poll,
    time::Duration,
};

use super::{
    Mode, Replay, Trouble,
    history::{History, Op, StepRequest},
};
use crate::workflow::{
    Attempt, Failure, RetryPolicy, StepKind, StepName, StepState, failure, limits,
    metrics::Running,
    notice::{self, Child},
    rows::Outcome,
};
use abide_component::{Decision, Tried, numbers::millis};

/// The requested step.
pub(in super::super) enum Launch {
    Step(RetryPolicy),
    /// Until a time.
    Until(i64),
    Sleep(Duration),
    Event(Duration),
    Child {
        workflow: &'static str,
        input: String,
    },
}

impl Launch {
    fn kind(&self) -> StepKind {
        match self {
            Self::Step(_) => StepKind::Step,
            Self::Until(_) | Self::Sleep(_) => StepKind::Sleep,
            Self::Event(_) => StepKind::Event,
            Self::Child { .. } => StepKind::Child,
        }
    }
}

/// The next action of a step.
pub(in super::super) enum Next {
    /// Its function is to be called.
    Attempt(Attempt),
    /// It has its result, as JSON.
    Result(Result<String, Failure>),
}

/// A step that the run waits for, until this is dropped.
pub(in super::super) struct Asked {
    replay: Rc<Replay>,
    at: usize,
}

impl Drop for Asked {
    fn drop(&mut self) {
        // A run may be dropped while its driver reads the history.
        if let Ok(mut history) = self.replay.history.try_borrow_mut() {
            history.close(self.at);
        }
    }
}

impl Asked {
    /// Waits for the next action.
    pub(in super::super) async fn next(&self) -> Next {
        poll_fn(|cx| {
            let next = self.replay.next(self.at);
            if next.is_none() {
                self.replay.history.borrow_mut().ops[self.at].wait(cx.waker());
            }
            next.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the result of a step without a function.
    pub(in super::super) async fn result(&self) -> Result<String, Failure> {
        match self.next().await {
            Next::Result(result) => result,
            Next::Attempt(_) => pending().await,
        }
    }

    /// The attempt's function is called, until this is dropped.
    pub(in super::super) fn running(&self) -> Running {
        self.replay.metrics.begin()
    }

    /// An attempt has ended.
    pub(in super::super) fn landed(&self, result: Result<String, Failure>) {
        if let Err(error) = self.replay.land(self.at, result) {
            self.replay.stop(Trouble::Storage(error));
        }
    }

    /// The stored result has another type than the program expects.
    pub(in super::super) async fn misfit<T>(&self, error: &serde_json::Error) -> T {
        let name = self.replay.history.borrow().ops[self.at].row.step();
        self.replay.stop(Trouble::Changed(format!(
            "the stored result of `{name}` no longer matches its type ({error}): {WHAT_TO_DO}"
        )));
        pending().await
    }
}

/// What to do when the program has been changed.
pub(in super::super) const WHAT_TO_DO: &str = "let the workflow ask for the same as before, and give a changed one a new name; \
     or restart this instance from a step before the change";

impl Replay {
    /// The run requests a step. It waits forever if it does not match its history.
    pub(in super::super) async fn ask(
        self: &Rc<Self>,
        name: &str,
        shielded: bool,
        launch: Launch,
    ) -> Result<Asked, Failure> {
        if self.history.borrow().canceled && !shielded {
            return Err(failure::canceled());
        }
        check_name("a step", name)?;
        match self.meet(name, shielded, launch) {
            Ok(at) => Ok(Asked {
                replay: Rc::clone(self),
                at,
            }),
            Err(Refusal::Failure(failure)) => Err(failure),
            Err(Refusal::Trouble(trouble)) => {
                self.stop(trouble);
                pending().await
            }
        }
    }

    /// Finds a step in the history, or adds it at the end.
    fn meet(&self, name: &str, shielded: bool, launch: Launch) -> Result<usize, Refusal> {
        let history = &mut *self.history.borrow_mut();
        // A refusal leaves no trace, so a replay must refuse it at the same position.
        if history.asked >= limits::MAX_STEPS {
            return Err(Refusal::Failure(Failure::permanent(format!(
                "an instance has at most {} steps: move some of its work to children, or continue as new",
                limits::MAX_STEPS
            ))));
        }
        let step = history.next_use(name);
        let kind = launch.kind();
        if kind == StepKind::Child {
            self.check_child(&step)?;
        }
        let at = match history.find(&step) {
            Some(at) => {
                fits(history, at, kind)?;
                at
            }
            None => self.add(history, &step, kind, shielded)?,
        };
        let row = &history.ops[at].row;
        let event = match kind {
            StepKind::Child => row
                .child
                .clone()
                .unwrap_or_else(|| self.child_id(&step, row.key_run)),
            _ => name.to_owned(),
        };
        if row.state == StepState::New && self.mode == Mode::Life {
            self.launch(history, at, &launch, &event)?;
        }
        let policy = match launch {
            Launch::Step(policy) => policy,
            _ => RetryPolicy::default(),
        };
        history.open(
            at,
            StepRequest {
                event,
                policy,
                shielded,
            },
        );
        Ok(at)
    }

    /// Refuses a child whose id would be too long, in this run or another.
    fn check_child(&self, step: &StepName) -> Result<(), Refusal> {
        let longest = self.child_id(step, i64::MAX).len();
        if longest > limits::MAX_ID_BYTES {
            return Err(Refusal::Failure(Failure::permanent(format!(
                "the id of child `{step}` would have {longest} bytes; at most {} are allowed",
                limits::MAX_ID_BYTES
            ))));
        }
        Ok(())
    }

    fn add(
        &self,
        history: &mut History,
        step: &StepName,
        kind: StepKind,
        shielded: bool,
    ) -> Result<usize, Refusal> {
        let is_past = history.delivered < history.last;
        if is_past || self.mode == Mode::Rehearsal {
            return Err(Refusal::changed(format!(
                "after {} results, {} `{step}` was requested, which is not in the history: {WHAT_TO_DO}",
                history.delivered,
                kind.as_str()
            )));
        }
        let asked = (shielded, history.delivered);
        let row = self.rows.ask(step, kind, asked, self.now())?;
        Ok(history.add(row))
    }

    /// A step that has not begun yet waits for its time, or its child is started.
    fn launch(
        &self,
        history: &mut History,
        at: usize,
        launch: &Launch,
        event: &str,
    ) -> abide::Result<()> {
        let now = self.now();
        let row = &mut history.ops[at].row;
        match launch {
            Launch::Step(_) => return Ok(()),
            Launch::Until(time) => {
                let due = (*time).clamp(0, limits::MAX_TIME);
                self.rows.wait_until(row.id, due)?;
                (row.due, row.fixed) = (Some(due), true);
            }
            Launch::Sleep(wait) | Launch::Event(wait) => {
                let due = now.saturating_add(millis((*wait).min(limits::MAX_WAIT)));
                self.rows.wait(row.id, Some(due), None)?;
                row.due = Some(due);
            }
            Launch::Child { workflow, input } => {
                let child = Child {
                    workflow: (*workflow).to_owned(),
                    input: input.clone(),
                };
                self.rows
                    .add_notice(notice::START, event, &notice::to_json(&child)?, now)?;
                self.rows.wait_for_child(row.id, event, workflow)?;
            }
        }
        row.state = StepState::Waiting;
        Ok(())
    }

    /// The next action of a step, if there is one.
    fn next(&self, at: usize) -> Option<Next> {
        let mut history = self.history.borrow_mut();
        let delivered = history.delivered;
        let op = &mut history.ops[at];
        if op.row.seq.is_some_and(|seq| seq <= delivered) {
            let id = op.row.id;
            drop(history);
            return match self.rows.outcome(id) {
                Ok((StepState::Done, output, _)) => {
                    Some(Next::Result(Ok(output.unwrap_or_else(|| "null".into()))))
                }
                Ok((_, _, error)) => {
                    let error = error.unwrap_or_default();
                    Some(Next::Result(Err(failure::from_json(&error))))
                }
                Err(error) => {
                    self.stop(Trouble::Storage(error));
                    None
                }
            };
        }
        if op.canceled {
            return Some(Next::Result(Err(failure::canceled())));
        }
        if !op.go {
            return None;
        }
        op.go = false;
        Some(Next::Attempt(Attempt {
            env: self.env.clone(),
            number: op.row.attempts,
            key: self.key(&op.row.step(), op.row.key_run),
            cancel: Rc::clone(&self.cancel),
        }))
    }

    /// An attempt has ended.
    fn land(&self, at: usize, result: Result<String, Failure>) -> abide::Result<()> {
        let history = &mut *self.history.borrow_mut();
        history.ops[at].flying = false;
        history.ops[at].alone = false;
        match result {
            Ok(output) => self.store(history, at, Ok(&output)),
            Err(failure) => self.fail(history, at, &failure, false),
        }
    }

    /// An attempt has failed, or was cut off, `alone` or with others in flight: the step waits for the next one, or has
    /// failed, too. A step with a single attempt that was cut off has failed: it is never repeated.
    pub(super) fn fail(
        &self,
        history: &mut History,
        at: usize,
        failure: &Failure,
        alone: bool,
    ) -> abide::Result<()> {
        let now = self.now();
        let op = &mut history.ops[at];
        op.setback.failed(failure, now);
        let key = self.key(&op.row.step(), op.row.key_run);
        let policy = op.asked.as_ref().map(|asked| &asked.policy);
        let policy = policy.map_or_else(|| RetryPolicy::once().rule(), RetryPolicy::rule);
        let tried = Tried {
            attempts: op.counted(),
            throttled: op.setback.throttled,
            throttled_since: op.setback.throttled_since.unwrap_or(now),
            alone: alone || policy.max_attempts() <= 1,
            parts: Some(&[key.as_bytes(), &op.row.attempts.to_le_bytes()]),
        };
        match policy.decide(failure, tried, now) {
            Decision::Again { wait, counts, .. } => {
                op.setback.throttled += u32::from(!counts);
                self.try_again(op, wait, failure)
            }
            Decision::GiveUp(_) if !failure.kind().is_retried() => {
                self.store(history, at, Err(failure))
            }
            Decision::GiveUp(error) => self.store(history, at, Err(&Failure::temporary(error))),
        }
    }

    fn try_again(&self, op: &mut Op, wait: i64, failure: &Failure) -> abide::Result<()> {
        let due = Some(self.now().saturating_add(wait));
        op.row.state = StepState::Waiting;
        op.row.due = due;
        self.metrics.retried();
        let setback = op.setback.to_json(failure);
        self.rows.wait(op.row.id, due, Some(&setback))
    }

    /// An attempt has returned a step's result, which the run receives when it is its turn.
    fn store(
        &self,
        history: &mut History,
        at: usize,
        result: Result<&str, &Failure>,
    ) -> abide::Result<()> {
        let now = self.now();
        self.write(history, at, result, now)?;
        self.metrics.ended(result.is_ok());
        history.has_result(at);
        Ok(())
    }

    /// Stores a step's result.
    pub(super) fn write(
        &self,
        history: &mut History,
        at: usize,
        result: Result<&str, &Failure>,
        now: i64,
    ) -> abide::Result<()> {
        let row = &mut history.ops[at].row;
        row.state = match result {
            Ok(_) => StepState::Done,
            Err(_) => StepState::Failed,
        };
        row.finished_at = Some(now);
        let error = result.err().map(failure::to_json);
        let outcome = Outcome {
            state: row.state,
            output: result.ok(),
            error: error.as_deref(),
        };
        self.rows.store(row.id, outcome, now)
    }
}

/// Refuses an invalid name.
pub(super) fn check_name(whose: &str, name: &str) -> Result<(), Failure> {
    if (1..=limits::MAX_STEP_NAME_BYTES).contains(&name.len()) {
        return Ok(());
    }
    Err(Failure::permanent(format!(
        "the name of {whose} has 1 to {} bytes, not {}",
        limits::MAX_STEP_NAME_BYTES,
        name.len()
    )))
}

/// Why a step cannot be requested.
pub(super) enum Refusal {
    Failure(Failure),
    Trouble(Trouble),
}

impl Refusal {
    pub(super) fn changed(text: String) -> Self {
        Self::Trouble(Trouble::Changed(text))
    }
}

impl From<abide::Error> for Refusal {
    fn from(error: abide::Error) -> Self {
        Self::Trouble(Trouble::Storage(error))
    }
}

/// Refuses a step that differs from the history.
fn fits(history: &History, at: usize, kind: StepKind) -> Result<(), Refusal> {
    let row = &history.ops[at].row;
    if row.kind != kind {
        return Err(Refusal::changed(format!(
            "`{}` was of kind {} and is now of kind {}: {WHAT_TO_DO}",
            row.step(),
            row.kind.as_str(),
            kind.as_str()
        )));
    }
    if row.asked != history.delivered {
        return Err(Refusal::changed(format!(
            "{} `{}` was requested after {} results, and is now requested after {}: {WHAT_TO_DO}",
            kind.as_str(),
            row.step(),
            row.asked,
            history.delivered
        )));
    }
    Ok(())
}
