//! Sends requests to other servers.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    Call, Error, ErrorKind, Outbound, Reply, Request, Response, Result, body,
    envelope::Ticket,
    gate::{Departure, OutgoingRequest},
    handle::RouterHandle,
    limits::EVENT_BYTES,
    object::{Object, streaming},
    router::{Phase, Router},
};

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
    let request = Request::from_parts(parts, streaming::gated(object, body)?);
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
    router.outbound.as_ref().ok_or_else(|| {
        Error::with_kind(
            ErrorKind::NotFound,
            "this node has no HTTP client: set one with NodeBuilder::outbound",
        )
    })
}
