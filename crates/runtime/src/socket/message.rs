//! The messages of a WebSocket.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

/// A message: text or bytes. Clones share their content, so a message sent to many sockets is in memory once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// UTF-8 text.
    Text(ByteString),
    /// Bytes.
    Binary(Bytes),
}

impl Message {
    /// The text of a text message.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Binary(_) => None,
        }
    }

    /// The bytes of either kind.
    pub fn as_bytes(&self) -> &Bytes {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// The bytes of either kind, without a copy.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The maximum part of a message in a log line.
        const SHOWN: usize = 80;
        match self {
            Self::Text(text) if text.chars().nth(SHOWN).is_none() => write!(f, "Text({text:?})"),
            Self::Text(text) => {
                let shown: String = text.chars().take(SHOWN).collect();
                write!(f, "Text({shown:?}…, {} bytes)", text.len())
            }
            Self::Binary(bytes) => write!(f, "Binary({} bytes)", bytes.len()),
        }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&String> for Message {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<ByteString> for Message {
    fn from(text: ByteString) -> Self {
        Self::Text(text)
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Self {
        Self::Binary(Bytes::copy_from_slice(bytes))
    }
}

impl From<&Message> for Message {
    fn from(message: &Message) -> Self {
        message.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_of_a_message_shares_its_bytes() {
        let message = Message::from("x".repeat(100));
        let copy = message.clone();
        assert_eq!(message.as_bytes().as_ptr(), copy.as_bytes().as_ptr());
        assert_eq!((copy.len(), copy.is_empty()), (100, false));
    }

    #[test]
    fn the_debug_form_of_a_long_message_is_short() {
        assert_eq!(format!("{:?}", Message::from("hi")), r#"Text("hi")"#);
        assert!(format!("{:?}", Message::from("é".repeat(1_000))).len() < 250);
        assert_eq!(
            format!("{:?}", Message::from(vec![0; 9])),
            "Binary(9 bytes)"
        );
    }
}
