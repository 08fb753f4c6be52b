//! The id of a message.

use std::{fmt, str::FromStr};

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// A message's id in its queue: its shard, and its number there, such as `3-127`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MessageId {
    pub(super) shard: u32,
    pub(super) number: i64,
}

impl MessageId {
    /// Its shard, from 0.
    pub fn shard(self) -> u32 {
        self.shard
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shard, self.number)
    }
}

impl FromStr for MessageId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('-').and_then(|(shard, number)| {
            Some(Self {
                shard: shard.parse().ok()?,
                number: number.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| {
            Error::with_kind(
                ErrorKind::Input,
                format!(
                    "`{text}` is not a message id: it looks like `3-127`, its shard and its number"
                ),
            )
        })
    }
}

impl From<MessageId> for String {
    fn from(id: MessageId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for MessageId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}
