//! What another store has logged, checked once and found by shard.

use crate::error::{Error, Result};
use crate::ident::{Lsn, Shard};
use crate::log::part::{self, NoPart, PART_VERSION};
use crate::log::record::{HEADER_BYTES, Header};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A range of another store's log, which several claims can share: it is checked and divided by shard once.
pub struct EarlierLog {
    /// Whose records are kept. `None`: of all.
    wanted: Option<BTreeSet<Shard>>,
    /// The records of each part that are kept.
    parts: Vec<Box<[u8]>>,
    range: Option<(Lsn, Lsn)>,
    records: BTreeMap<Shard, Vec<Place>>,
    /// Those of the last part: each has those of the ones before.
    namespaces: Vec<String>,
}

/// Where a record is: in which part, at which byte.
struct Place {
    part: usize,
    at: usize,
}

/// A record with its payload.
pub(super) type Record<'a> = (Header, &'a [u8]);

impl EarlierLog {
    /// Takes the bytes of parts of the log ([`Store::log_part`](crate::Store::log_part)), in order. Computes checksums of all of them.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged): a part is damaged.
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused): a part has another format.
    /// [`ErrorKind::Input`](crate::ErrorKind::Input): a part is missing between others.
    pub fn read(parts: impl IntoIterator<Item = Arc<[u8]>>) -> Result<Self> {
        let mut log = Self::keeping(None);
        for bytes in parts {
            log.add(&bytes)?;
        }
        Ok(log)
    }

    /// Nothing yet. Keeps the records of these shards alone: memory is needed for no others.
    pub fn of(shards: impl IntoIterator<Item = Shard>) -> Self {
        Self::keeping(Some(shards.into_iter().collect()))
    }

    fn keeping(wanted: Option<BTreeSet<Shard>>) -> Self {
        Self {
            wanted,
            parts: Vec::new(),
            range: None,
            records: BTreeMap::new(),
            namespaces: Vec::new(),
        }
    }

    /// Adds the bytes of the next part.
    ///
    /// # Errors
    /// As [`EarlierLog::read`].
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let content = part::decode(bytes).map_err(|why| match why {
            NoPart::Damaged => Error::damaged("a part of the log is damaged"),
            NoPart::Other(version) => {
                Error::unknown_format("a part of the log", version, PART_VERSION)
            }
        })?;
        let (first, end) = self.range.unwrap_or((content.first, content.first));
        if content.first != end {
            return Err(gap(end, content.first));
        }
        let mut kept = Vec::new();
        let mut read = 0;
        while read < content.records.len() {
            let lsn = content.first.advance(read);
            let record = part::record_at(&content.records[read..], lsn);
            let (header, _) =
                record.ok_or_else(|| Error::damaged(format!("the record at {lsn} is damaged")))?;
            let shard = header.key.shard();
            let is_wanted = self.wanted.as_ref().is_none_or(|of| of.contains(&shard));
            if is_wanted {
                let place = Place {
                    part: self.parts.len(),
                    at: kept.len(),
                };
                kept.extend_from_slice(&content.records[read..][..header.length]);
                self.records.entry(shard).or_default().push(place);
            }
            read += header.length;
        }
        if !content.namespaces.starts_with(&self.namespaces) {
            return Err(Error::damaged(format!(
                "the part of the log at {} has other numbers of classes than the ones before",
                content.first
            )));
        }
        self.range = Some((first, content.end));
        self.namespaces = content.namespaces;
        self.parts.push(kept.into());
        Ok(())
    }

    /// Fails if the log lacks a position of a range.
    pub(super) fn must_cover(&self, since: Lsn, until: Lsn) -> Result<()> {
        if since >= until {
            return Ok(());
        }
        match self.range {
            Some((first, _)) if first > since => Err(gap(since, first)),
            Some((_, end)) if end < until => Err(gap(end, until)),
            Some(_) => Ok(()),
            None => Err(gap(since, until)),
        }
    }

    /// The records of a shard that begin in a range, in order.
    pub(super) fn records_of(
        &self,
        shard: Shard,
        since: Lsn,
        until: Lsn,
    ) -> impl Iterator<Item = Record<'_>> {
        let places = self.records.get(&shard).into_iter().flatten();
        let records = places.filter_map(|place| self.record(place));
        records.filter(move |(header, _)| (since..until).contains(&header.lsn))
    }

    fn record(&self, place: &Place) -> Option<Record<'_>> {
        let bytes = self.parts.get(place.part)?.get(place.at..)?;
        let header = Header::read(bytes)?;
        let payload = bytes.get(HEADER_BYTES..header.length)?;
        Some((header, payload))
    }

    /// The unique keys of the namespaces, by their numbers.
    pub(super) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }
}

impl fmt::Debug for EarlierLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlierLog")
            .field("range", &self.range)
            .field("parts", &self.parts.len())
            .finish_non_exhaustive()
    }
}

fn gap(from: Lsn, to: Lsn) -> Error {
    Error::input(format!(
        "the log has a gap from position {from} to {to}: give all of its parts, in order"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn read(lists: &[&[&str]]) -> Result<EarlierLog> {
        let parts = lists.iter().map(|names| {
            let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
            part::encode(Lsn(8), &[], &names).map(|part| part.bytes.into())
        });
        EarlierLog::read(parts.collect::<Result<Vec<_>>>()?)
    }

    #[test]
    fn classes_are_only_added_along_a_log() {
        let log = read(&[&["a"], &["a"], &["a", "b"]]).unwrap();
        assert_eq!(log.namespaces(), ["a", "b"]);
        for lists in [[&["a", "b"][..], &["a"]], [&["a"], &["b", "a"]]] {
            let error = read(&lists).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        }
    }
}
