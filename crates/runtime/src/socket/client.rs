//! The client's end of a socket that an object has accepted, on its way to the gateway in a response.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum_core::body::Body;
use http::StatusCode;

use super::{Endpoint, Link};
use crate::{Error, ErrorKind, Response, Result};

/// The client's end of a WebSocket that an object has accepted: a response carries it to the gateway in its extensions.
///
/// If its last clone is dropped before a gateway has claimed it, because the client is gone or another response was
/// sent, the socket ends with 1006.
#[derive(Clone)]
pub struct ClientSocket(Arc<Unclaimed>);

struct Unclaimed {
    link: Arc<Link>,
    claimed: AtomicBool,
}

impl ClientSocket {
    /// The client's end of this socket, which an object has accepted.
    pub(crate) fn of(link: Arc<Link>) -> Self {
        Self(Arc::new(Unclaimed {
            link,
            claimed: AtomicBool::new(false),
        }))
    }

    /// The response to a WebSocket request: status 101 with the client's end.
    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.extensions_mut().insert(self);
        response
    }

    /// Turns it into the gateway's end. Fails if it was already claimed.
    pub fn claim(self) -> Result<Endpoint> {
        if self.0.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the WebSocket of this response is already being served: answer one request with it",
            ));
        }
        Ok(Endpoint::new(Arc::clone(&self.0.link)))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if !*self.claimed.get_mut() {
            // Dropping it sends the close event.
            drop(Endpoint::new(Arc::clone(&self.link)));
        }
    }
}

impl fmt::Debug for ClientSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSocket").finish_non_exhaustive()
    }
}
