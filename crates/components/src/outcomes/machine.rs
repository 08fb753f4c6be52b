//! The machine, which users implement: the live state, how an outcome changes it, and how old data is upcast.

use abide::{Error, ErrorKind, Result};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Declaration, Entry};

/// The live state of an object, computed from the default by its chain of outcomes.
///
/// It is serialized to compare it with a replay and to store a snapshot; so everything that matters must be serialized,
/// and the keys of maps must be texts or numbers.
pub trait Machine: Default + Serialize + DeserializeOwned + 'static {
    /// States, actions, outcomes, and the allowed transitions.
    const SCHEMA: Declaration;

    /// The version of the data of new outcomes. Raise it when the format of an outcome's data changes, or when
    /// something is renamed in the schema, and let [`upcast`](Self::upcast) convert older outcomes.
    const VERSION: u32 = 1;

    /// The version of the state. Raise it when [`apply`](Self::apply) or the fields of the state change: snapshots of
    /// another version are not used.
    const STATE_VERSION: u32 = 1;

    /// Rejects a new outcome that the schema allows, depending on the state: the default accepts all. Nothing was
    /// written yet. Replays do not call it, so a rule can change while stored outcomes stay.
    fn validate(&self, entry: &Entry) -> Result<()> {
        let _ = entry;
        Ok(())
    }

    /// Changes the state by an outcome whose transition the schema allows.
    ///
    /// It must depend on nothing but the state and the entry: not on the clock, randomness, or storage; otherwise a
    /// replay differs. Nor on today's rules: a limit or a list of known values belongs in [`validate`](Self::validate),
    /// otherwise tightening it damages every chain that exceeds it. If the outcome is new, an error rejects it and
    /// nothing has changed, at the cost of a replay; in a replay an error means that the chain is damaged.
    fn apply(&mut self, entry: &Entry) -> Result<()>;

    /// Converts an outcome from a version to the next, `from + 1`. It is called once for each version between that of
    /// the outcome and [`VERSION`](Self::VERSION).
    ///
    /// # Errors
    /// An error says that the outcome cannot be read; so does the default for every outcome.
    fn upcast(from: u32, outcome: &mut OldOutcome) -> Result<()> {
        let _ = outcome;
        Err(Error::with_kind(
            ErrorKind::Damaged,
            format!("nothing upcasts version {from}: implement `Machine::upcast` for it"),
        ))
    }
}

/// An outcome of an earlier version, to be upcast.
#[derive(Clone, Debug, PartialEq)]
pub struct OldOutcome {
    /// The action.
    pub action: String,
    /// The outcome.
    pub outcome: String,
    /// The data.
    pub data: Value,
}
