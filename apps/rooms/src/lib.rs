//! Documents that several people edit at once, and rooms for `partysocket`.
//!
//! A document ([`DocumentRoom`], the party `main`) speaks the protocols of Yjs: every editor that has a binding for Yjs can edit it; the
//! program's own page uses `CodeMirror`. A channel ([`Channel`], the party `channel`) relays messages between its clients. Each is an
//! object, which leaves memory while it is idle and keeps its connections.
#![forbid(unsafe_code)]

mod channel;
mod document;
mod http;
mod page;

pub use channel::Channel;
pub use document::{DocumentRoom, DocumentStatus};
pub use http::router;

/// Bounds of the rooms, which the command line sets.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections of one room.
    pub max_connections: usize,
    /// Bytes of one stored document.
    pub max_document_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_connections: 200,
            max_document_bytes: abide::limits::yjs::DEFAULT_MAX_DOCUMENT_BYTES,
        }
    }
}
