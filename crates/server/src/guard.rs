//! Middleware around every request, outside the user's router.
//!
//! Contract: a body that exceeds the limit is never completely in memory; a request is answered within the time limit;
//! a panic in a handler becomes a response instead of a broken connection; requests that another site makes a browser
//! send are rejected ([`Site`]), and so are requests above a client's rate; a body that stops arriving is 408; an error
//! status without a body gets one; while the memory budget is used up, nothing of a new request is read. Counts and
//! times requests.

use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use abide_runtime::{
    MeteredBody,
    creation::{Creator, asked_by},
    limits::COUNTED_CONTENT,
};
use abide_storage::{MemoryAccount, MemoryUse};
use axum::{
    body::Body,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{Method, StatusCode, header};
use http_body::Body as _;
use http_body_util::Limited;

use crate::{
    ApiError, ClientAddr, ServerConfig,
    client::Rate,
    meter::{Arrival, Arriving, Leaving},
    metric,
    site::Site,
};

/// The limits of each request, and the metrics of all.
struct Limits {
    timeout: Duration,
    body_bytes: u64,
    body_timeout: Duration,
    site: Site,
    rate: Option<Rate<IpAddr>>,
    /// Whether created objects are counted.
    counts_objects: bool,
    requests: metric::Requests,
    memory: Arc<MemoryAccount>,
}

impl Limits {
    /// The creator of a request's new objects, if they are counted.
    fn creator(&self, request: &Request) -> Option<Creator> {
        if !self.counts_objects {
            return None;
        }
        let client = request.extensions().get();
        client.map(|ClientAddr(client)| Creator {
            client: *client,
            token: None,
        })
    }
}

/// Wraps a router in the guard.
pub(crate) fn guarded(
    router: axum::Router,
    config: &ServerConfig,
    memory: &Arc<MemoryAccount>,
) -> axum::Router {
    let limits = Limits {
        timeout: config.request_timeout,
        body_bytes: config.max_body_bytes,
        body_timeout: config.body_timeout,
        site: config.program_site(),
        rate: config.requests_per_client.map(Rate::per_second),
        counts_objects: config.new_objects_per_client.is_some()
            || config.new_objects_per_token.is_some(),
        requests: metric::Requests::new(),
        memory: Arc::clone(memory),
    };
    router
        // The guard's limit applies to every body; axum's own smaller one only to some extractors.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::new(limits), guard))
}

async fn guard(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let in_flight = limits.requests.enter();
    let creator = limits.creator(&request);
    let response = match admit(request, &limits) {
        Err(refused) => refused.into_response(),
        Ok((request, arrival)) => {
            let answering = answer(request, next, limits.timeout);
            let response = match creator {
                Some(creator) => asked_by(creator, answering).await,
                None => answering.await,
            };
            match arrival.filter(|_| is_error(response.status())) {
                Some(arrival) if arrival.has_broken_off() => {
                    ApiError::out_of_memory().into_response()
                }
                Some(arrival) if arrival.has_stalled() => ApiError::body_timeout().into_response(),
                _ => metered(response, &limits.memory),
            }
        }
    };
    drop(in_flight);
    let status = response.status();
    limits.requests.answered(&method, status, started.elapsed());
    response
}

async fn answer(request: Request, next: Next, limit: Duration) -> Response {
    let method = request.method().clone();
    let uri = request.uri().clone();
    match tokio::time::timeout(limit, AssertUnwindSafe(next.run(request)).catch_unwind()).await {
        Ok(Ok(response)) => with_reason(&method, response),
        Ok(Err(_panic)) => {
            tracing::error!(%method, path = uri.path(), "a request handler panicked; responded with 500");
            ApiError::panicked().into_response()
        }
        Err(_elapsed) => {
            tracing::warn!(%method, path = uri.path(), "a request was not answered within server.request_timeout");
            ApiError::request_timeout().into_response()
        }
    }
}

/// Rejects a request that another site may have made a browser send, exceeds its client's rate, cannot get memory, or
/// has too long a body. Otherwise its body is limited and counted.
fn admit(request: Request, limits: &Limits) -> Result<(Request, Option<Arc<Arrival>>), ApiError> {
    let (mut head, body) = request.into_parts();
    limits.site.check(&mut head)?;
    if let (Some(rate), Some(ClientAddr(client))) = (&limits.rate, head.extensions.get()) {
        let client = ClientAddr(*client).network();
        let taken = rate.take(client, Instant::now());
        taken.map_err(ApiError::too_many_requests)?;
    }
    let request = Request::from_parts(head, body);
    let budget = limits.memory.budget();
    if budget.is_over() {
        budget.count_refusal(MemoryUse::Bodies);
        return Err(ApiError::out_of_memory());
    }
    let mut request = limit_body(request, limits.body_bytes)?;
    if request.body().is_end_stream() {
        return Ok((request, None));
    }
    request.extensions_mut().insert(MeteredBody);
    let arrival = Arrival::of(request.body(), &limits.memory);
    let request = request.map(|body| {
        Body::new(Arriving::new(
            body,
            Arc::clone(&arrival),
            limits.body_timeout,
        ))
    });
    Ok((request, Some(arrival)))
}

/// Charges the response's content until it is written, unless its object already does so.
fn metered(response: Response, memory: &Arc<MemoryAccount>) -> Response {
    let is_small = response
        .body()
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes < COUNTED_CONTENT as u64);
    if is_small || response.extensions().get::<MeteredBody>().is_some() {
        return response;
    }
    response.map(|body| Body::new(Leaving::new(body, Arc::clone(memory))))
}

/// Rejects a body with too large a declared length; aborts one that exceeds the limit.
fn limit_body(request: Request, limit: u64) -> Result<Request, ApiError> {
    let told: Option<u64> = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    match told {
        Some(length) if length > limit => Err(ApiError::body_too_large(Some(limit))),
        Some(_) if !request.headers().contains_key(header::TRANSFER_ENCODING) => Ok(request),
        _ => Ok(request.map(|body| {
            Body::new(Limited::new(
                body,
                usize::try_from(limit).unwrap_or(usize::MAX),
            ))
        })),
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Adds the JSON form of errors to an error status without a body.
fn with_reason(method: &Method, response: Response) -> Response {
    let status = response.status();
    if !is_error(status) || method == Method::HEAD || response.body().size_hint().exact() != Some(0)
    {
        return response;
    }
    let (bare, _) = response.into_parts();
    let mut told = ApiError::bare(status).into_response();
    for (name, value) in &bare.headers {
        if name != header::CONTENT_LENGTH && name != header::CONTENT_TYPE {
            told.headers_mut().append(name, value.clone());
        }
    }
    told
}
