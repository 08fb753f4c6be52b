//! The engine's identifiers and numbers, each with its own type.

use bytes::{Buf, BufMut};
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

/// An object's commits, counted from 1 and wrapping at 2³²; compared as serial numbers (RFC 1982), because a hot
/// object passes 2³² commits within days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CommitNo(pub(crate) u32);

impl CommitNo {
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// True if `self` comes after `other`.
    pub(crate) fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }
}

/// The number of a namespace in one data directory, assigned by [`crate::Store::namespace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceNo(pub u32);

/// Identifies an object's database: its namespace and its 32-byte id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace's number in this data directory.
    pub namespace: NamespaceNo,
    /// The object's id.
    pub id: [u8; 32],
}

impl ObjectKey {
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
