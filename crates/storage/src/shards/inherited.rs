//! What the logs of a shard's earlier owners have of its objects.

use super::ShardClaim;
use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{Generation, Lsn, NamespaceNo, ObjectKey, Shard};
use crate::log::part::{self, Content, NoPart, PART_VERSION};
use crate::log::record::Header;
use crate::overlay::Object;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
    /// The log from `since` to `until`, and perhaps more of it: the bytes of its parts
    /// ([`Store::log_part`](crate::Store::log_part)), in order. Records of other shards, and those that are not between the two
    /// positions, are ignored.
    pub log: Vec<Arc<[u8]>>,
}

/// An object as its earlier owners left it.
pub(super) struct Adopted {
    pub(super) object: Arc<Object>,
    pub(super) alarm: Option<AlarmEntry>,
}

/// A record with its payload.
type Record<'a> = (Header, &'a [u8]);

impl Engine {
    /// Reads what a claim inherits. Adds the namespaces that only earlier owners had, and changes nothing else.
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
        let contents = contents(inherited)?;
        let mut records = Vec::new();
        for content in &contents {
            let mut numbers = BTreeMap::new();
            for (mut header, payload) in records_of(content, claim.shard)? {
                if !(inherited.since..inherited.until).contains(&header.lsn) {
                    continue;
                }
                let there = header.key.namespace;
                let here = match numbers.entry(there) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(self.number_of(content, there)?),
                };
                // The class was deleted by the owner of the log.
                let Some(here) = here else { continue };
                header.key.namespace = here;
                records.push((header, payload));
            }
        }
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
            Error::refused(format!(
                "the class of the object {} is being deleted",
                first.key
            ))
        })?;
        let adopted = adopted.entry(first.key).or_insert_with(|| Adopted {
            object: Arc::new(Object::new(first.key, Generation(claim.generation), path)),
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

    /// The number here of a namespace that has another one in a part of another log. `None` if it was deleted there.
    fn number_of(&self, content: &Content<'_>, there: NamespaceNo) -> Result<Option<NamespaceNo>> {
        let place = (there.0 as usize).checked_sub(1);
        let unique_key = place.and_then(|place| content.namespaces.get(place));
        let unique_key = unique_key.ok_or_else(|| {
            Error::damaged(format!(
                "a record has the class number {}, which its part of the log does not name",
                there.0
            ))
        })?;
        match unique_key.as_str() {
            "" => Ok(None),
            unique_key => self.namespace(unique_key).map(Some),
        }
    }
}

/// The parts of the log, which must cover all that is inherited.
fn contents(inherited: &Inherited) -> Result<Vec<Content<'_>>> {
    let mut contents = Vec::new();
    let mut end = None;
    for bytes in &inherited.log {
        let content = part::decode(bytes).map_err(|why| match why {
            NoPart::Damaged => Error::damaged("a part of the log is damaged"),
            NoPart::Other(version) => {
                Error::unknown_format("a part of the log", version, PART_VERSION)
            }
        })?;
        if content.first != end.unwrap_or(content.first) {
            return Err(gap(end.unwrap_or_default(), content.first));
        }
        end = Some(content.end);
        contents.push(content);
    }
    let first = contents
        .first()
        .map_or(inherited.until, |content| content.first);
    if first > inherited.since {
        return Err(gap(inherited.since, first));
    }
    match end {
        Some(end) if end < inherited.until => Err(gap(end, inherited.until)),
        _ => Ok(contents),
    }
}

fn gap(from: Lsn, to: Lsn) -> Error {
    Error::input(format!(
        "the log has a gap from position {from} to {to}: give all of its parts, in order"
    ))
}

/// The records of a shard in a part of a log.
fn records_of<'a>(content: &Content<'a>, shard: Shard) -> Result<Vec<Record<'a>>> {
    let mut records = Vec::new();
    let (mut rest, mut at) = (content.records, content.first);
    while !rest.is_empty() {
        let record = part::record_at(rest, at);
        let (header, payload) =
            record.ok_or_else(|| Error::damaged(format!("the record at {at} is damaged")))?;
        rest = &rest[header.length..];
        at = at.advance(header.length);
        if header.key.shard() == shard {
            records.push((header, payload));
        }
    }
    Ok(records)
}
