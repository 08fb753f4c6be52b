//! The records of a range of the log, regrouped by object, on their way into a run.

use super::entry::{Entry, Head, Kind};
use super::index::{IndexEntry, KnownAlarm, NO_BASE, Newest};
use super::run::RunWriter;
use crate::alarm_entry::AlarmChange;
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Life, Lsn, ObjectKey, Position};
use crate::limits::{PAGE_BYTES, SNAPSHOT_FLOOR_BYTES};
use crate::log::record::Header;
use rustc_hash::FxHashMap;

/// The encoded entries of a range of the log, and where the entries of each object are.
#[derive(Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    places: Vec<(ObjectKey, usize)>,
    /// The commits that continue replacements.
    replacing: Vec<(ObjectKey, CommitNo)>,
    /// What the range does to the alarms of objects, as far as it does.
    alarms: FxHashMap<ObjectKey, AlarmChange>,
}

/// How a run leaves an object.
pub(crate) struct Left {
    /// There is no object, or the runs have a complete state of it.
    pub(crate) is_complete: bool,
    /// The older runs have a complete state of it.
    pub(crate) had_base: bool,
}

impl Gathered {
    /// Adds the records of a transaction, whose end is at this position of all logs.
    pub(crate) fn add(&mut self, records: &[(Header, impl AsRef<[u8]>)], position: Position) {
        let parts = records.len();
        for (at, (header, payload)) in records.iter().enumerate() {
            self.places.push((header.key, self.bytes.len()));
            if header.replaces && at == 0 {
                self.replacing.push((header.key, header.commit));
            }
            if let Some(alarm) = header.alarm_change() {
                self.alarms.insert(header.key, alarm);
            }
            let head = Head {
                key: header.key,
                commit: header.commit,
                position,
                database_pages: header.database_pages,
                unix_millis: header.unix_millis,
                entries: header.entries,
                kind: Kind::Commit,
                life: header.life,
                replaces: header.replaces && at == 0,
                first: at == 0,
                last: at + 1 == parts,
            };
            let payload = payload.as_ref();
            Entry { head, payload }.encode(&mut self.bytes);
        }
    }

    /// The bytes of the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The commits in the range that continue replacements.
    pub(crate) fn replacing(&self) -> &[(ObjectKey, CommitNo)] {
        &self.replacing
    }

    pub(crate) fn clear(&mut self) {
        self.replacing.clear();
        self.bytes.clear();
        self.places.clear();
        self.alarms.clear();
    }

    /// Sorts by object; the entries of one object keep their order.
    pub(crate) fn sort(&mut self) {
        self.places.sort_unstable();
    }

    /// The places of the entries of each object, once they are sorted.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &[(ObjectKey, usize)]> {
        self.places.chunk_by(|a, b| a.0 == b.0)
    }

    /// The entry at one of the places.
    pub(crate) fn entry(&self, place: usize) -> Result<Entry<'_>> {
        let entry = self.bytes.get(place..).and_then(Entry::decode);
        // Encoded above; a length beyond 32 bits is impossible, because records are bounded.
        entry
            .map(|(entry, _)| entry)
            .ok_or_else(|| Error::damaged("an entry of the archive in memory cannot be read"))
    }

    /// Adds the entries of one object to a run. `older` looks an object up in the older runs, where history before `rebase`
    /// has a hole. `replacement` is called before a commit that continues one; it returns whether it has added the replacement.
    /// `snapshot` is called when the object needs one; it returns whether it has added one to the run.
    pub(crate) fn write_object(
        &self,
        places: &[(ObjectKey, usize)],
        rebase: Lsn,
        older: impl FnOnce(ObjectKey) -> Result<Option<IndexEntry>>,
        mut replacement: impl FnMut(&Head, &mut RunWriter) -> Result<bool>,
        snapshot: impl FnOnce(&Head, &mut RunWriter) -> Result<bool>,
        writer: &mut RunWriter,
    ) -> Result<Left> {
        let (Some(&(key, first)), Some(&(_, last))) = (places.first(), places.last()) else {
            return Ok(Left {
                is_complete: true,
                had_base: true,
            });
        };
        let (first, last) = (self.entry(first)?.head, self.entry(last)?.head);
        // The history of a new object begins empty.
        let before = if first.life == Life::Begins {
            None
        } else {
            older(key)?
        };
        let before = before
            .filter(|index| index.newest.commit.next() == first.commit && index.last.lsn > rebase)
            .map(|index| index.newest);
        let mut since = before.map_or(NO_BASE, |newest| newest.since_base);
        for &(_, place) in places {
            let entry = self.entry(place)?;
            if entry.head.replaces && entry.head.first {
                let is_added = replacement(&entry.head, writer)?;
                since = if is_added { 0 } else { NO_BASE };
            } else if entry.head.life != Life::Continues && entry.head.first {
                since = 0;
            }
            since = since.saturating_add(entry.payload.len() as u64);
            writer.add(&entry)?;
        }
        let size = u64::from(last.database_pages) * PAGE_BYTES as u64;
        if since >= size.max(SNAPSHOT_FLOOR_BYTES)
            && last.life != Life::Ends
            && snapshot(&last, writer)?
        {
            since = 0;
        }
        let changed = self.alarms.get(&key).copied();
        writer.end_object(Newest {
            commit: last.commit,
            pages: last.database_pages,
            alarm: changed.map_or_else(
                || before.map_or(KnownAlarm::Unknown, |newest| newest.alarm),
                KnownAlarm::from,
            ),
            since_base: since,
        });
        Ok(Left {
            is_complete: since != NO_BASE || last.life == Life::Ends,
            had_base: before.is_some_and(|newest| newest.since_base != NO_BASE),
        })
    }
}
