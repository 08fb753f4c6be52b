//! What a user writes: the live state, how an outcome changes it, and how old data is brought forward.

use abide::{Error, ErrorKind, Result};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Declaration, Entry};

/// The live state of an object, which is nothing but what its chain of outcomes makes of the default.
///
/// It is serialized to compare it with a replay and to keep a snapshot of it; so everything that matters has to be
/// serialized, and a map's keys have to be texts or numbers.
pub trait Machine: Default + Serialize + DeserializeOwned + 'static {
    /// States, actions, outcomes, and the transitions that they allow.
    const SCHEMA: Declaration;

    /// The version of the data that outcomes are written with. Raise it when the data of an outcome changes its form, or
    /// when something is renamed in the schema, and let [`upcast`](Self::upcast) bring what is older forward.
    const VERSION: u32 = 1;

    /// The version of the state. Raise it when [`apply`](Self::apply) or the fields of the state change: snapshots of
    /// another version are not used.
    const STATE_VERSION: u32 = 1;

    /// Says no to a new outcome that the schema allows, in the light of the state: the default takes all. Nothing was written
    /// yet. It is not asked in replays, so a rule can change while what is written stays.
    fn validate(&self, entry: &Entry) -> Result<()> {
        let _ = entry;
        Ok(())
    }

    /// Changes the state by an outcome whose transition the schema allows.
    ///
    /// It depends on nothing but the state and the entry: not on the clock, on chance, or on storage, so that a replay
    /// comes to the same. Nor on today's rules: a limit or a list of what is known belongs into
    /// [`validate`](Self::validate), or tightening it damages every chain that has gone beyond. When the outcome is new, an error rejects it and nothing has changed, at the price of a replay; in
    /// a replay it means that the chain is damaged.
    fn apply(&mut self, entry: &Entry) -> Result<()>;

    /// Brings an outcome from a version to the next, `from + 1`. It is called once for each version between that of the
    /// outcome and [`VERSION`](Self::VERSION).
    ///
    /// # Errors
    /// An error says that the outcome cannot be read; so does the default for every outcome.
    fn upcast(from: u32, outcome: &mut OldOutcome) -> Result<()> {
        let _ = outcome;
        Err(Error::with_kind(
            ErrorKind::Damaged,
            format!("nothing brings version {from} forward: write `Machine::upcast` for it"),
        ))
    }
}

/// An outcome of an earlier version, to be brought forward.
#[derive(Clone, Debug, PartialEq)]
pub struct OldOutcome {
    /// What was tried.
    pub action: String,
    /// What came of it.
    pub outcome: String,
    /// What is known of it.
    pub data: Value,
}
