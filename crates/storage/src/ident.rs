//! The engine's identifiers and numbers, each with its own type.

use bytes::{Buf, BufMut};
use std::cmp::Ordering;
use std::fmt;

/// A log sequence number: a byte position in the log's endless stream of records. A commit's LSN is the position just
/// after its last record, so a commit is durable once the durable LSN has reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub(crate) u64);

impl Lsn {
    /// The beginning of the log: always durable.
    pub const ZERO: Self = Self(0);

    /// The position as a number.
    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn advance(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

impl From<u64> for Lsn {
    /// The position that [`Lsn::get`] gave as a number.
    fn from(position: u64) -> Self {
        Self(position)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of one incarnation of the log. Each opening of a data directory increments it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub(crate) u32);

impl Epoch {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// The number of one owner's tenure of a shard: it grows with each change of owner. While one process owns all shards, it
/// is the epoch of that process's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u32);

impl From<Epoch> for Generation {
    fn from(epoch: Epoch) -> Self {
        Self(epoch.0)
    }
}

/// A position in an object's life, wherever it was lived: the generation of its shard, then a position in the log of that
/// generation's owner. LSNs of different logs are never compared without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    pub(crate) generation: Generation,
    pub(crate) lsn: Lsn,
}

impl Position {
    /// Before every commit.
    pub(crate) const ZERO: Self = Self::at(Generation(0), Lsn::ZERO);

    /// After every commit.
    pub(crate) const MAX: Self = Self::at(Generation(u32::MAX), Lsn(u64::MAX));

    pub(crate) const fn at(generation: Generation, lsn: Lsn) -> Self {
        Self { generation, lsn }
    }

    /// Appends the position in its file format: the generation, then the LSN, little-endian.
    pub(crate) fn encode(self, out: &mut impl BufMut) {
        out.put_u32_le(self.generation.0);
        out.put_u64_le(self.lsn.0);
    }

    /// Takes a position off the front of `bytes`, which must be long enough.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Self {
        Self::at(Generation(bytes.get_u32_le()), Lsn(bytes.get_u64_le()))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation.0, self.lsn)
    }
}

/// An object's commits, counted from 1 and wrapping at 2³²; compared as serial numbers (RFC 1982), because a hot
/// object passes 2³² commits within days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CommitNo(pub(crate) u32);

impl CommitNo {
    /// The number of an object's first commit, if the object is created when the log ends at `end`. It is above the
    /// numbers of an object of the same id that was deleted before: each commit takes more than [`Self::LEAST_BYTES`] of
    /// the log.
    pub(crate) fn first(end: Lsn) -> Self {
        let number = (end.0 / Self::LEAST_BYTES) as u32;
        Self(number.wrapping_add(1).max(1))
    }

    /// Less than the length of a record.
    const LEAST_BYTES: u64 = 64;

    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// True if `self` comes after `other`.
    pub(crate) fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }
}

/// What a commit does to the existence of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// There was no object before it: it has every page of the database.
    Begins,
    Continues,
    /// There is no object after it: it has no pages. Another life may begin later.
    Ends,
}

impl Life {
    const BEGINS: u32 = 1;
    const ENDS: u32 = 2;

    /// All bits of [`Self::bits`].
    pub(crate) const BITS: u32 = Self::BEGINS | Self::ENDS;

    /// As flags. Records and entries store them at different offsets.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Begins => Self::BEGINS,
            Self::Continues => 0,
            Self::Ends => Self::ENDS,
        }
    }

    /// `None` if the bits are never written.
    pub(crate) const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            Self::BEGINS => Some(Self::Begins),
            0 => Some(Self::Continues),
            Self::ENDS => Some(Self::Ends),
            _ => None,
        }
    }
}

/// The number of a namespace in one data directory, assigned by [`crate::Store::namespace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceNo(pub u32);

/// One of [`SHARDS`](Self::SHARDS) parts of all objects, whatever their class: the first ten bits of their ids. A node places the objects of
/// a shard on one worker, and files of many objects are sorted by shard first, so that a shard is a range of each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u16);

impl Shard {
    /// How many there are. Files depend on it.
    pub const SHARDS: u16 = 1 << Self::BITS;
    const BITS: u32 = 10;

