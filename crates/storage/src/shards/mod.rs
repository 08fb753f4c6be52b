//! The shards of a store that is one of several: taking one over, and giving one up.
//!
//! 1. The owner closes the shard in its log ([`Engine::close_shard`]). All of its records are before the position where it was
//!    closed, which must be durable before anyone else owns the shard.
//! 2. Once none of its objects is open, the owner forgets them ([`Engine::forget_shard`]): pages, alarms and files.
//! 3. The next owner reads the records of the shard that its predecessors' logs have ([`inherited`]), and puts the pages and alarms
//!    into its own tables. Then it opens the shard in its log ([`Engine::claim_shard`]).
//!
//! Positions of different logs are never compared. What is adopted gets the position of the claim in the new owner's log,
//! which is durable: answers wait at most until the log is copied up to there. Its pages have no full image in that log, so the
//! first change of each is logged as one.

mod claims;
mod earlier_log;
mod inherited;
mod merging;
mod namespaces;
mod runs;

pub use claims::{Claims, ShardClaim};
pub use earlier_log::EarlierLog;
pub use inherited::Inherited;
pub use merging::MergedRun;
pub use runs::{SharedRun, WrittenRun};

use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::disk::sync_names;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{Generation, Lsn, ObjectKey, Shard};
use crate::log::tenures::{Owned, Tenure};
use crate::quarantine;
use std::collections::BTreeMap;

impl Engine {
    /// See [`crate::Claims::claim`].
    fn claim_shard(
        &self,
        claim: &ShardClaim,
        archived: &BTreeMap<ObjectKey, AlarmEntry>,
    ) -> Result<()> {
        let tenure = Tenure {
            shard: claim.shard,
            generation: Generation(claim.generation),
        };
        self.must_share("claim a shard")?;
        if claim.since > self.shared.log.durable() {
            return Err(Error::input(format!(
                "shard {} is claimed as of position {}, but this store's log is durable up to {}: claim it at a durable position",
                claim.shard.get(),
                claim.since,
                self.shared.log.durable()
            )));
        }
        let generations = claim.inherited.iter().map(|part| part.generation);
        if !generations
            .chain([claim.generation])
            .is_sorted_by(|a, b| a < b)
        {
            return Err(Error::input(format!(
                "the generations of shard {} do not rise: give the inherited parts from the oldest to the newest, and claim the shard in a later one",
                claim.shard.get()
            )));
        }
        let adopted = self.read_inherited(claim)?;
        // Excludes other claims, and checkpoints, which may hold objects of an earlier tenure.
        let _unchanged = self.checkpointer.pause()?;
        if !self.shared.log.may_open_shard(tenure) {
            return Err(Error::refused(format!(
                "shard {} cannot be claimed in generation {}: this store has had it in that generation or a later one, or has not \
                 forgotten it since",
                claim.shard.get(),
                claim.generation
            )));
        }
        // Before the shard is open: the first commit of an object may change its alarm.
        let mut alarms = archived.clone();
        for of in &adopted {
            match of.alarm {
                Some(AlarmChange::Set(entry)) => alarms.insert(of.object.key, entry),
                Some(AlarmChange::Cleared) => alarms.remove(&of.object.key),
                None => None,
            };
        }
        for (key, entry) in alarms {
            self.alarms.adopt(key, entry, claim.since);
        }
        self.objects
            .adopt(adopted.into_iter().map(|adopted| adopted.object));
        self.shared.log.open_shard(claim.shard, claim.owned());
        Ok(())
    }

    /// See [`crate::Store::close_shard`].
    pub(crate) fn close_shard(&self, shard: Shard) -> Result<Lsn> {
        self.must_share("close a shard")?;
        self.shared
            .log
            .close_shard(shard)
            .ok_or_else(|| Error::input(format!("this store does not own shard {}", shard.get())))
    }

