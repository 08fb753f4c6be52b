//! The frame reader for fuzzers: input must be read the same way however it is split.

use abide_runtime::socket::Message;
use bytes::Bytes;

use super::{
    Role,
    reader::{Input, Reader},
};

/// A message or control frame of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerInput {
    /// A message of text.
    Text(String),
    /// A message of bytes.
    Binary(Bytes),
    /// A ping, with its payload.
    Ping(Bytes),
    /// A pong; the reader does not keep its payload.
    Pong,
    /// A close frame: its code (1005 if it has none) and its reason.
    Close(u16, String),
}

/// The input up to its end, the first close frame or the first violation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The complete messages and control frames.
    pub said: Vec<PeerInput>,
    /// The close code that answers the violation, if there was one.
    pub violation: Option<u16>,
}

/// Reads the input that a client (`from_client`), or a server, sends in these pieces.
pub fn read_frames<'a>(
    from_client: bool,
    max_message: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Conversation {
    let role = if from_client {
        Role::Server
    } else {
        Role::Client
    };
    let mut reader = Reader::new(role, max_message);
    let mut conversation = Conversation::default();
    for mut piece in pieces {
        loop {
            match reader.read(&mut piece) {
                Ok(None) => break,
                Ok(Some(input)) => conversation.said.push(said(input)),
                Err(violation) => {
                    conversation.violation = Some(violation.code);
                    return conversation;
                }
            }
            if let Some(PeerInput::Close(..)) = conversation.said.last() {
                return conversation;
            }
        }
        assert!(piece.is_empty(), "a reader that needs more has taken all");
    }
    conversation
}

fn said(input: Input) -> PeerInput {
    match input {
        Input::Message(Message::Text(text)) => PeerInput::Text(text.to_string()),
        Input::Message(Message::Binary(bytes)) => PeerInput::Binary(bytes),
        Input::Ping(bytes) => PeerInput::Ping(bytes),
        Input::Pong => PeerInput::Pong,
        Input::Close(close) => PeerInput::Close(close.code, close.reason.to_string()),
    }
}