    /// The shard with this number. `None` if it is not below [`Shard::SHARDS`].
    pub const fn new(number: u16) -> Option<Self> {
        if number < Self::SHARDS {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The shard of the object with this id.
    pub const fn of(id: &[u8; 32]) -> Self {
        Self(u16::from_be_bytes([id[0], id[1]]) >> (u16::BITS - Self::BITS))
    }

    /// The directory of its object files within that of a class: the first byte of their ids in hex, which four shards share.
    pub(crate) fn directory(self) -> String {
        hex::encode([self.first_byte()])
    }

    /// The first byte of the ids of its objects.
    pub(crate) fn first_byte(self) -> u8 {
        (self.0 >> (Self::BITS - 8)) as u8
    }

    /// Its number, counted from 0.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Identifies an object's database: its namespace and its 32-byte id. Keys are ordered by shard, then namespace, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// The namespace's number in this data directory.
    pub namespace: NamespaceNo,
    /// The object's id.
    pub id: [u8; 32],
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |key: &Self| (key.shard(), key.namespace);
        place(self)
            .cmp(&place(other))
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ObjectKey {
    /// The shard that the object belongs to.
    pub const fn shard(&self) -> Shard {
        Shard::of(&self.id)
    }

    /// The id as 64 hex digits.
    pub fn id_hex(&self) -> String {
        hex::encode(self.id)
    }

    /// Parses a key from its displayed form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (namespace, id) = text.split_once('/')?;
        Some(Self {
            namespace: NamespaceNo(namespace.parse().ok()?),
            id: Self::parse_id(id)?,
        })
    }

    /// Parses an id from 64 hex digits.
    pub(crate) fn parse_id(text: &str) -> Option<[u8; 32]> {
        let mut id = [0; 32];
        hex::decode_to_slice(text, &mut id).ok()?;
        Some(id)
    }

    /// Appends the key in its file format: the namespace, little-endian, and the id.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        out.put_u32_le(self.namespace.0);
        out.put_slice(&self.id);
    }

    /// Takes a key off the front of `bytes`. `None` if they end before it does.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let namespace = NamespaceNo(bytes.try_get_u32_le().ok()?);
        let mut id = [0; 32];
        bytes.try_copy_to_slice(&mut id).ok()?;
        Some(Self { namespace, id })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace.0, self.id_hex())
    }
}

/// One SQLite page.
pub(crate) type Page = [u8; crate::limits::PAGE_BYTES];

/// A page of zeros: the base of a full image, and what an unwritten page reads as.
pub(crate) static ZERO_PAGE: Page = [0; crate::limits::PAGE_BYTES];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_numbers_compare_across_the_wrap() {
        assert!(CommitNo(0).is_after(CommitNo(u32::MAX)));
        assert!(CommitNo(u32::MAX).next() == CommitNo(0));
        assert!(!CommitNo(u32::MAX).is_after(CommitNo(0)));
        assert!(!CommitNo(7).is_after(CommitNo(7)));
    }

    #[test]
    fn numbers_of_a_later_life_are_above_those_of_an_earlier_one() {
        // The shortest commits possible, from any position on.
        for begun in [0, 1, 63, 64, 1_000_003] {
            let mut end = begun;
            let mut newest = CommitNo::first(Lsn(end));
            for _ in 0..500 {
                end += crate::log::record::HEADER_BYTES as u64;
                assert!(CommitNo::first(Lsn(end)).is_after(newest));
                newest = newest.next();
            }
        }
    }

    #[test]
    fn a_shard_is_a_range_of_all_keys_and_a_class_a_range_of_its_shard() {
        let key = |namespace, first, second| {
            let mut id = [0; 32];
            (id[0], id[1]) = (first, second);
            ObjectKey {
                namespace: NamespaceNo(namespace),
                id,
            }
        };
        let sorted = [
            key(1, 0, 0),
            key(1, 0, 63),
            key(2, 0, 5),
            key(1, 0, 64),
            key(1, 1, 0),
            key(9, 255, 191),
            key(1, 255, 192),
        ];
        assert!(sorted.is_sorted());
        let shards = sorted.map(|key| key.shard().get());
        assert_eq!(shards, [0, 0, 0, 1, 4, 1022, Shard::SHARDS - 1]);
    }

    #[test]
    fn ids_survive_their_hex_form() {
        let key = ObjectKey {
            namespace: NamespaceNo(1),
            id: std::array::from_fn(|i| i as u8 * 7),
        };
        assert_eq!(ObjectKey::parse(&key.to_string()), Some(key));
        assert_eq!(ObjectKey::parse_id(&key.id_hex()), Some(key.id));
        assert_eq!(ObjectKey::parse_id("xyz"), None);
    }
}
