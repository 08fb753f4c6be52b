//! A moment of an object, as a value.

use std::{fmt, str::FromStr};

use abide_storage::Bookmark;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{Error, ErrorKind, ObjectId, Result};

/// Between the two parts of a snapshot's text.
const AT: char = '@';

/// The state of an object after one of its commits: the object's id, which also says of which class it is, and a bookmark.
///
/// It is a value of about 110 bytes that an object can store, return from a method and send to others. The content stays in
/// the node's history, so a snapshot costs nothing, and lasts as long as the history does
/// (`archive.retention`, 30 days). [`Env::fork`](crate::Env::fork) makes another object from it; [`Moment`](crate::Moment) has
/// it restored and read.
///
/// As text, and in serde's formats: `OBJECT@BOOKMARK`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Snapshot {
    object: ObjectId,
    bookmark: Bookmark,
}

impl Snapshot {
    /// The state of an object at one of its bookmarks.
    pub const fn new(object: ObjectId, bookmark: Bookmark) -> Self {
        Self { object, bookmark }
    }

    /// The object.
    pub const fn object(&self) -> ObjectId {
        self.object
    }

    /// The bookmark of its state.
    pub const fn bookmark(&self) -> Bookmark {
        self.bookmark
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{AT}{}", self.object, self.bookmark)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({self})")
    }
}

impl FromStr for Snapshot {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((object, bookmark)) = text.split_once(AT) else {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!("{text:?} is not a snapshot: copy the whole text, OBJECT{AT}BOOKMARK"),
            ));
        };
        Ok(Self {
            object: object.parse()?,
            bookmark: bookmark.parse()?,
        })
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOKMARK: &str = "00000003-0000000000001a40-00000011-5e0c-4a988a7e";

    #[test]
    fn snapshot_survives_its_text_form() {
        let snapshot = Snapshot::new(
            ObjectId::from_name("Note", "ada"),
            BOOKMARK.parse().unwrap(),
        );
        let text = snapshot.to_string();
        assert_eq!(text.parse::<Snapshot>().unwrap(), snapshot);
        let json = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
    }

    #[test]
    fn text_that_is_not_a_snapshot_is_refused() {
        let id = ObjectId::from_name("Note", "ada");
        for text in [
            "",
            BOOKMARK,
            &format!("{id}@"),
            &format!("@{BOOKMARK}"),
            &format!("{id}@{}", BOOKMARK.replace("1a40", "1a41")),
        ] {
            let error = text.parse::<Snapshot>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input, "{text}");
        }
    }
}
