//! The history of an instance, as its run experiences it.
//!
//! Contract: a run receives results one at a time, each when it has made no more progress after the previous one. A
//! stored result has no position in the order yet: it gets one when the run has received all that have one and makes no
//! more progress, and is then delivered to the run. So the first execution behaves exactly like a replay, and a
//! replayed run does what the first did, including races of futures. Each request of the run is recorded with the
//! number of results at that time; a program that requests something else is detected at the first difference.

mod asking;
mod history;
mod inbox;
mod moving;
mod naming;
mod ready;
mod versions;

use std::{cell::RefCell, rc::Rc};

use abide::Env;
use sha2::Sha256;

use super::{
    Failure,
    attempt::Cancel,
    failure,
    metrics::Metrics,
    rows::{Instance, Rows, StepRow},
};

pub(super) use asking::{Asked, Launch, Next, WHAT_TO_DO};
use history::History;

/// Why a run cannot continue.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It does not match its history; the text says what to do.
    Changed(String),
    /// The storage failed.
    Storage(abide::Error),
}

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It continues where the history ends.
    Life,
    /// It rehearses that a replay leads to the same state. Nothing is written.
    Rehearsal,
}

/// The history of one instance, shared by its run and its driver.
pub(super) struct Replay {
    mode: Mode,
    rows: Rows,
    env: Env,
    id: String,
    /// The prefix of its idempotency keys.
    seed: Sha256,
    cancel: Rc<Cancel>,
    metrics: Metrics,
    history: RefCell<History>,
}

impl Replay {
    /// Begins at the first result.
    pub(super) fn new(
        rows: &Rows,
        env: &Env,
        instance: &Instance,
        cancel: &Rc<Cancel>,
        steps: Vec<StepRow>,
        mode: Mode,
    ) -> Rc<Self> {
        Rc::new(Self {
            mode,
            rows: rows.clone(),
            env: env.clone(),
            id: instance.id.clone(),
            seed: naming::seed(instance),
            cancel: Rc::clone(cancel),
            metrics: Metrics::new(&instance.workflow),
            history: RefCell::new(History::new(instance, steps)),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The time of the newest result that the run has.
    pub(super) fn time(&self) -> i64 {
        self.history.borrow().time
    }

    /// The number of steps that the run has requested.
    pub(super) fn asked(&self) -> usize {
        self.history.borrow().asked
    }

    /// Why the run cannot continue, if so.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.history.borrow_mut().trouble.take()
    }

    fn now(&self) -> i64 {
        self.env.now().unix_millis()
    }

    /// The run has ended, and another is to follow it with this input.
    pub(super) fn succeed(&self, input: String) -> Result<(), Failure> {
        let mut history = self.history.borrow_mut();
        if history.canceled {
            return Err(failure::canceled());
        }
        history.successor = Some(input);
        Ok(())
    }

    /// The input of the run that is to follow, if one is.
    pub(super) fn successor(&self) -> Option<String> {
        self.history.borrow_mut().successor.take()
    }

    /// The numbers of results that the run has received and of steps that it has requested.
    pub(super) fn progress(&self) -> (i64, usize) {
        let history = self.history.borrow();
        (history.delivered, history.asked)
    }

    /// Moves relative waits earlier by this much, as in storage.
    pub(super) fn bring_nearer(&self, by: i64) {
        self.history.borrow_mut().bring_nearer(by);
    }

    fn stop(&self, trouble: Trouble) {
        self.history.borrow_mut().trouble.get_or_insert(trouble);
    }
}
