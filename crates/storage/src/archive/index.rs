//! The index of a run: for each object in the run, where its entries are and what they cover.
//!
//! An index entry has 136 bytes, little-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | namespace |
//! | 4 | 32 | object id |
//! | 36 | 4 | number of the newest commit whose changes were archived |
//! | 40 | 4 | size of the database after it in pages; 0 if it has ended the object |
//! | 44 | 4 | flags of the alarm after it: 1 it is known, and with 1: 2 there is one, 4 to 512 as flags 8 to 1024 of a record, bits 16–31 the attempts |
//! | 48 | 8 | when that alarm is due, with flag 2 |
//! | 56 | 8 | bytes archived since the object's newest snapshot, in this run and those before it, or 2⁶⁴ − 1 for "no base" |
//! | 64 | 8 | position in the file of the block with the object's first entry |
//! | 72 | 4 | offset of that entry in the block |
//! | 76 | 4 | number of entries |
//! | 80 | 12 | least position of an entry: generation, LSN |
//! | 92 | 12 | greatest position |
//! | 104 | 12 | least position of a snapshot, or 2³² − 1 and 2⁶⁴ − 1 |
//! | 116 | 8 | least time, milliseconds since 1970 |
//! | 124 | 8 | greatest time |
//! | 132 | 4 | zero |
//!
//! Entries are sorted by object and grouped into blocks of 64. Each block is `CRC-32C of everything that follows: u32,
//! number of entries: u32`, followed by the entries.

use super::entry::{Head, Kind};
use crate::alarm_entry::{AlarmChange, AlarmEntry, flags};
use crate::ident::{CommitNo, ObjectKey, Position};
use bytes::{Buf, BufMut};

/// Bytes of an index entry.
pub(crate) const INDEX_ENTRY: usize = 136;

/// Entries of an index block.
pub(crate) const INDEX_BLOCK_ENTRIES: usize = 64;

/// Bytes before the entries of an index block.
pub(crate) const INDEX_BLOCK_HEADER: usize = 8;

/// Marks an object whose archived history has no base: it gets a snapshot at the next opportunity.
pub(crate) const NO_BASE: u64 = u64::MAX;

/// What is archived of an object's alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownAlarm {
    /// The history begins in the middle of the object's life, or has a hole.
    Unknown,
    /// It has none.
    Absent,
    Set(AlarmEntry),
}

impl KnownAlarm {
    /// What it says to the alarm index; `None` if it is unknown.
    pub(crate) fn change(self) -> Option<AlarmChange> {
        match self {
            Self::Unknown => None,
            Self::Absent => Some(AlarmChange::Cleared),
            Self::Set(entry) => Some(AlarmChange::Set(entry)),
        }
    }
}

const KNOWN: u32 = 1;
const SET: u32 = 2;
/// The bit at which the flags of a set alarm begin.
const FLAGS_SHIFT: u32 = 2;
/// The bit at which the number of the alarm's attempts begins.
const ATTEMPTS_SHIFT: u32 = 16;

impl From<AlarmChange> for KnownAlarm {
    fn from(change: AlarmChange) -> Self {
        match change {
            AlarmChange::Set(entry) => Self::Set(entry),
            AlarmChange::Cleared => Self::Absent,
        }
    }
}

impl KnownAlarm {
    fn encode(self) -> (u32, i64) {
        match self {
            Self::Unknown => (0, 0),
            Self::Absent => (KNOWN, 0),
            Self::Set(alarm) => {
                let bits = flags::of(&alarm) << FLAGS_SHIFT;
                let attempts = u32::from(alarm.attempts) << ATTEMPTS_SHIFT;
                (KNOWN | SET | bits | attempts, alarm.due)
            }
        }
    }

    /// `None` if this is never written.
    fn decode(bits: u32, due: i64) -> Option<Self> {
        match bits & (KNOWN | SET) {
            0 => Some(Self::Unknown),
            KNOWN => Some(Self::Absent),
            SET => None,
            _ => {
                let of_alarm = (bits & 0xffff) >> FLAGS_SHIFT;
                flags::entry(of_alarm, due, (bits >> ATTEMPTS_SHIFT) as u16).map(Self::Set)
            }
        }
    }
}

/// An object after the newest commit whose changes were archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) commit: CommitNo,
    /// The size of its database; 0 if the commit has ended the object.
    pub(crate) pages: u32,
    pub(crate) alarm: KnownAlarm,
    /// Bytes archived since its newest snapshot.
    pub(crate) since_base: u64,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) key: ObjectKey,
    pub(crate) newest: Newest,
    pub(crate) block: u64,
    pub(crate) in_block: u32,
    pub(crate) entries: u32,
    pub(crate) first: Position,
    pub(crate) last: Position,
    pub(crate) first_snapshot: Position,
    pub(crate) first_millis: u64,
    pub(crate) last_millis: u64,
}

impl IndexEntry {
    /// The entry of an object that has no entries yet.
    pub(crate) fn begin(key: ObjectKey, block: u64, in_block: usize) -> Self {
        Self {
            key,
            newest: Newest {
                commit: CommitNo(0),
                pages: 0,
                alarm: KnownAlarm::Unknown,
                since_base: NO_BASE,
            },
            block,
            in_block: in_block as u32,
            entries: 0,
            first: Position::MAX,
            last: Position::ZERO,
            first_snapshot: Position::MAX,
            first_millis: u64::MAX,
            last_millis: 0,
        }
    }

