//! A node's WebSocket options.

use std::time::Duration;

use abide_macros::Setters;

use crate::limits;

/// What happens to a socket whose reader is slower than the object: more than the send buffer's size has been waiting
/// for [10 s](limits::WEBSOCKET_BURST_PATIENCE), or [16 times](limits::WEBSOCKET_BURST) that size is waiting. Shorter
/// bursts between these limits are tolerated: an object may send much at once, and a slow disk holds back messages that
/// then arrive together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowReader {
    /// It is closed with 1013 (try again later), and unread messages are dropped. The client can tell that it missed
    /// something.
    #[default]
    Close,
    /// It stays open and misses the messages that do not fit.
    DropNewest,
}

/// A node's WebSocket options.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct WebSocketOptions {
    /// Longest message in either direction, in bytes.
    pub max_message_bytes: usize,
    /// The size of the send buffer. Each message counts 64 bytes more than its length; a single one always fits, and so
    /// does a burst: see [`SlowReader`].
    pub send_buffer_bytes: usize,
    /// What happens when the send buffer overflows.
    pub slow_reader: SlowReader,
    /// Messages of one socket that its object has not finished handling; at this limit, the gateway stops reading from
    /// it. At least 1.
    pub max_in_flight: usize,
    /// How long a message may wait because too many of its socket are in flight, or because its worker is overloaded;
    /// then the socket is closed with 1013. Also how long a message waits for an object that cannot be created; then
    /// the socket is closed with 1011.
    pub delivery_patience: Duration,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            max_message_bytes: limits::MAX_WEBSOCKET_MESSAGE,
            send_buffer_bytes: limits::WEBSOCKET_SEND_BUFFER,
            slow_reader: SlowReader::default(),
            max_in_flight: limits::MAX_WEBSOCKET_IN_FLIGHT,
            delivery_patience: limits::WEBSOCKET_DELIVERY_PATIENCE,
        }
    }
}
