//! The interface of the HTTP client that sends requests to other servers.
//!
//! Inside an object a request leaves through the output gate: not before the object's earlier writes are durable, and
//! in the order of the other requests. An answer or a call sent after it may overtake it, because the client does not
//! run on the log's writer thread. Once it has left, it cannot be recalled.

use std::{future::Future, pin::Pin};

use crate::{Request, Response, Result};

/// The future response to a request that was sent.
pub type Fetching = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;

/// An HTTP client.
///
/// The runtime has no client; the host supplies one.
pub trait Outbound: Send + Sync + 'static {
    /// Sends a request, whose URI is absolute.
    ///
    /// The request is sent when this returns: dropping the future does not cancel it. This never blocks, and works on
    /// any thread. For an object it is called on a thread of the node, in the order in which the requests left; if it
    /// panics, the caller gets an error. Must respect [`NoRedirects`].
    fn fetch(&self, request: Request) -> Fetching;
}

/// In a request's extensions: a redirect is not followed but returned as the response.
///
/// For requests with side effects: a client that follows a redirect may turn a `POST` into a `GET`, which succeeds and
/// does nothing, and reveals the request's headers to the redirect's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRedirects;
