//! One entry of the archive: the page entries of a commit, or of a part of it, as they were in the log; or a part of a
//! snapshot, which has the same format and contains a full image of every page of the object.
//!
//! Bytes, little-endian (`docs/format.md` draws them):
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | length of the entry, header included |
//! | 4 | 4 | flags: 1 first part, 2 last part, 4 snapshot, 8 the object did not exist before, 16 it does not exist afterwards, 32 replaces ([`Head::replaces`]) |
//! | 8 | 4 | namespace |
//! | 12 | 32 | object id |
//! | 44 | 4 | commit number of the object |
//! | 48 | 4 | generation of the shard |
//! | 52 | 8 | LSN after the commit; for a snapshot, an LSN between its commit and the next |
//! | 60 | 4 | size of the database in pages |
//! | 64 | 8 | time of the commit, milliseconds since 1970 |
//! | 72 | 4 | number of page entries |
//! | 76 | | page entries |
//!
//! Entries are sorted by object, then position; a snapshot follows the commit of the same position.

use crate::ident::{CommitNo, Life, ObjectKey, Position};
use bytes::{Buf, BufMut};

/// Bytes of an entry's header.
pub(crate) const ENTRY_BYTES: usize = 76;

const FIRST: u32 = 1;
const LAST: u32 = 2;
const SNAPSHOT: u32 = 4;
/// The bit at which the flags of the object's life begin.
const LIFE_SHIFT: u32 = 3;
const OF_LIFE: u32 = Life::BITS << LIFE_SHIFT;
const REPLACES: u32 = 32;

/// What an entry holds. Entries of the same position are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The changes of a commit.
    Commit,
    /// The whole object as of a commit.
    Snapshot,
}

/// The fields of an entry's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) key: ObjectKey,
    pub(crate) commit: CommitNo,
    pub(crate) position: Position,
    pub(crate) database_pages: u32,
    pub(crate) unix_millis: u64,
    pub(crate) entries: u32,
    pub(crate) kind: Kind,
    pub(crate) life: Life,
    /// A snapshot: it is the replacement that the commit after it continues, and the object never was in this state. A
    /// commit: it continues the replacement, and not the commit before.
    pub(crate) replaces: bool,
    pub(crate) first: bool,
    pub(crate) last: bool,
}

/// An entry: its header and its page entries.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) head: Head,
    pub(crate) payload: &'a [u8],
}

impl Head {
    /// The sort key of the entry in the archive.
    pub(crate) fn place(&self) -> (ObjectKey, Position, Kind) {
        (self.key, self.position, self.kind)
    }
}

impl<'a> Entry<'a> {
    /// Appends the entry to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let head = &self.head;
        let length = (ENTRY_BYTES + self.payload.len()) as u32;
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(head.first, FIRST)
            | flag(head.last, LAST)
            | flag(head.kind == Kind::Snapshot, SNAPSHOT)
            | flag(head.replaces, REPLACES)
            | head.life.bits() << LIFE_SHIFT;
        out.put_u32_le(length);
        out.put_u32_le(flags);
        head.key.encode(out);
        out.put_u32_le(head.commit.0);
        head.position.encode(out);
        out.put_u32_le(head.database_pages);
        out.put_u64_le(head.unix_millis);
        out.put_u32_le(head.entries);
        out.put_slice(self.payload);
    }

    /// Reads the entry at the beginning of `bytes` and returns it with its length. `None` if the bytes are not an
    /// entry.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut fields = bytes.get(..ENTRY_BYTES)?;
        let length = fields.get_u32_le() as usize;
        let flags = fields.get_u32_le();
        if flags & !(FIRST | LAST | SNAPSHOT | OF_LIFE | REPLACES) != 0 {
            return None;
        }
        let head = Head {
            key: ObjectKey::decode(&mut fields)?,
            commit: CommitNo(fields.get_u32_le()),
            position: Position::decode(&mut fields),
            database_pages: fields.get_u32_le(),
            unix_millis: fields.get_u64_le(),
            entries: fields.get_u32_le(),
            kind: if flags & SNAPSHOT == 0 {
                Kind::Commit
            } else {
                Kind::Snapshot
            },
            life: Life::from_bits((flags & OF_LIFE) >> LIFE_SHIFT)?,
            replaces: flags & REPLACES != 0,
            first: flags & FIRST != 0,
            last: flags & LAST != 0,
        };
        let payload = bytes.get(ENTRY_BYTES..length)?;
        Some((Self { head, payload }, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::{Generation, Lsn, NamespaceNo};
    use proptest::prelude::*;

    fn head() -> Head {
        Head {
            key: ObjectKey {
                namespace: NamespaceNo(2),
                id: [9; 32],
            },
            commit: CommitNo(17),
            position: Position::at(Generation(3), Lsn(4096)),
            database_pages: 5,
            unix_millis: 1_700_000_000_000,
            entries: 2,
            kind: Kind::Snapshot,
            life: Life::Continues,
            replaces: true,
            first: true,
            last: false,
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        let head = head();
        let payload = &[1, 2, 3];
        Entry { head, payload }.encode(&mut bytes);
        bytes.extend_from_slice(&[7; 9]);
        let (entry, length) = Entry::decode(&bytes).unwrap();
        assert_eq!(entry.head, head);
        assert_eq!((entry.payload, length), (&payload[..], ENTRY_BYTES + 3));
    }

    #[test]
    fn entries_are_in_the_order_of_positions_snapshots_after_commits() {
        let snapshot = head();
        let commit = Head {
            kind: Kind::Commit,
            ..snapshot
        };
        let next = Head {
            position: Position::at(Generation(3), Lsn(4097)),
            ..commit
        };
        let of_next_owner = Head {
            position: Position::at(Generation(4), Lsn(5)),
            ..commit
        };
        let places = [commit, snapshot, next, of_next_owner].map(|head| head.place());
        assert!(places.is_sorted());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Entry::decode(&bytes);
        }
    }
}
