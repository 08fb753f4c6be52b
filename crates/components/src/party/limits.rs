//! Every bound of parties, in one place, with the source of its number.

/// Bytes of a room's name. It is the name of an object, and stands in addresses.
pub const MAX_ROOM_BYTES: usize = 128;

/// Bytes of a connection's id (`_pk`). `partysocket` sends a UUID of 36 bytes, the Yjs provider 10 characters; with a prefix it must
/// fit a WebSocket's tag (256 bytes).
pub const MAX_ID_BYTES: usize = 128;

/// Bytes of the path and query with which a connection was opened: they are kept with it.
pub const MAX_URI_BYTES: usize = 2_048;

/// Tags that a program gives a connection. A WebSocket has ten, and one is the connection's id.
pub const MAX_TAGS: usize = 9;

/// Bytes of a connection's state, as JSON. With the address and a component's share, it fits a WebSocket's attachment (16 KiB).
pub const MAX_STATE_BYTES: usize = 4_096;

/// Bytes of what a component keeps with a connection, as JSON.
pub(crate) const MAX_SHARE_BYTES: usize = 8_192;

/// Connections of one room, unless its [`RoomOptions`](super::RoomOptions) say otherwise: a message to each of them is that many frames.
pub const DEFAULT_MAX_CONNECTIONS: usize = 1_000;

/// The most that a room may be given: fewer than the WebSockets of an object (32,768), where closing ones count, too.
pub const MAX_CONNECTIONS: usize = 30_000;