    /// Adds one more entry to the totals.
    pub(crate) fn count(&mut self, head: &Head) {
        self.entries += 1;
        self.first = self.first.min(head.position);
        self.last = self.last.max(head.position);
        self.first_millis = self.first_millis.min(head.unix_millis);
        self.last_millis = self.last_millis.max(head.unix_millis);
        if head.kind == Kind::Snapshot {
            self.first_snapshot = self.first_snapshot.min(head.position);
        }
    }

    /// Returns whether the runs have everything that the object's newest archived state is built from, if history before
    /// `rebase` has a hole. It may not be the state of the newest commit.
    pub(crate) fn has_base(&self, rebase: u64) -> bool {
        // After a snapshot, this run has all of it: where a commit is missing, there is no base until the next snapshot.
        let is_in_run = self.first_snapshot != Position::MAX;
        self.newest.since_base != NO_BASE && (is_in_run || self.last.lsn.0 > rebase)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let (alarm, due) = self.newest.alarm.encode();
        self.key.encode(out);
        out.put_u32_le(self.newest.commit.0);
        out.put_u32_le(self.newest.pages);
        out.put_u32_le(alarm);
        out.put_i64_le(due);
        out.put_u64_le(self.newest.since_base);
        out.put_u64_le(self.block);
        out.put_u32_le(self.in_block);
        out.put_u32_le(self.entries);
        self.first.encode(out);
        self.last.encode(out);
        self.first_snapshot.encode(out);
        out.put_u64_le(self.first_millis);
        out.put_u64_le(self.last_millis);
        out.resize(start + INDEX_ENTRY, 0);
    }

    fn decode(bytes: &[u8; INDEX_ENTRY]) -> Option<Self> {
        let mut fields = &bytes[..];
        let key = ObjectKey::decode(&mut fields)?;
        let (commit, pages) = (CommitNo(fields.get_u32_le()), fields.get_u32_le());
        let alarm = KnownAlarm::decode(fields.get_u32_le(), fields.get_i64_le())?;
        Some(Self {
            key,
            newest: Newest {
                commit,
                pages,
                alarm,
                since_base: fields.get_u64_le(),
            },
            block: fields.get_u64_le(),
            in_block: fields.get_u32_le(),
            entries: fields.get_u32_le(),
            first: Position::decode(&mut fields),
            last: Position::decode(&mut fields),
            first_snapshot: Position::decode(&mut fields),
            first_millis: fields.get_u64_le(),
            last_millis: fields.get_u64_le(),
        })
    }
}

/// Appends an index block.
pub(crate) fn encode_block(entries: &[IndexEntry], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + INDEX_BLOCK_HEADER, 0);
    for entry in entries {
        entry.encode(out);
    }
    (&mut out[start + 4..]).put_u32_le(entries.len() as u32);
    let crc = crc32c::crc32c(&out[start + 4..]);
    (&mut out[start..]).put_u32_le(crc);
}

/// Reads an index block. `bytes` must have exactly its length. `None` if it is damaged.
pub(crate) fn decode_block(bytes: &[u8]) -> Option<Vec<IndexEntry>> {
    let mut rest = bytes;
    let crc = rest.try_get_u32_le().ok()?;
    let counted = rest;
    let count = rest.try_get_u32_le().ok()? as usize;
    let (entries, more) = rest.as_chunks();
    if entries.len() != count || !more.is_empty() || crc != crc32c::crc32c(counted) {
        return None;
    }
    entries.iter().map(IndexEntry::decode).collect()
}

/// Recomputes the checksum of an index block.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(block: &mut [u8]) {
    let end = block.len();
    crate::fuzzing::put_crc(block, 0, 4..end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm_entry::Isolation;
    use crate::ident::{Generation, Lsn, NamespaceNo};

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let key = ObjectKey {
            namespace: NamespaceNo(2),
            id: [9; 32],
        };
        let alarm = AlarmEntry {
            attempts: u16::MAX,
            failing: true,
            begun: Some(Isolation::Few),
            wait: true,
            some_failed: true,
            ..AlarmEntry::at(-5)
        };
        let position = |number| Position::at(Generation(number), Lsn(u64::from(number) << 33));
        for alarm in [
            KnownAlarm::Unknown,
            KnownAlarm::Absent,
            KnownAlarm::Set(alarm),
        ] {
            let entry = IndexEntry {
                newest: Newest {
                    commit: CommitNo(7),
                    pages: 8,
                    alarm,
                    since_base: NO_BASE,
                },
                entries: 3,
                first: position(1),
                last: position(3),
                first_snapshot: position(2),
                first_millis: 4,
                last_millis: 5,
                ..IndexEntry::begin(key, 77, 12)
            };
            let mut block = vec![];
            encode_block(&[entry], &mut block);
            assert_eq!(block.len(), INDEX_BLOCK_HEADER + INDEX_ENTRY);
            assert_eq!(decode_block(&block), Some(vec![entry]));
        }
    }
}
