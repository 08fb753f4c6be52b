//! The run's side: asking for steps, attempts, results.

use std::{
    future::{pending, poll_fn},
    rc::Rc,
    task::Poll,
    time::Duration,
};

use super::{
    Replay, Trouble, child_id,
    history::{AskedFor, History},
};
use crate::broken::{Variant, broken};
use crate::numbers::millis;
use crate::workflow::{
    Attempt, Failure, FailureKind, RetryPolicy, StepKind, StepState,
    figures::Running,
    limits,
    notices::{self, Child},
    rows::{Done, StepRow},
};

/// What is to happen when a step is asked for.
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

/// What comes next for a step.
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
        // A run may be dropped while its driver looks at the history.
        if let Ok(mut history) = self.replay.history.try_borrow_mut() {
            history.close(self.at);
        }
    }
}

impl Asked {
    /// Waits for what comes next.
    pub(in super::super) async fn next(&self) -> Next {
        poll_fn(|cx| {
            let next = self.replay.next(self.at);
            if next.is_none() {
                let mut history = self.replay.history.borrow_mut();
                history.ops[self.at].waker = Some(cx.waker().clone());
            }
            next.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the result of what has no function.
    pub(in super::super) async fn result(&self) -> Result<String, Failure> {
        match self.next().await {
            Next::Result(result) => result,
            Next::Attempt(_) => pending().await,
        }
    }

    /// The attempt's function is called, until this is dropped.
    pub(in super::super) fn running(&self) -> Running {
        self.replay.figures.begin()
    }

    /// An attempt has ended.
    pub(in super::super) fn landed(&self, result: Result<String, Failure>) {
        if let Err(error) = self.replay.land(self.at, result) {
            self.replay.stop(Trouble::Storage(error));
        }
    }

    /// The stored result is not what the program takes it for.
    pub(in super::super) async fn misfit<T>(&self, error: &serde_json::Error) -> T {
        let name = self.replay.history.borrow().ops[self.at].row.name.clone();
        self.replay.stop(Trouble::Changed(format!(
            "the stored result of `{name}` does not fit its type any more ({error}): {WHAT_TO_DO}"
        )));
        pending().await
    }
}

/// What to do when the program has been changed.
pub(in super::super) const WHAT_TO_DO: &str = "let the workflow ask for the same as before, and give a changed one a new name; \
     or restart this instance from a step before the change";

impl Replay {
    /// The run asks for a step. It waits for ever if it does not fit its history.
    pub(in super::super) async fn ask(
        self: &Rc<Self>,
        name: &str,
        shielded: bool,
        launch: Launch,
    ) -> Result<Asked, Failure> {
        if self.history.borrow().canceled && !shielded {
            return Err(was_canceled());
        }
        if !(1..=limits::MAX_STEP_NAME_BYTES).contains(&name.len()) {
            return Err(Failure::permanent(format!(
                "the name of a step has 1 to {} bytes, not {}",
                limits::MAX_STEP_NAME_BYTES,
                name.len()
            )));
        }
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
        let uses = history.uses.entry(name.to_owned()).or_default();
        *uses += 1;
        let full = match *uses {
            1 => name.to_owned(),
            uses => format!("{name} ({uses})"),
        };
        let kind = launch.kind();
        let at = match history.find(&full) {
            Some(at) => {
                fits(history, at, kind)?;
                at
            }
            None => self.add(history, &full, kind, shielded)?,
        };
        let mut event = name.to_owned();
        let row = &history.ops[at].row;
        if kind == StepKind::Child {
            event = child_id(&self.id, &full, row.key_run);
            if event.len() > limits::MAX_ID_BYTES {
                return Err(Refusal::Failure(Failure::permanent(format!(
                    "the id of child `{full}` would have {} bytes; at most {} are allowed",
                    event.len(),
                    limits::MAX_ID_BYTES
                ))));
            }
        }
        if row.state == StepState::New {
            self.launch(history, at, &launch, &event)?;
        }
        let policy = match launch {
            Launch::Step(policy) => policy,
            _ => RetryPolicy::default(),
        };
        history.open(
            at,
            AskedFor {
                event,
                policy,
                shielded,
            },
        );
        Ok(at)
    }

    fn add(
        &self,
        history: &mut History,
        name: &str,
        kind: StepKind,
        shielded: bool,
    ) -> Result<usize, Refusal> {
        if history.delivered < history.last && !broken(Variant::InsertedUnnoticed) {
            return Err(Refusal::changed(format!(
                "after {} results, {} `{name}` was asked for, which was not so before: {WHAT_TO_DO}",
                history.delivered,
                kind.as_str()
            )));
        }
        if history.ops.len() >= limits::MAX_STEPS {
            return Err(Refusal::Failure(Failure::permanent(format!(
                "an instance has at most {} steps: hand some of its work to children",
                limits::MAX_STEPS
            ))));
        }
        let asked = history.delivered;
        let (id, key_run) = self.rows.ask(name, kind, (shielded, asked), self.now())?;
        Ok(history.add(StepRow {
            id,
            name: name.to_owned(),
            kind,
            asked,
            state: StepState::New,
            attempts: 0,
            key_run,
            due: None,
            seq: None,
            finished_at: None,
        }))
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
        let after = |wait: Duration| Some(now.saturating_add(millis(wait.min(limits::MAX_WAIT))));
        let due = match launch {
            Launch::Step(_) => return Ok(()),
            Launch::Until(at) => Some((*at).clamp(0, limits::MAX_TIME)),
            Launch::Sleep(wait) | Launch::Event(wait) => after(*wait),
            Launch::Child { workflow, input } => {
                let child = Child {
                    workflow: (*workflow).to_owned(),
                    input: input.clone(),
                };
                self.rows
                    .add_notice(notices::START, event, &notices::to_json(&child)?, now)?;
                let row = &mut history.ops[at].row;
                self.rows.wait_for_child(row.id, event, workflow)?;
                row.state = StepState::Waiting;
                return Ok(());
            }
        };
        let row = &mut history.ops[at].row;
        self.rows.wait(row.id, due, None)?;
        row.state = StepState::Waiting;
        row.due = due;
        Ok(())
    }

    /// What comes next for a step, if anything does.
    fn next(&self, at: usize) -> Option<Next> {
        let mut history = self.history.borrow_mut();
        let (delivered, canceled) = (history.delivered, history.canceled);
        let op = &mut history.ops[at];
        let shielded = op.asked.as_ref().is_some_and(|asked| asked.shielded);
        if op.row.seq.is_some_and(|seq| seq <= delivered) {
            let id = op.row.id;
            drop(history);
            return match self.rows.outcome(id) {
                Ok((StepState::Done, output, _)) => {
                    Some(Next::Result(Ok(output.unwrap_or_else(|| "null".into()))))
                }
                Ok((_, _, error)) => {
                    let error = error.unwrap_or_default();
                    Some(Next::Result(Err(Failure::from_json(&error))))
                }
                Err(error) => {
                    self.stop(Trouble::Storage(error));
                    None
                }
            };
        }
        if canceled && !shielded {
            return Some(Next::Result(Err(was_canceled())));
        }
        if !op.go {
            return None;
        }
        op.go = false;
        Some(Next::Attempt(Attempt {
            env: self.env.clone(),
            number: op.row.attempts,
            key: if broken(Variant::KeyOfAttempt) {
                self.key(&op.row.name, op.row.attempts.into())
            } else {
                self.key(&op.row.name, op.row.key_run)
            },
            cancel: Rc::clone(&self.cancel),
        }))
    }

    /// An attempt has ended.
    fn land(&self, at: usize, result: Result<String, Failure>) -> abide::Result<()> {
        let history = &mut *self.history.borrow_mut();
        history.ops[at].flying = false;
        match result {
            Ok(output) => self.done(history, at, Ok(&output), None),
            Err(failure) => self.fail(history, at, &failure),
        }
    }

    /// An attempt has failed: the step waits for the next one, or has failed, too.
    pub(super) fn fail(
        &self,
        history: &mut History,
        at: usize,
        failure: &Failure,
    ) -> abide::Result<()> {
        let op = &mut history.ops[at];
        let attempts = op.row.attempts;
        if failure.kind() != FailureKind::Temporary {
            return self.done(history, at, Err(failure), None);
        }
        let key = self.key(&op.row.name, op.row.key_run);
        let policy = op.asked.as_ref().map(|asked| &asked.policy);
        let Some(wait) = policy.and_then(|policy| policy.wait(attempts, &key)) else {
            let last = Failure::temporary(format!("{failure}; attempt {attempts} was the last"));
            return self.done(history, at, Err(&last), None);
        };
        let asked = failure.after().unwrap_or_default().min(limits::MAX_WAIT);
        let due = Some(self.now().saturating_add(millis(wait.max(asked))));
        op.row.state = StepState::Waiting;
        op.row.due = due;
        self.figures.retried();
        self.rows.wait(op.row.id, due, Some(&failure.to_json()))
    }

    /// A step has its result.
    pub(super) fn done(
        &self,
        history: &mut History,
        at: usize,
        result: Result<&str, &Failure>,
        event: Option<i64>,
    ) -> abide::Result<()> {
        let now = self.now();
        let error = result.err().map(Failure::to_json);
        let state = match result {
            Ok(_) => StepState::Done,
            Err(_) => StepState::Failed,
        };
        let done = Done {
            seq: history.next_seq(),
            state,
            output: result.ok(),
            error: error.as_deref(),
            event,
        };
        let row = &history.ops[at].row;
        self.rows.done(row.id, done, now)?;
        match row.due {
            _ if row.kind == StepKind::Step => self.figures.ended(result.is_ok()),
            Some(due) if due <= now => self.figures.woken(now - due),
            _ => {}
        }
        history.done(at, state, now);
        Ok(())
    }
}

/// Why a step cannot be asked for.
enum Refusal {
    Failure(Failure),
    Trouble(Trouble),
}

impl Refusal {
    fn changed(text: String) -> Self {
        Self::Trouble(Trouble::Changed(text))
    }
}

impl From<abide::Error> for Refusal {
    fn from(error: abide::Error) -> Self {
        Self::Trouble(Trouble::Storage(error))
    }
}

/// Refuses a step that was another one before.
fn fits(history: &History, at: usize, kind: StepKind) -> Result<(), Refusal> {
    let row = &history.ops[at].row;
    if row.kind != kind {
        return Err(Refusal::changed(format!(
            "`{}` was of kind {} and is now of kind {}: {WHAT_TO_DO}",
            row.name,
            row.kind.as_str(),
            kind.as_str()
        )));
    }
    if row.asked != history.delivered && !broken(Variant::MovedUnnoticed) {
        return Err(Refusal::changed(format!(
            "{} `{}` was asked for after {} results, and is now after {}: {WHAT_TO_DO}",
            kind.as_str(),
            row.name,
            row.asked,
            history.delivered
        )));
    }
    Ok(())
}

fn was_canceled() -> Failure {
    Failure::canceled("the instance was canceled")
}
