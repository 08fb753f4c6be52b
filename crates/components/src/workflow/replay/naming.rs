//! The external names of a step: its idempotency key, and the id of its child.
//!
//! Contract: both are unique, whatever names a program uses.

use sha2::{Digest, Sha256};

use super::Replay;
use crate::workflow::{StepName, rows::Instance};

/// The prefix of an instance's idempotency keys.
pub(super) fn seed(instance: &Instance) -> Sha256 {
    let mut seed = Sha256::new();
    for part in [instance.workflow.as_bytes(), instance.id.as_bytes()] {
        seed.update(part.len().to_le_bytes());
        seed.update(part);
    }
    // An id may be reused after its first instance was removed.
    seed.update(instance.created_at.to_le_bytes());
    seed
}

impl Replay {
    /// A step's idempotency key.
    pub(super) fn key(&self, step: &StepName, run: i64) -> String {
        let mut hash = self.seed.clone();
        hash.update(run.to_le_bytes());
        hash.update(step.occurrence.to_le_bytes());
        hash.update(&step.name);
        let hash = hash.finalize();
        format!("wf_{}", hex::encode(&hash[..16]))
    }

    /// The id of a step's child.
    pub(super) fn child_id(&self, step: &StepName, run: i64) -> String {
        // Characters that separate parts of an id are escaped in names.
        let mut name = step.name.replace('%', "%25");
        for (c, escaped) in [('/', "%2F"), ('#', "%23"), ('~', "%7E")] {
            name = name.replace(c, escaped);
        }
        let occurrence = match step.occurrence {
            1 => String::new(),
            occurrence => format!("#{occurrence}"),
        };
        let run = match run {
            1 => String::new(),
            run => format!("~{run}"),
        };
        format!("{}/{name}{occurrence}{run}", self.id)
    }
}
