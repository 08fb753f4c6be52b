//! What the logs of a shard's earlier owners have of its objects.

use super::ShardClaim;
use super::earlier_log::{EarlierLog, Record};
use super::runs;
use crate::alarm_entry::AlarmChange;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{Life, Lsn, ObjectKey, Shard};
use crate::overlay::Object;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The records of a shard between two positions of an earlier owner's log.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct Inherited {
    /// The generation of that owner's tenure.
    pub generation: u32,
    /// The shard's first record is at or after this position.
    pub since: Lsn,
    /// Its last record ends at or before this one.
    pub until: Lsn,
    /// The log from `since` to `until`, and perhaps more of it. Records of other shards, and those that are not between the two
    /// positions, are ignored.
    pub log: Arc<EarlierLog>,
}

/// One complete transaction in an earlier owner's log.
pub(super) struct Transaction<'a> {
    pub(super) records: &'a [Record<'a>],
    /// The position after it.
    pub(super) end: Lsn,
}

impl Inherited {
    /// Passes the complete transactions of a shard to `take`, in order. The last one is not, if the log ends within it: it was never
    /// released.
    pub(super) fn transactions(
        &self,
        shard: Shard,
        mut take: impl FnMut(Transaction<'_>) -> Result<()>,
    ) -> Result<()> {
        self.log.must_cover(self.since, self.until)?;
        let records: Vec<_> = self.log.records_of(shard, self.since, self.until).collect();
        for records in records.chunk_by(|(header, _), _| !header.last_part) {
            let Some((last, _)) = records.last().filter(|(last, _)| last.last_part) else {
                continue;
            };
            if let Some((other, _)) = records.iter().find(|(of, _)| of.key != last.key) {
                return Err(Error::damaged(format!(
                    "the transaction at {} belongs to several objects",
                    other.lsn
                )));
            }
            let end = last.lsn.advance(last.length);
            take(Transaction { records, end })?;
        }
        Ok(())
    }
}

/// An object as the logs of its earlier owners have it.
pub(super) struct Adopted {
    pub(super) object: Arc<Object>,
    /// What they do to its alarm, as far as they do.
    pub(super) alarm: Option<AlarmChange>,
}

impl Engine {
    /// Reads what a claim inherits. Adds the namespaces that only earlier owners knew, and changes nothing else.
    pub(super) fn read_inherited(&self, claim: &ShardClaim) -> Result<Vec<Adopted>> {
        let mut adopted = BTreeMap::new();
        for inherited in &claim.inherited {
            let taken = self.take_inherited(claim, inherited, &mut adopted);
            taken.map_err(|error| {
                error.while_doing(format_args!(
                    "reading the records of shard {} in generation {}",
                    claim.shard.get(),
                    inherited.generation
                ))
            })?;
        }
        for Adopted { object, .. } in adopted.values() {
            object.pages().move_to(claim.since);
        }
        Ok(adopted.into_values().collect())
    }

    /// Applies the transactions of one tenure.
    fn take_inherited(
        &self,
        claim: &ShardClaim,
        inherited: &Inherited,
        adopted: &mut BTreeMap<ObjectKey, Adopted>,
    ) -> Result<()> {
        self.learn_namespaces(inherited.log.namespaces())?;
        inherited.transactions(claim.shard, |transaction| {
            self.apply(claim, &transaction, adopted)
        })
    }

    /// Applies one transaction to its object.
    fn apply(
        &self,
        claim: &ShardClaim,
        transaction: &Transaction<'_>,
        adopted: &mut BTreeMap<ObjectKey, Adopted>,
    ) -> Result<()> {
        let Some((first, _)) = transaction.records.first() else {
            return Ok(());
        };
        if first.replaces {
            return Err(runs::replaced(first.key));
        }
        let path = self.shared.catalog.object_path(first.key);
        let path = path.ok_or_else(|| {
            Error::damaged(format!(
                "the object {} has a class that its part of the log does not name",
                first.key
            ))
        })?;
        let adopted = adopted.entry(first.key).or_insert_with(|| Adopted {
            object: Arc::new(Object::new(first.key, claim.owned(), path)),
            alarm: None,
        });
        let mut pages = adopted.object.pages();
        if !pages.may_be_next(first) {
            return Err(Error::damaged(format!(
                "commit {} of the object {} follows its commit {}",
                first.commit.0, first.key, pages.commit.0
            )));
        }
        for (header, payload) in transaction.records {
            pages
                .apply(header, transaction.end, payload)
                .map_err(|why| Error::damaged(format!("the object {}: {why}", first.key)))?;
            let ends = (header.life == Life::Ends).then_some(AlarmChange::Cleared);
            adopted.alarm = header.alarm_change().or(ends).or(adopted.alarm);
        }
        Ok(())
    }
}
