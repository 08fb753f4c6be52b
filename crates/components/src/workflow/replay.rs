//! The history of an instance, as its run meets it.
//!
//! Contract: a run is given results one at a time, and each when it has come to rest after the one before. A result that is
//! stored has no place in the order yet: it gets one when the run has all that have one and rests, and is given to the run
//! then. So a life does the very same as a replay, and a run that is made anew does what the first did, races of futures
//! included. What the run asks for is noted with the number of results that it had then; a program that asks for something
//! else is found at the first place where it does.

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
    figures::Figures,
    rows::{Instance, Rows, StepRow},
};

pub(super) use asking::{Asked, Launch, Next, WHAT_TO_DO};
use history::History;

/// Why a run cannot go on.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It does not fit its history; the text says what to do.
    Changed(String),
    /// The storage failed.
    Storage(abide::Error),
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It goes on where the history ends.
    Life,
    /// It shows that a replay comes to where life is. Nothing is written.
    Rehearsal,
}

/// The history of one instance, shared by its run and by who drives it.
pub(super) struct Replay {
    mode: Mode,
    rows: Rows,
    env: Env,
    id: String,
    /// What its idempotency keys begin with.
    seed: Sha256,
    cancel: Rc<Cancel>,
    figures: Figures,
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
            figures: Figures::new(&instance.workflow),
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

    /// How many steps the run has asked for.
    pub(super) fn asked(&self) -> usize {
        self.history.borrow().asked
    }

    /// Why the run cannot go on, if so.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.history.borrow_mut().trouble.take()
    }

    fn now(&self) -> i64 {
        i64::try_from(self.env.clock().unix_millis()).unwrap_or(i64::MAX)
    }

    /// The run has ended, and another is to follow it with this input.
    pub(super) fn succeed(&self, input: String) -> Result<(), Failure> {
        let mut history = self.history.borrow_mut();
        if history.canceled {
            return Err(asking::was_canceled());
        }
        history.successor = Some(input);
        Ok(())
    }

    /// The input of the run that is to follow, if one is.
    pub(super) fn successor(&self) -> Option<String> {
        self.history.borrow_mut().successor.take()
    }

    /// The results that the run has, and the steps that it has asked for.
    pub(super) fn progress(&self) -> (i64, usize) {
        let history = self.history.borrow();
        (history.delivered, history.asked)
    }

    /// Brings nearer by so much what waits, as it was done in storage.
    pub(super) fn bring_nearer(&self, by: i64) {
        self.history.borrow_mut().bring_nearer(by);
    }

    fn stop(&self, trouble: Trouble) {
        self.history.borrow_mut().trouble.get_or_insert(trouble);
    }
}
