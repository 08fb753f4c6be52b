//! Requests that leave the node, and the seam for the HTTP client that carries them.
//!
//! Inside an object a request leaves through the output gate: not before what the object wrote before it is
//! durable, and in the order of the other requests. An answer or a call that was sent after it may overtake it, because
//! the client does not run on the thread that writes the log. Once it has left, nothing calls it back.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    Call, Error, ErrorKind, Reply, Request, Response, Result, body,
    envelope::Ticket,
    gate::{Departure, Released},
    limits::EVENT_BYTES,
    object::Object,
    router::{Phase, Router, RouterHandle},
};

/// A request on its way: what comes back, later.
pub type Fetching = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;

/// An HTTP client.
///
/// The runtime has none of its own; the host gives it one.
pub trait Outbound: Send + Sync + 'static {
    /// Sends a request, whose URI is absolute.
    ///
    /// The request is on its way when this returns: dropping the future does not call it back. This never
    /// blocks, and works on any thread. For an object it is called on a thread of the node, in the order in which the
    /// requests left; if it panics, whoever made the request gets an error. Heeds [`NoRedirects`].
    fn fetch(&self, request: Request) -> Fetching;
}

/// In a request's extensions: a redirect is not followed but handed back as the response that it is.
///
/// For requests that mean something: a client that follows a redirect may turn a `POST` into a `GET`, which succeeds and
/// does nothing, and shows the request's headers to whoever it leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRedirects;

/// A request that waits at an output gate.
pub(crate) struct OutgoingRequest {
    pub(crate) client: Arc<dyn Outbound>,
    pub(crate) request: Request,
    /// Why it must not leave.
    pub(crate) failure: Option<Error>,
    pub(crate) left: oneshot::Sender<Released<Fetching>>,
    /// Bounds what the gate holds.
    pub(crate) ticket: Ticket,
}

impl OutgoingRequest {
    /// The request must not leave.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }
}

/// Sends a request: at once from outside, through the output gate from inside an object.
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
                "`{uri}` does not say where to: write the whole URL, such as https://example.com/path"
            ),
        ));
    }
    router.clients.requests.as_ref().ok_or_else(|| {
        Error::with_kind(
            ErrorKind::NotFound,
            "this node has no HTTP client: give it one with NodeBuilder::outbound",
        )
    })
}
