//! Shards that are claimed together.

use super::Inherited;
use crate::alarm_entry::AlarmEntry;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{Generation, Lsn, ObjectKey, Shard};
use crate::log::tenures::Owned;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A shard to take over: see [`Claims::claim`].
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct ShardClaim {
    /// The shard.
    pub shard: Shard,
    /// The generation of the new tenure: above those of all earlier ones.
    pub generation: u32,
    /// The position of the claim in the store's own log, which is durable up to there. Every record of this tenure will be after it.
    pub since: Lsn,
    /// How many bytes the logs of all earlier owners had: what each of their tenures was claimed with, and the position where it ended.
    /// Commit numbers and timelines of objects that are created begin above it.
    pub floor: u64,
    /// What earlier owners have logged and not archived, in the order of their generations.
    pub inherited: Vec<Inherited>,
}

impl ShardClaim {
    pub(super) fn owned(&self) -> Owned {
        Owned {
            generation: Generation(self.generation),
            floor: self.floor,
        }
    }
}

/// Shards that are about to be claimed, and the alarms that the runs have of them: see [`Store::begin_claims`](crate::Store::begin_claims).
pub struct Claims {
    pub(crate) engine: Arc<Engine>,
    pub(crate) alarms: BTreeMap<Shard, BTreeMap<ObjectKey, AlarmEntry>>,
}

impl Claims {
    /// Takes over the objects and alarms of a shard: reads what earlier owners have logged, then lets the objects be opened and
    /// written. Applies all records of the shard: not for a thread that runs objects.
    ///
    /// The caller has made sure that no earlier owner logs records of the shard any more. Where logs have only changes of an object, the next
    /// checkpoint writes its file from the runs: it waits for a store of runs that does not answer. If commits before them are in no
    /// run, the object is quarantined. A large transaction whose last record is not there was never released, and is not adopted.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the shard is not among those, the position is not durable, the generations do not rise, or the log
    /// lacks a part. [`ErrorKind::Damaged`]: the records do not follow each other. [`ErrorKind::Refused`]: the store has had the shard in
    /// this generation or a later one, or has not forgotten it; or an object is not whole in the log. A disk error: a class that
    /// only earlier owners had cannot be recorded. In all cases the store does not own the shard.
    ///
    /// [`ErrorKind::Input`]: crate::ErrorKind::Input
    /// [`ErrorKind::Damaged`]: crate::ErrorKind::Damaged
    /// [`ErrorKind::Refused`]: crate::ErrorKind::Refused
    pub fn claim(&self, claim: &ShardClaim) -> Result<()> {
        let Some(archived) = self.alarms.get(&claim.shard) else {
            return Err(Error::input(format!(
                "shard {} is not among those with which Store::begin_claims was called",
                claim.shard.get()
            )));
        };
        self.engine.claim_shard(claim, archived)
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shards = self.alarms.keys();
        f.debug_set().entries(shards).finish()
    }
}
