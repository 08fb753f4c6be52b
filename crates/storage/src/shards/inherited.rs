//! What the logs of a shard's earlier owners have of its objects.

use super::ShardClaim;
use super::earlier_log::{EarlierLog, Record};
use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{Lsn, ObjectKey};
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

/// An object as its earlier owners left it.
pub(super) struct Adopted {
    pub(super) object: Arc<Object>,
    pub(super) alarm: Option<AlarmEntry>,
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
        let Inherited {
            since, until, log, ..
        } = inherited;
        log.must_cover(*since, *until)?;
        self.learn_namespaces(log.namespaces())?;
        let records: Vec<_> = log.records_of(claim.shard, *since, *until).collect();
        for transaction in records.chunk_by(|(header, _), _| !header.last_part) {
            // The last one is not, if the log ends within it: it was never released.
            let is_complete = transaction.last().is_some_and(|(last, _)| last.last_part);
            if is_complete {
                self.apply(claim, transaction, adopted)?;
            }
        }
        Ok(())
    }

    /// Applies one complete transaction to its object.
    fn apply(
        &self,
        claim: &ShardClaim,
        transaction: &[Record<'_>],
        adopted: &mut BTreeMap<ObjectKey, Adopted>,
    ) -> Result<()> {
        let (Some((first, _)), Some((last, _))) = (transaction.first(), transaction.last()) else {
            return Ok(());
        };
        let mut headers = transaction.iter().map(|(header, _)| header);
        if headers.any(|header| header.key != first.key) {
            return Err(Error::damaged(format!(
                "the transaction at {} belongs to several objects",
                first.lsn
            )));
        }
        if first.replaces {
            return Err(Error::refused(format!(
                "the object {} was replaced by a restore or fork too large for the log; its state is only on its earlier owner's machine",
                first.key
            )));
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
        let end = last.lsn.advance(last.length);
        for (header, payload) in transaction {
            pages
                .apply(header, end, payload)
                .map_err(|why| Error::damaged(format!("the object {}: {why}", first.key)))?;
            match header.alarm {
                Some(AlarmChange::Set(entry)) => adopted.alarm = Some(entry),
                Some(AlarmChange::Cleared) => adopted.alarm = None,
                None => {}
            }
        }
        Ok(())
    }
}
