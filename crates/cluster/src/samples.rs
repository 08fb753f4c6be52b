//! Names and rows for tests.

use crate::{Lsn, Peer, SessionId};

pub(crate) const ME: SessionId = SessionId {
    number: 1,
    nonce: 1,
};

pub(crate) const OTHER: SessionId = SessionId {
    number: 2,
    nonce: 2,
};

/// A session that has renewed its lease once.
pub(crate) const NEW: Peer = Peer {
    renewals: 1,
    lsn: Lsn(0),
    listed: 0,
    is_fenced: false,
};
