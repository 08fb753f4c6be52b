//! Bookmarks: a position in an object's history, as text that a program can store and compare.

use crate::error::{Error, Result};
use crate::ident::{CommitNo, Generation, Lsn, ObjectKey, Position};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const EXAMPLE: &str = "00000003-0000000000001a40-00000011-5e0c-4a988a7e";

/// The state of one object after one of its commits.
///
/// As text, `gggggggg-llllllllllllllll-cccccccc-oooo-ssssssss` in hexadecimal: the generation of the log, a position in it,
/// the object's commit number, a tag of the object, and a checksum of the preceding text. The checksum rejects mistyped
/// bookmarks, the tag bookmarks of other objects. Bookmarks of one object sort chronologically, as values and as text.
///
/// ```
/// use abide_storage::Bookmark;
///
/// let text = "00000003-0000000000001a40-00000011-5e0c-4a988a7e";
/// let bookmark: Bookmark = text.parse()?;
/// assert_eq!(bookmark.to_string(), text);
/// assert!("00000003-0000000000001a41-00000011-5e0c-4a988a7e".parse::<Bookmark>().is_err());
/// # Ok::<(), abide_storage::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bookmark {
    /// Not before the end of the commit, and before the end of the object's next one. For a commit that has not been made
    /// yet: between the end of the preceding commit and its own.
    pub(crate) position: Position,
    /// The commit number; 0 is the object before its first commit.
    pub(crate) commit: CommitNo,
    /// The tag of the object.
    pub(crate) object: u16,
}

impl Bookmark {
    /// Rejects a bookmark of another object.
    pub(crate) fn must_be_of(&self, key: ObjectKey) -> Result<()> {
        if self.object == mark(key) {
            return Ok(());
        }
        Err(Error::input(format!(
            "{self} is not a bookmark of the object {key}: use one that was taken from this object"
        )))
    }

    fn body(&self) -> String {
        format!(
            "{:08x}-{:016x}-{:08x}-{:04x}",
            self.position.generation.0, self.position.lsn.0, self.commit.0, self.object
        )
    }
}

/// A short tag of an object: part of a checksum of its key.
pub(crate) fn mark(key: ObjectKey) -> u16 {
    let namespace = crc32c::crc32c(&key.namespace.0.to_le_bytes());
    crc32c::crc32c_append(namespace, &key.id) as u16
}

impl Ord for Bookmark {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |b: &Self| (b.position, b.commit.0, b.object);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for Bookmark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body();
        write!(f, "{body}-{:08x}", crc32c::crc32c(body.as_bytes()))
    }
}

impl fmt::Debug for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bookmark({self})")
    }
}

impl FromStr for Bookmark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::input(format!(
                "{text:?} is not a bookmark: copy the whole text, which looks like {EXAMPLE}"
            ))
        };
        let number = |range| {
            let digits: &str = text.get(range)?;
            let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
            u64::from_str_radix(digits, 16).ok().filter(|_| hex)
        };
        let parse = || {
            Some(Self {
                position: Position::at(Generation(number(0..8)? as u32), Lsn(number(9..25)?)),
                commit: CommitNo(number(26..34)? as u32),
                object: number(35..39)? as u16,
            })
        };
        let bookmark = parse().ok_or_else(refused)?;
        // Formatting it again also checks the separators and the checksum.
        if bookmark.to_string() == text {
            Ok(bookmark)
        } else {
            Err(refused())
        }
    }
}

impl Serialize for Bookmark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bookmark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bookmark((generation, lsn, commit, object): (u32, u64, u32, u16)) -> Bookmark {
        Bookmark {
            position: Position::at(Generation(generation), Lsn(lsn)),
            commit: CommitNo(commit),
            object,
        }
    }

    #[test]
    fn the_example_of_the_message_is_a_bookmark() {
        assert_eq!(
            EXAMPLE.parse::<Bookmark>().unwrap(),
            bookmark((3, 0x1a40, 17, 0x5e0c))
        );
    }

    proptest! {
        #[test]
        fn bookmarks_survive_their_text_and_order_as_text(a: (u32, u64, u32, u16), b: (u32, u64, u32, u16)) {
            let (a, b) = (bookmark(a), bookmark(b));
            prop_assert_eq!(a.to_string().parse::<Bookmark>().unwrap(), a);
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
            let json = serde_json::to_string(&a).unwrap();
            prop_assert_eq!(serde_json::from_str::<Bookmark>(&json).unwrap(), a);
        }

        #[test]
        fn a_mistyped_bookmark_is_refused(a: (u32, u64, u32, u16), at in 0..48_usize, digit in 0..16_u32) {
            let text = bookmark(a).to_string();
            let typed = char::from_digit(digit, 16).unwrap();
            let mut mistyped: Vec<char> = text.chars().collect();
            prop_assume!(mistyped[at] != typed);
            mistyped[at] = typed;
            let mistyped: String = mistyped.into_iter().collect();
            prop_assert!(mistyped.parse::<Bookmark>().is_err());
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = text.parse::<Bookmark>();
        }
    }
}
