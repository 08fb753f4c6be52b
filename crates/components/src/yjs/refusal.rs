//! Why a client is refused, and what its connection is closed with.

use thiserror::Error;

use super::limits::{MAX_AWARENESS_BYTES, MAX_CUSTOM_BYTES, MAX_NESTED_TYPES, MAX_STATES};

/// Why a message was refused. The connection is closed with the [code](Self::code), and with the text as its reason. Nothing of the
/// message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The message is longer than the options allow.
    #[error("a message has at most {limit} bytes: send large changes in parts")]
    TooLong {
        /// How many bytes it may have.
        limit: usize,
    },
    /// The message is not one of the protocol, or is cut off.
    #[error("the message is malformed: send what y-protocols encodes")]
    Malformed,
    /// An update that is not one.
    #[error("the update is malformed: send what Yjs encodes, in version 1")]
    MalformedUpdate,
    /// Awareness states that are not JSON, or more than a message may have.
    #[error("the awareness states are malformed: they are JSON")]
    MalformedAwareness,
    /// The type of the message.
    #[error("messages of type {0} are unknown: 0 is sync, 1 awareness, 3 asks for awareness")]
    UnknownType(u64),
    /// A text without the prefix of texts for the program.
    #[error(
        "texts begin with __YPS: and have at most {MAX_CUSTOM_BYTES} bytes; all else is binary"
    )]
    UnknownText,
    /// More awareness than a connection may have.
    #[error(
        "a connection has at most {MAX_STATES} awareness states of {MAX_AWARENESS_BYTES} bytes"
    )]
    TooMuchAwareness,
    /// The document would be longer than the options allow.
    #[error("the document is full: it has at most {limit} bytes")]
    Full {
        /// How many bytes it may have.
        limit: u64,
    },
    /// The document would have more nested types than it may.
    #[error("the document is full: it has at most {MAX_NESTED_TYPES} nested types")]
    TooManyTypes,
}

impl Refusal {
    /// The close code: 1003 (unknown), 1007 (malformed), 1009 (too long), or 4413 (full), after which `y-websocket` does not
    /// reconnect by itself.
    pub fn code(self) -> u16 {
        match self {
            Self::UnknownType(_) | Self::UnknownText => 1003,
            Self::Malformed | Self::MalformedUpdate | Self::MalformedAwareness => 1007,
            Self::TooLong { .. } | Self::TooMuchAwareness => 1009,
            Self::Full { .. } | Self::TooManyTypes => 4413,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_fits_a_close_frame() {
        for refusal in [
            Refusal::TooLong { limit: usize::MAX },
            Refusal::Malformed,
            Refusal::MalformedUpdate,
            Refusal::MalformedAwareness,
            Refusal::UnknownType(u64::MAX),
            Refusal::UnknownText,
            Refusal::TooMuchAwareness,
            Refusal::Full { limit: u64::MAX },
            Refusal::TooManyTypes,
        ] {
            assert!(refusal.to_string().len() <= 123, "{refusal}");
        }
    }
}
