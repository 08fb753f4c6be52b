//! Requests that leave the node, and the interface of the HTTP client that sends them.
//!
//! Inside an object a request leaves through the output gate: not before the object's earlier writes are durable, and
//! in the order of the other requests. An answer or a call sent after it may overtake it, because the client does not
//! run on the log's writer thread. Once it has left, it cannot be recalled.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    Call, Error, ErrorKind, Reply, Request, Response, Result, body,
    envelope::Ticket,
    gate::{Departure, Released},
    handle::RouterHandle,
    limits::EVENT_BYTES,
    object::Object,
    router::{Phase, Router},
};

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

/// A request that waits at an output gate.
pub(crate) struct OutgoingRequest {
    pub(crate) client: Arc<dyn Outbound>,
    pub(crate) request: Request,
    /// Why it must not be sent.
    pub(crate) failure: Option<Error>,
    pub(crate) left: oneshot::Sender<Released<Fetching>>,
    /// Bounds what the gate holds.
    pub(crate) ticket: Ticket,
}

impl OutgoingRequest {
    /// Marks the request as failed: it must not be sent.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }
}

/// Sends a request: immediately from outside, through the output gate from inside an object.
pub(crate) fn fetch(router: &RouterHandle, request: Request) -> Call<Response> {
    let sent = router.sender().and_then(|sender| match sender {
        Some(object) => send_from(&object, router, request),
        None if router.phase() == Phase::Running => client(router, &request)
            .map(|client| Call::outside(client.fetch(request), Reply::into_response)),
        None => Err(Error::stopping()),
    });
    sent.unwrap_or_else(|error| Call::failed(error, Reply::into_response))
}

fn send_from(
    object: &std::rc::Rc<Object>,
    router: &Router,
    request: Request,
) -> Result<Call<Response>> {
    let client = Arc::clone(client(router, &request)?);
    let mailbox = &object.worker.mailbox;
    let ticket = Ticket::new(mailbox, EVENT_BYTES + body::known_bytes(request.body()));
    mailbox.admit()?;
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, body::gated(object, body)?);
    let (left, leaving) = oneshot::channel();
    object.push(Departure::Fetch(Box::new(OutgoingRequest {
        client,
        request,
        failure: None,
        left,
        ticket,
    })));
    Ok(Call::leaving(leaving, Reply::into_response))
}

fn client<'a>(router: &'a Router, request: &Request) -> Result<&'a Arc<dyn Outbound>> {
    let uri = request.uri();
    if uri.scheme().is_none() || uri.authority().is_none() {
        return Err(Error::with_kind(
            ErrorKind::Input,
            format!(
                "`{uri}` is not an absolute URL: write the complete URL, such as https://example.com/path"
            ),
        ));
    }
    router.clients.requests.as_ref().ok_or_else(|| {
        Error::with_kind(
            ErrorKind::NotFound,
            "this node has no HTTP client: set one with NodeBuilder::outbound",
        )
    })
}
