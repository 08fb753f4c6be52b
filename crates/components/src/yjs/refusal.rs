//! Why a client's message is refused, and the code that its connection is closed with.

use thiserror::Error;

use super::limits::{
    MAX_AWARENESS_BYTES, MAX_AWARENESS_MESSAGE_BYTES, MAX_CUSTOM_BYTES, MAX_NESTED_TYPES,
    MAX_STATES,
};

/// Why a message was refused. The connection is closed with the [code](Self::code), and with the text as its reason. Nothing of the
/// message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// An awareness message that is too long.
    #[error("an awareness message has at most {MAX_AWARENESS_MESSAGE_BYTES} bytes")]
    TooLong,
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
    /// The update, or the document with it, would take more processor time than it may. Only documents that were
    /// crafted for that do, with very many insertions at one place.
    #[error("the update takes too much work: it has too many concurrent insertions at one place")]
    TooMuchWork,
    /// The stored document takes too long to read. It is refused until an earlier state is restored.
    #[error(
        "the document is quarantined, because it takes too long to read: restore an earlier state"
    )]
    Quarantined,
    /// The connection may only read.
    #[error("the connection is read-only: the change was not taken")]
    ReadOnly,
}

impl Refusal {
    /// The close code: 1003 (unknown), 1007 (malformed), 1009 (too long), 4403 (read-only), or 4413 (full). `y-websocket` does not
    /// reconnect after a code from 4400 to 4499.
    pub fn code(self) -> u16 {
        match self {
            Self::UnknownType(_) | Self::UnknownText => 1003,
            Self::Malformed | Self::MalformedUpdate | Self::MalformedAwareness => 1007,
            Self::TooLong | Self::TooMuchAwareness => 1009,
            Self::ReadOnly => 4403,
            Self::Full { .. } | Self::TooManyTypes | Self::TooMuchWork | Self::Quarantined => 4413,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_fits_a_close_frame() {
        for refusal in [
            Refusal::TooLong,
            Refusal::Malformed,
            Refusal::MalformedUpdate,
            Refusal::MalformedAwareness,
            Refusal::UnknownType(u64::MAX),
            Refusal::UnknownText,
            Refusal::TooMuchAwareness,
            Refusal::Full { limit: u64::MAX },
            Refusal::TooManyTypes,
            Refusal::TooMuchWork,
            Refusal::Quarantined,
            Refusal::ReadOnly,
        ] {
            assert!(refusal.to_string().len() <= 123, "{refusal}");
        }
    }
}
