//! How a node treats its sockets.

use derive_setters::Setters;
use std::time::Duration;

use crate::limits;

/// What becomes of a socket whose reader is slower than the object: more than its send buffer's size has waited for it for
/// [10 s](limits::WEBSOCKET_BURST_PATIENCE), or [16 times](limits::WEBSOCKET_BURST) that size waits. A burst between the two is
/// nobody's fault: an object may send much at once, and a slow disk holds back what then arrives together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowReader {
    /// It is closed with 1013 (try again later); what it had not read yet is dropped. The client can tell that
    /// it missed something.
    #[default]
    Close,
    /// It stays open and misses the messages for which there is no room.
    DropNewest,
}

/// How a node treats its sockets.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct WebSocketOptions {
    /// Longest message in either direction, in bytes.
    pub max_message_bytes: usize,
    /// What may wait for one reader for long. Each message counts 64 bytes more than its length; a single one always fits,
    /// and so does a burst: see [`SlowReader`].
    pub send_buffer_bytes: usize,
    /// What happens when more would have to wait.
    pub slow_reader: SlowReader,
    /// Messages of one socket that its object has not finished handling; then no more is read from it. At least 1.
    pub max_in_flight: usize,
    /// How long a message may wait because too many of its socket are in flight, or because its worker is overloaded;
    /// then the socket is closed with 1013. And how long one waits for an object that cannot be made; then it is closed
    /// with 1011.
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
