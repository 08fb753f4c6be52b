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
mod error;
pub(crate) mod policy;
pub(crate) mod tls;

use std::{
    error::Error as StdError,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use abide_runtime::{
    Body, Error, ErrorKind, Fetching, NoRedirects, Outbound, Request, Response, Result,
};
use http::{Version, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot},
};

use self::{
    error::{Outcome, TooManyRedirects, failed, forbidden_address},
    policy::{AddressPolicy, Unresolved},
};
use crate::{OutboundConfig, limits, metric, remove_connection_headers};

/// See the module's documentation.
pub(crate) struct HttpClient(Arc<Inner>);

struct Inner {
    config: OutboundConfig,
    policy: AddressPolicy,
    runtime: Handle,
    /// Created with the first request: it reads the machine's certificates.
    clients: OnceCell<Clients>,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl HttpClient {
    /// A client whose requests run on this async runtime.
    pub(crate) fn new(config: &OutboundConfig, runtime: Handle) -> Self {
        Self(Arc::new(Inner {
            policy: AddressPolicy::new(config.allow_private.clone()),
            runtime,
            clients: OnceCell::new(),
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
        let result = match tokio::time::timeout(limit, self.slot()).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(slot)) => tokio::time::timeout(limit, self.exchange(request, slot))
                .await
                .unwrap_or_else(|_| Err(late(limit))),
            Err(_) => Err(no_turn(limit)),
        };
        drop(in_flight);
        metric::outbound(Outcome::of(&result).label(), started.elapsed());
        result
    }

    async fn exchange(&self, request: Request, slot: OwnedSemaphorePermit) -> Result<Response> {
        let clients = self.clients.get_or_try_init(|| self.connect()).await?;
        let client = clients.of(&request);
        let request = self.prepare(request).await?;
        let response = client
            .execute(request)
            .await
            .map_err(|error| failed(&error))?;
        let (mut parts, body) = http::Response::from(response).into_parts();
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

    async fn connect(&self) -> Result<Clients> {
        let (config, policy) = (self.config.clone(), self.policy.clone());
        self.runtime
            .spawn_blocking(move || Clients::new(&config, &policy))
            .await
            .map_err(|_| ending())?
    }

    /// The request in the client's type.
    async fn prepare(&self, request: Request) -> Result<reqwest::Request> {
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
        // The URI determines the host; a forwarded request may name another.
        parts.headers.remove(header::HOST);
        remove_connection_headers(&mut parts.headers);
        parts.extensions.clear();
        parts.version = Version::default();
        let small = body
            .size_hint()
            .exact()
            .is_some_and(|size| size <= limits::REPEATABLE_BODY);
        let body = if small {
            // In one piece, so that it can be resent after a redirect.
            reqwest::Body::from(body.collect().await?.to_bytes())
        } else {
            reqwest::Body::wrap(body::Shared::new(body))
        };
        let request = reqwest::Request::try_from(http::Request::from_parts(parts, body))
            .map_err(|error| failed(&error))?;
        // The client does not resolve IP addresses.
        self.policy
            .check_literal(request.url().host_str().unwrap_or_default())
            .map_err(|error| forbidden_address(&error))?;
        Ok(request)
    }
}

/// Following redirects is configured per client, so there are two.
struct Clients {
    following: Client,
    /// For requests with [`NoRedirects`].
    stopping: Client,
}

impl Clients {
    fn new(config: &OutboundConfig, policy: &AddressPolicy) -> Result<Self> {
        Ok(Self {
            following: client(config, policy, config.max_redirects)?,
            stopping: client(config, policy, 0)?,
        })
    }

    fn of(&self, request: &Request) -> &Client {
        match request.extensions().get::<NoRedirects>() {
            None => &self.following,
            Some(NoRedirects) => &self.stopping,
        }
    }
}

fn client(config: &OutboundConfig, policy: &AddressPolicy, max_redirects: usize) -> Result<Client> {
    let tls = tls::client_config(&["h2", "http/1.1"])
        .map_err(|error| Error::with_kind(ErrorKind::Io, format!("setting up TLS: {error}")))?;
    let resolver = Resolver(policy.clone());
    let policy = policy.clone();
    let redirects = redirect::Policy::custom(move |attempt| {
        if max_redirects == 0 {
            return attempt.stop();
        }
        if attempt.previous().len() > max_redirects {
            return attempt.error(TooManyRedirects(max_redirects));
        }
        match policy.check_literal(attempt.url().host_str().unwrap_or_default()) {
            Ok(()) => attempt.follow(),
            Err(forbidden) => attempt.error(forbidden),
        }
    });
    Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(resolver)
        .redirect(redirects)
        .referer(false)
        .no_proxy()
        .connect_timeout(config.connect_timeout)
        .pool_idle_timeout(limits::OUTBOUND_IDLE)
        .pool_max_idle_per_host(limits::OUTBOUND_IDLE_PER_HOST)
        .http2_keep_alive_interval(limits::HTTP2_PING)
        .http2_keep_alive_timeout(limits::HTTP2_PING)
        .build()
        .map_err(|error| failed(&error))
}

/// Exposes the policy as the client's resolver.
struct Resolver(AddressPolicy);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            // The client sets the port.
            let found = policy.resolve(name.as_str(), 0).await;
            let found = found.map_err(|error| match error {
                Unresolved::Forbidden(error) => Box::<dyn StdError + Send + Sync>::from(error),
                Unresolved::Name(error) => error.into(),
            })?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
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
