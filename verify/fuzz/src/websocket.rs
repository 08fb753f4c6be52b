//! Arbitrary bytes as WebSocket frames: the result must not depend on how they are split, and must match that of
//! another implementation of RFC 6455.

use abide_server::fuzzing::{Conversation, PeerInput, read_frames};
use std::io::{Cursor, Read, Write};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket, error::ProtocolError};

/// Longest message in bytes.
const MAX_MESSAGE: usize = 4096;

/// The first byte selects the sender's role, the second how the rest is split.
pub fn target(bytes: &[u8]) {
    let [from, cut, frames @ ..] = bytes else {
        return;
    };
    let from_client = from % 2 == 0;
    let ours = read_frames(from_client, MAX_MESSAGE, [frames]);
    let pieces = frames.chunks(usize::from(*cut).max(1));
    assert_eq!(read_frames(from_client, MAX_MESSAGE, pieces), ours);
    agree(&ours, &theirs(from_client, frames));
}

/// The end of a conversation in the other implementation.
#[derive(Debug)]
enum End {
    /// More bytes are needed.
    Open,
    /// With a close frame.
    Closed,
    /// A text is not UTF-8. Detected at the fragment rather than at the end of the message.
    NotUtf8,
    /// Any other violation of the protocol or a limit.
    Violation,
}

fn agree(ours: &Conversation, (said, end): &(Vec<PeerInput>, End)) {
    assert!(
        matches!(ours.violation, None | Some(1002 | 1007 | 1009)),
        "closed with {:?}",
        ours.violation
    );
    let told = || format!("{ours:?} is not {said:?} {end:?}");
    match end {
        // This implementation rejects a frame by its header, the other one only when it is complete.
        End::Open => assert_eq!(&ours.said, said, "{}", told()),
        End::Violation => {
            assert_eq!(&ours.said, said, "{}", told());
            assert!(ours.violation.is_some(), "{}", told());
        }
        End::Closed => {
            let (close, before) = said.split_last().expect("a close frame");
            // The other side replaces an unknown code by this; 1014 is newer than its list.
            let replaced = *close == PeerInput::Close(1002, "Protocol violation".to_owned());
            let agreed = match ours.said.strip_prefix(before) {
                Some([]) => ours.violation.is_some() && (replaced || !may_be_sent(close)),
                Some([ours]) => {
                    may_be_sent(ours)
                        && (ours == close || replaced && matches!(ours, PeerInput::Close(1014, _)))
                }
                _ => false,
            };
            assert!(agreed, "{}", told());
        }
        End::NotUtf8 => {
            let rest = ours.said.strip_prefix(said.as_slice());
            let rest = rest.unwrap_or_else(|| panic!("{}", told()));
            let messages = rest
                .iter()
                .any(|said| matches!(said, PeerInput::Text(_) | PeerInput::Binary(_)));
            assert!(!messages, "{}", told());
        }
    }
}

/// Returns whether it is a close frame without a code, or with a code of RFC 6455, section 7.4, or its registry.
fn may_be_sent(close: &PeerInput) -> bool {
    matches!(
        close,
        PeerInput::Close(1000..=1003 | 1005 | 1007..=1014 | 3000..=4999, _)
    )
}

/// The result of `tungstenite` for the same bytes.
fn theirs(from_client: bool, frames: &[u8]) -> (Vec<PeerInput>, End) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .read_buffer_size(1024);
    let role = if from_client {
        Role::Server
    } else {
        Role::Client
    };
    let mut socket = WebSocket::from_raw_socket(Peer(Cursor::new(frames)), role, Some(config));
    let mut all = Vec::new();
    loop {
        all.push(match socket.read() {
            Ok(Message::Text(text)) => PeerInput::Text(text.to_string()),
            Ok(Message::Binary(bytes)) => PeerInput::Binary(bytes),
            Ok(Message::Ping(bytes)) => PeerInput::Ping(bytes),
            Ok(Message::Pong(_)) => PeerInput::Pong,
            Ok(Message::Close(close)) => {
                all.push(close.map_or_else(
                    || PeerInput::Close(1005, String::new()),
                    |close| PeerInput::Close(close.code.into(), close.reason.to_string()),
                ));
                return (all, End::Closed);
            }
            Ok(Message::Frame(_)) => continue,
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                return (all, End::Open);
            }
            Err(Error::Utf8(_)) => return (all, End::NotUtf8),
            Err(_) => return (all, End::Violation),
        });
    }
}

/// A peer that sends these bytes and receives nothing.
struct Peer<'a>(Cursor<&'a [u8]>);

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
