//! What another store has logged, checked once and found by shard.

use crate::error::{Error, Result};
use crate::ident::{Lsn, NamespaceNo, Shard};
use crate::log::part::{self, NoPart, PART_VERSION};
use crate::log::record::{HEADER_BYTES, Header};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A range of another store's log, which several claims can share: it is checked and divided by shard once.
pub struct EarlierLog {
    parts: Vec<Part>,
    range: Option<(Lsn, Lsn)>,
    records: BTreeMap<Shard, Vec<Place>>,
}

struct Part {
    bytes: Arc<[u8]>,
    namespaces: Vec<String>,
}

/// Where a record is: in which part, at which byte.
struct Place {
    part: usize,
    at: usize,
}

/// A record.
pub(super) struct Logged<'a> {
    pub(super) header: Header,
    pub(super) payload: &'a [u8],
    /// Which part of the log it is in. Each has the numbers of its namespaces.
    pub(super) part: usize,
}

impl EarlierLog {
    /// Takes the bytes of parts of the log ([`Store::log_part`](crate::Store::log_part)), in order. Computes checksums of all of them.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged): a part is damaged.
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused): a part has another format.
    /// [`ErrorKind::Input`](crate::ErrorKind::Input): a part is missing between others.
    pub fn read(parts: impl IntoIterator<Item = Arc<[u8]>>) -> Result<Self> {
        let mut log = Self {
            parts: Vec::new(),
            range: None,
            records: BTreeMap::new(),
        };
        for bytes in parts {
            log.add(bytes)?;
        }
        Ok(log)
    }

    fn add(&mut self, bytes: Arc<[u8]>) -> Result<()> {
        let content = part::decode(&bytes).map_err(|why| match why {
            NoPart::Damaged => Error::damaged("a part of the log is damaged"),
            NoPart::Other(version) => {
                Error::unknown_format("a part of the log", version, PART_VERSION)
            }
        })?;
        let (first, end) = self.range.unwrap_or((content.first, content.first));
        if content.first != end {
            return Err(gap(end, content.first));
        }
        let records_at = bytes.len() - content.records.len();
        let mut read = 0;
        while read < content.records.len() {
            let lsn = content.first.advance(read);
            let record = part::record_at(&content.records[read..], lsn);
            let (header, _) =
                record.ok_or_else(|| Error::damaged(format!("the record at {lsn} is damaged")))?;
            let place = Place {
                part: self.parts.len(),
                at: records_at + read,
            };
            self.records
                .entry(header.key.shard())
                .or_default()
                .push(place);
            read += header.length;
        }
        self.range = Some((first, content.end));
        let namespaces = content.namespaces;
        self.parts.push(Part { bytes, namespaces });
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
    ) -> impl Iterator<Item = Logged<'_>> {
        let places = self.records.get(&shard).into_iter().flatten();
        let records = places.filter_map(|place| self.record(place));
        records.filter(move |record| (since..until).contains(&record.header.lsn))
    }

    fn record(&self, place: &Place) -> Option<Logged<'_>> {
        let bytes = self.parts.get(place.part)?.bytes.get(place.at..)?;
        let header = Header::read(bytes)?;
        let payload = bytes.get(HEADER_BYTES..header.length)?;
        Some(Logged {
            header,
            payload,
            part: place.part,
        })
    }

    /// The unique key of a namespace by its number in a part of the log. Empty if it was deleted there.
    pub(super) fn unique_key(&self, part: usize, number: NamespaceNo) -> Result<&str> {
        let part = self.parts.get(part);
        let place = (number.0 as usize).checked_sub(1);
        let unique_key = part
            .zip(place)
            .and_then(|(part, place)| part.namespaces.get(place));
        unique_key.map(String::as_str).ok_or_else(|| {
            Error::damaged(format!(
                "a record has the class number {}, which its part of the log does not name",
                number.0
            ))
        })
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