    /// See [`crate::Store::forget_shard`].
    pub(crate) fn forget_shard(&self, shard: Shard) -> Result<()> {
        self.must_share("forget a shard")?;
        let is_of_shard = |key: &ObjectKey| key.shard() == shard;
        self.must_have_closed(shard)?;
        // Files that are being written. No other begins.
        self.hydration.claims.wait_for(is_of_shard);
        // Excludes claims, and checkpoints, which write files of its objects.
        let _unchanged = self.checkpointer.pause()?;
        self.must_have_closed(shard)?;
        self.objects.must_be_closed(is_of_shard)?;
        self.objects.forget(is_of_shard);
        self.alarms.forget(is_of_shard);
        self.forget_quarantines(is_of_shard)?;
        self.remove_files_of(shard)?;
        self.shared.log.free_shard(shard);
        Ok(())
    }

    fn must_have_closed(&self, shard: Shard) -> Result<()> {
        if self.shared.log.has_closed_shard(shard) {
            return Ok(());
        }
        Err(Error::input(format!(
            "shard {} is open in this store, or was forgotten: close it first",
            shard.get()
        )))
    }

    /// Ends the quarantines of some objects.
    fn forget_quarantines(&self, is_gone: impl Fn(&ObjectKey) -> bool) -> Result<()> {
        let is_gone = |key: &String| ObjectKey::parse(key).is_some_and(|key| is_gone(&key));
        let manifest = self.shared.catalog.current();
        let gone = manifest.quarantined.iter().filter(|(key, _)| is_gone(key));
        let saved: Vec<_> = gone.map(|(_, of)| of.pages.clone()).collect();
        if saved.is_empty() {
            return Ok(());
        }
        self.shared
            .publish(|manifest| manifest.quarantined.retain(|key, _| !is_gone(key)))?;
        for saved in saved.iter().flatten() {
            quarantine::forget(&self.shared, &saved.run);
        }
        Ok(())
    }

    /// Removes the object files of a shard, which are stale once another store commits.
    fn remove_files_of(&self, shard: Shard) -> Result<()> {
        let disk = &*self.shared.disk;
        let manifest = self.shared.catalog.current();
        for unique_key in manifest.namespaces.iter().filter(|key| !key.is_empty()) {
            let dir = self
                .shared
                .catalog
                .dir_of(unique_key)
                .join(shard.directory());
            let failed = |error| {
                let doing = format_args!("removing object files in {}", dir.display());
                Error::io(doing, &error)
            };
            let names = disk.list(&dir).map_err(failed)?;
            if names.is_empty() {
                continue;
            }
            for name in names {
                let id = name.split_once('.').map(|(id, _)| id);
                let id = id.and_then(ObjectKey::parse_id);
                if id.is_some_and(|id| Shard::of(&id) == shard) {
                    disk.remove(&dir.join(name)).map_err(failed)?;
                }
            }
            sync_names(disk, &dir)?;
        }
        Ok(())
    }

    /// What an object of this store begins with in the present tenure of its shard.
    ///
    /// # Errors
    /// The store does not own the shard.
    pub(crate) fn must_own(&self, key: ObjectKey) -> Result<Owned> {
        let owned = self.shared.log.owned(key.shard());
        owned.ok_or_else(|| Error::moved(key))
    }

    pub(crate) fn must_share(&self, to: &str) -> Result<()> {
        if self.shared.options.claims_shards {
            return Ok(());
        }
        Err(Error::input(format!(
            "cannot {to} of a store that owns all of them: open it with StoreOptions::claims_shards"
        )))
    }

    /// Refuses what is not in the log, so that the next owner of a shard would not find it.
    pub(crate) fn must_own_all(&self, to: &str) -> Result<()> {
        if !self.shared.options.claims_shards {
            return Ok(());
        }
        Err(Error::refused(format!(
            "cannot {to}: the store shares its objects with others (StoreOptions::claims_shards), which would not learn of it"
        )))
    }
}
