//! The index of a run: for each object in the run, where its entries are and what they cover.
//!
//! An index entry has 128 bytes, little-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | namespace |
//! | 4 | 32 | object id |
//! | 36 | 4 | number of the newest commit whose changes were archived |
//! | 40 | 8 | position in the file of the block with the object's first entry |
//! | 48 | 4 | offset of that entry in the block |
//! | 52 | 4 | number of entries |
//! | 56 | 8 | least LSN |
//! | 64 | 8 | greatest LSN |
//! | 72 | 8 | least time, milliseconds since 1970 |
//! | 80 | 8 | greatest time |
//! | 88 | 8 | least LSN of a snapshot, or 2⁶⁴ − 1 |
//! | 96 | 8 | bytes archived since the object's newest snapshot, in this run and those before it, or 2⁶⁴ − 1 for "no base" |
//! | 104 | 24 | zero |
//!
//! Entries are sorted by object and grouped into blocks of 64. Each block is `CRC-32C of everything that follows: u32,
//! number of entries: u32`, followed by the entries.

use super::entry::{Head, Kind};
use crate::ident::{CommitNo, Lsn, ObjectKey};
use bytes::{Buf, BufMut};

/// Bytes of an index entry.
pub(crate) const INDEX_ENTRY: usize = 128;

/// Entries of an index block.
pub(crate) const INDEX_BLOCK_ENTRIES: usize = 64;

/// Bytes before the entries of an index block.
pub(crate) const INDEX_BLOCK_HEADER: usize = 8;

/// Marks an object whose archived history has no base: it gets a snapshot at the next opportunity.
pub(crate) const NO_BASE: u64 = u64::MAX;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) key: ObjectKey,
    pub(crate) last_commit: CommitNo,
    pub(crate) block: u64,
    pub(crate) in_block: u32,
    pub(crate) entries: u32,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) first_millis: u64,
    pub(crate) last_millis: u64,
    pub(crate) first_snapshot: Lsn,
    pub(crate) since_base: u64,
}

impl IndexEntry {
    /// The entry of an object that has no entries yet.
    pub(crate) fn begin(key: ObjectKey, block: u64, in_block: usize) -> Self {
        Self {
            key,
            last_commit: CommitNo(0),
            block,
            in_block: in_block as u32,
            entries: 0,
            first_lsn: Lsn(u64::MAX),
            last_lsn: Lsn::ZERO,
            first_millis: u64::MAX,
            last_millis: 0,
            first_snapshot: Lsn(u64::MAX),
            since_base: NO_BASE,
        }
    }

    /// Adds one more entry to the totals.
    pub(crate) fn count(&mut self, head: &Head) {
        self.entries += 1;
        self.first_lsn = self.first_lsn.min(head.lsn);
        self.last_lsn = self.last_lsn.max(head.lsn);
        self.first_millis = self.first_millis.min(head.unix_millis);
        self.last_millis = self.last_millis.max(head.unix_millis);
        if head.kind == Kind::Snapshot {
            self.first_snapshot = self.first_snapshot.min(head.lsn);
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.key.encode(out);
        out.put_u32_le(self.last_commit.0);
        out.put_u64_le(self.block);
        out.put_u32_le(self.in_block);
        out.put_u32_le(self.entries);
        out.put_u64_le(self.first_lsn.0);
        out.put_u64_le(self.last_lsn.0);
        out.put_u64_le(self.first_millis);
        out.put_u64_le(self.last_millis);
        out.put_u64_le(self.first_snapshot.0);
        out.put_u64_le(self.since_base);
        out.resize(start + INDEX_ENTRY, 0);
    }

    fn decode(bytes: &[u8; INDEX_ENTRY]) -> Option<Self> {
        let mut fields = &bytes[..];
        Some(Self {
            key: ObjectKey::decode(&mut fields)?,
            last_commit: CommitNo(fields.get_u32_le()),
            block: fields.get_u64_le(),
            in_block: fields.get_u32_le(),
            entries: fields.get_u32_le(),
            first_lsn: Lsn(fields.get_u64_le()),
            last_lsn: Lsn(fields.get_u64_le()),
            first_millis: fields.get_u64_le(),
            last_millis: fields.get_u64_le(),
            first_snapshot: Lsn(fields.get_u64_le()),
            since_base: fields.get_u64_le(),
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
