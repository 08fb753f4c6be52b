//! The messages between pages and rooms, as JSON text; names, and their validation.

use std::fmt;

use abide::server::read_json;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum length of a room's or a person's name in characters.
pub const MAX_NAME: usize = 40;

/// Maximum length of a message's text in characters.
pub const MAX_TEXT: usize = 4_000;

/// Maximum length in bytes of the mark by which a client recognizes its own message.
pub const MAX_MARK: usize = 64;

/// A message from a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromClient {
    /// A chat message. Sent again with the same mark, it is the same message.
    Say {
        /// The text.
        text: String,
        /// Unique among this person's messages.
        mark: String,
    },
}

/// A message from a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToClient {
    /// To a new visitor: the messages since the newest one that they know, and who is present.
    Welcome {
        /// Oldest first.
        history: Vec<Entry>,
        /// Names, in order of arrival.
        present: Vec<String>,
    },
    /// A member's message, which is on disk.
    Said(Entry),
    /// The people who are now present.
    Present {
        /// Names, in order of arrival.
        present: Vec<String>,
    },
    /// To a member who writes too fast: the message was rejected; send it again later.
    SlowDown {
        /// The message's mark.
        mark: String,
        /// Time to wait, in milliseconds.
        wait: u64,
    },
    /// To a member whose message is invalid: it was rejected.
    Refused {
        /// The message's mark, if it had one.
        mark: Option<String>,
        /// The reason, for people.
        why: String,
    },
}

/// A message in a room's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Increases by one with each message of the room.
    pub id: i64,
    /// Who said it.
    pub name: String,
    /// What was said.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The client's own mark.
    pub mark: String,
}

/// Why input is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    /// A name without a visible character, or a long one, or one with control characters.
    #[error("{0} must have 1 to {MAX_NAME} characters and no control characters.")]
    Name(&'static str),
    /// An empty or a long text.
    #[error("A message must have 1 to {MAX_TEXT} characters.")]
    Text,
    /// An empty or a long mark.
    #[error("A message's mark must have 1 to {MAX_MARK} bytes.")]
    Mark,
    /// Something that is not JSON of the expected form.
    #[error("Expected JSON such as {{\"type\":\"say\",\"text\":\"hello\",\"mark\":\"1\"}}: {0}.")]
    Form(String),
}

impl FromClient {
    /// Parses a message from a page.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        read_json(text.as_bytes()).map_err(Invalid::Form)
    }

    /// Checks the lengths.
    pub fn check(&self) -> Result<(), Invalid> {
        let Self::Say { text, mark } = self;
        if text.trim().is_empty() || text.chars().count() > MAX_TEXT {
            return Err(Invalid::Text);
        }
        if mark.is_empty() || mark.len() > MAX_MARK {
            return Err(Invalid::Mark);
        }
        Ok(())
    }
}

fn checked(text: &str, what: &'static str) -> Result<String, Invalid> {
    let text = text.trim();
    let fits =
        !text.is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control);
    if fits {
        Ok(text.to_owned())
    } else {
        Err(Invalid::Name(what))
    }
}

/// A person's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        checked(text, "A person's name").map(Self)
    }
}

/// A room's name; upper and lower case are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomName(String);

impl RoomName {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        checked(&text.to_lowercase(), "A room's name").map(Self)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_checked() {
        assert_eq!(Name::parse("  ada ").unwrap().to_string(), "ada");
        assert_eq!(RoomName::parse("Lobby").unwrap().to_string(), "lobby");
        for bad in ["", "   ", "a\nb", &"x".repeat(MAX_NAME + 1)] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Name::parse(&"é".repeat(MAX_NAME)).is_ok());
    }

    #[test]
    fn an_invalid_message_is_refused_with_what_is_expected() {
        let say = |text: &str, mark: &str| {
            FromClient::Say {
                text: text.to_owned(),
                mark: mark.to_owned(),
            }
            .check()
        };
        assert!(say("hello", "1").is_ok());
        assert_eq!(say(" ", "1"), Err(Invalid::Text));
        assert!(say(&"é".repeat(MAX_TEXT), "1").is_ok());
        assert_eq!(say(&"x".repeat(MAX_TEXT + 1), "1"), Err(Invalid::Text));
        assert_eq!(say("hello", ""), Err(Invalid::Mark));
        assert!(matches!(FromClient::parse("hello"), Err(Invalid::Form(_))));
    }
}
