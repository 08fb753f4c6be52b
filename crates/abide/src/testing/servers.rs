//! Other servers, played by the test.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, ready},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use abide_core::{
    Body, Error, Fetching, Outbound, Request, Response, Result,
    http::{HeaderMap, Method, StatusCode, Uri, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Collected};
use serde::de::DeserializeOwned;

type Answer = Box<dyn Fn(&Received) -> Result<Response> + Send + Sync>;

/// Takes the place of all other servers: keeps the requests that the program sends, from a `fetch` as from an outbox, and answers them.
/// Clones share what has been received.
///
/// ```
/// # use abide::{Host, prelude::*, server::HostError, testing::Servers};
/// use abide::http::StatusCode;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), HostError> {
/// let servers = Servers::new();
/// servers.next(StatusCode::SERVICE_UNAVAILABLE); // the first request; 204 (No Content) after it
/// let host = Host::open_in_memory().outbound(Arc::new(servers.clone())).start_local().await?;
///
/// let request = Request::get("https://example.com/prices").body(Body::empty()).expect("a request");
/// let response = host.env().fetch(request).await.expect("a response");
/// assert_eq!(response.status(), 503);
/// assert_eq!(servers.received()[0].uri.path(), "/prices");
/// host.shutdown().await
/// # }
/// ```
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    answer: Answer,
    next: Mutex<VecDeque<Result<Response>>>,
    received: Mutex<Vec<Received>>,
}

/// A request that the program has sent.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its method.
    pub method: Method,
    /// Its absolute URI.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Received {
    /// The body, read as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`](crate::ErrorKind::Decode) if it is none, or of another shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Error::with_kind(crate::ErrorKind::Decode, error.to_string()))
    }
}

impl Servers {
    /// Servers that answer with 204 (No Content).
    pub fn new() -> Self {
        Self::answering(|_| Ok(status(StatusCode::NO_CONTENT)))
    }

    /// Servers that answer as this function says. With an `Err` the request has arrived, and its response is lost.
    pub fn answering(
        answer: impl Fn(&Received) -> Result<Response> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            answer: Box::new(answer),
            next: Mutex::default(),
            received: Mutex::default(),
        }))
    }

    /// Answers one request with this status: the first that is not answered by an earlier call.
    pub fn next(&self, status_code: StatusCode) {
        self.next_response(Ok(status(status_code)));
    }

    /// Answers one request with this response, as [`next`](Self::next) does. With an `Err` its response is lost.
    pub fn next_response(&self, response: Result<Response>) {
        lock(&self.0.next).push_back(response);
    }

    /// All requests so far, in order.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.0.received).clone()
    }

    fn receive(&self, head: Parts, body: Bytes) -> Result<Response> {
        let received = Received {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body,
        };
        let next = lock(&self.0.next).pop_front();
        let response = next.unwrap_or_else(|| (self.0.answer)(&received));
        lock(&self.0.received).push(received);
        response
    }
}

impl Default for Servers {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbound for Servers {
    fn fetch(&self, request: Request) -> Fetching {
        let (head, body) = request.into_parts();
        let mut collecting = Box::pin(body.collect());
        // A request is sent when this returns, unless its body is still being made.
        let collected = match pin!(&mut collecting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(collected) => {
                let collected = collected.map(Collected::to_bytes).map_err(Error::from_std);
                let response = collected.and_then(|body| self.receive(head, body));
                return Box::pin(ready(response));
            }
            Poll::Pending => collecting,
        };
        let servers = self.clone();
        Box::pin(async move {
            let body = collected.await.map_err(Error::from_std)?.to_bytes();
            servers.receive(head, body)
        })
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers")
            .field("received", &lock(&self.0.received).len())
            .finish_non_exhaustive()
    }
}

fn status(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
