//! The HTTP client for objects' requests to other servers.
//!
//! Contract: a request is submitted without blocking and runs on the program's async runtime, so no thread of the node
//! waits for the network. At most `max_in_flight` requests are in flight, including their responses' bodies;
//! `max_queued` more wait, for at most `request_timeout`; any further request is rejected as overloaded before anything
//! of it is sent. Then a response's head arrives within `request_timeout`, and its body without a pause longer than
//! `read_timeout`, or there is an error. Every address that is connected to has passed the [`policy`], including
//! redirect targets. No cookies, no proxy, no decompression: the object gets the server's response unchanged, except
//! for the headers that concern a single connection.

mod body;
mod client;
mod connector;
mod error;
pub(crate) mod policy;
mod race;
mod redirect;
pub(crate) mod tls;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use abide_runtime::{
    Body, Error, ErrorKind, Fetching, NoRedirects, Outbound, Request, Response, Result,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Uri, Version, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};
use tower::{ServiceExt, service_fn};
use tower_http::follow_redirect::FollowRedirect;
use url::Url;

use self::{client::Client, error::Outcome, redirect::Redirects};
pub(crate) use self::{
    connector::{Connector, Stream},
    error::causes,
};
use crate::{OutboundConfig, limits, metric, remove_connection_headers};

/// See the module's documentation.
pub(crate) struct HttpClient(Arc<Inner>);

struct Inner {
    config: OutboundConfig,
    runtime: Handle,
    client: Client,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl HttpClient {
    /// A client whose requests run on this async runtime.
    pub(crate) fn new(config: &OutboundConfig, runtime: Handle) -> Self {
        Self(Arc::new(Inner {
            client: Client::new(config),
            runtime,
            slots: Arc::new(Semaphore::new(config.max_in_flight)),
            waiting: AtomicUsize::new(0),
            config: config.clone(),
        }))
    }
}

impl Outbound for HttpClient {
    fn fetch(&self, request: Request) -> Fetching {
        let (answer, response) = oneshot::channel();
        let inner = Arc::clone(&self.0);
        self.0.runtime.spawn(async move {
            let result = inner.send(request).await;
            // The caller may be gone; it was sent regardless.
            let _ = answer.send(result);
        });
        Box::pin(async move { response.await.unwrap_or_else(|_| Err(cut_off())) })
    }
}

impl Inner {
    async fn send(&self, request: Request) -> Result<Response> {
        let started = Instant::now();
        let limit = self.config.request_timeout;
        let in_flight = metric::OutboundInFlight::enter();
        let result = match timeout(limit, self.slot()).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(slot)) => timeout(limit, self.exchange(request, slot))
                .await
                .unwrap_or_else(|_| Err(late(limit))),
            Err(_) => Err(no_turn(limit)),
        };
        drop(in_flight);
        metric::outbound(Outcome::of(&result).label(), started.elapsed());
        result
    }

    async fn exchange(&self, request: Request, slot: OwnedSemaphorePermit) -> Result<Response> {
        let max_redirects = match request.extensions().get::<NoRedirects>() {
            None => self.config.max_redirects,
            Some(NoRedirects) => 0,
        };
        let (request, whole) = prepare(request).await?;
        let redirects = Redirects::new(max_redirects, whole.clone());
        let once = service_fn(|request| self.client.send(request, whole.as_ref()));
        let response = FollowRedirect::with_policy(once, redirects).oneshot(request);
        let (mut parts, body) = response.await?.into_parts();
        remove_connection_headers(&mut parts.headers);
        parts.extensions.clear();
        parts.version = Version::default();
        let body = body::Incoming::new(body, self.config.read_timeout, slot);
        Ok(Response::from_parts(parts, Body::new(body)))
    }

    /// Waits for a slot among the requests in flight, unless too many are waiting.
    async fn slot(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let waiting = Waiting::enter(&self.waiting);
        if waiting.before >= self.config.max_queued {
            return Err(Error::with_kind(
                ErrorKind::Overloaded,
                format!(
                    "too many requests: {} in flight (outbound.max_in_flight), and {} waiting (outbound.max_queued)",
                    self.config.max_in_flight, self.config.max_queued
                ),
            ));
        }
        // The semaphore is never closed.
        Arc::clone(&self.slots)
            .acquire_owned()
            .await
            .map_err(|_| ending())
    }
}

/// The request as it is sent, and its body if that can be sent again.
async fn prepare(request: Request) -> Result<(Request, Option<Bytes>)> {
    let (mut parts, body) = request.into_parts();
    if !matches!(parts.uri.scheme_str(), Some("http" | "https")) {
        return Err(Error::with_kind(
            ErrorKind::Input,
            format!(
                "`{}` is not an HTTP URL: it must begin with http:// or https://",
                parts.uri
            ),
        ));
    }
    // In the normal form, in which browsers and the targets of redirects are.
    let mut url = Url::parse(&parts.uri.to_string()).map_err(|error| invalid(&error))?;
    if let Some(credentials) = take_credentials(&mut url) {
        let authorization = parts.headers.entry(header::AUTHORIZATION);
        authorization.or_insert(credentials?);
    }
    parts.uri = Uri::try_from(String::from(url)).map_err(|error| invalid(&error))?;
    // The URI determines the host; a forwarded request may name another.
    parts.headers.remove(header::HOST);
    remove_connection_headers(&mut parts.headers);
    // Some servers refuse a request that does not say it.
    let accept = parts.headers.entry(header::ACCEPT);
    accept.or_insert(HeaderValue::from_static("*/*"));
    parts.extensions.clear();
    parts.version = Version::default();
    let small = body
        .size_hint()
        .exact()
        .is_some_and(|size| size <= limits::REPEATABLE_BODY);
    if !small {
        return Ok((Request::from_parts(parts, body), None));
    }
    let whole = body.collect().await?.to_bytes();
    let request = Request::from_parts(parts, Body::from(whole.clone()));
    Ok((request, Some(whole)))
}

/// The user and the password of a URL as a header (RFC 7617). The URL has none afterwards.
fn take_credentials(url: &mut Url) -> Option<Result<HeaderValue>> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let user = decoded(url.username());
    let password = decoded(url.password().unwrap_or_default());
    let basic = BASE64_STANDARD.encode([&*user, b":", &*password].concat());
    // An HTTP URL has a host, so both can be removed.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let header = HeaderValue::try_from(format!("Basic {basic}"));
    Some(header.map_err(|error| invalid(&error)).map(|mut header| {
        header.set_sensitive(true);
        header
    }))
}

/// Counts a request that waits for a slot.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    /// How many were waiting before it.
    before: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        Self {
            count,
            before: count.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

fn invalid(error: &dyn std::error::Error) -> Error {
    Error::with_kind(ErrorKind::Input, format!("the request is invalid: {error}"))
}

fn late(limit: Duration) -> Error {
    Error::with_kind(
        ErrorKind::Timeout,
        format!(
            "no response within {} s (outbound.request_timeout); the request may have taken effect",
            limit.as_secs_f64()
        ),
    )
}

fn no_turn(limit: Duration) -> Error {
    Error::with_kind(
        ErrorKind::Overloaded,
        format!(
            "too many requests in flight (outbound.max_in_flight): this one waited {} s to start \
             (outbound.request_timeout) and was not sent",
            limit.as_secs_f64()
        ),
    )
}

fn cut_off() -> Error {
    Error::with_kind(
        ErrorKind::Io,
        "the program stopped before the response arrived; the request may have taken effect",
    )
}

fn ending() -> Error {
    Error::with_kind(
        ErrorKind::Unavailable,
        "the program is stopping: no more requests are sent",
    )
}
