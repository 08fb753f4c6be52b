//! The history of an instance, as its run meets it.
//!
//! Contract: a run is given results one at a time, in the order in which they were stored, and each when the run has come to
//! rest after the one before; what it asks for is noted with the number of results that it had then. So a run that is made
//! anew from storage does what the first did, races of futures included; a program that asks for something else is found at
//! the first place where it does. Nothing new begins before the last stored result was given.

mod asking;
mod history;
mod moving;

use std::{cell::RefCell, rc::Rc};

use abide::Env;
use sha2::{Digest, Sha256};

use super::{
    attempt::Cancel,
    figures::Figures,
    rows::{Instance, Rows, StepRow},
};

pub(super) use asking::{Asked, Launch, Next};
use history::History;

/// Why a run cannot go on.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It does not fit its history; the text says what to do.
    Changed(String),
    /// The storage failed.
    Storage(abide::Error),
}

/// The history of one instance, shared by its run and by who drives it.
pub(super) struct Replay {
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
    ) -> Rc<Self> {
        let mut seed = Sha256::new();
        for part in [instance.workflow.as_bytes(), instance.id.as_bytes()] {
            seed.update(part.len().to_le_bytes());
            seed.update(part);
        }
        // An id may be used again when its first instance is forgotten.
        seed.update(instance.created_at.to_le_bytes());
        Rc::new(Self {
            rows: rows.clone(),
            env: env.clone(),
            id: instance.id.clone(),
            seed,
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

    /// Why the run cannot go on, if so.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.history.borrow_mut().trouble.take()
    }

    fn now(&self) -> i64 {
        i64::try_from(self.env.clock().unix_millis()).unwrap_or(i64::MAX)
    }

    /// A step's idempotency key.
    fn key(&self, name: &str, run: i64) -> String {
        let mut hash = self.seed.clone();
        hash.update(run.to_le_bytes());
        hash.update(name);
        let hash = hash.finalize();
        let hex: Vec<String> = hash[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("wf_{}", hex.concat())
    }

    fn stop(&self, trouble: Trouble) {
        self.history.borrow_mut().trouble.get_or_insert(trouble);
    }
}

/// The id of a step's child.
pub(super) fn child_id(parent: &str, name: &str, run: i64) -> String {
    match run {
        1 => format!("{parent}/{name}"),
        run => format!("{parent}/{name}~{run}"),
    }
}
