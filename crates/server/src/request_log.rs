//! Ids of requests, and the access log.
//!
//! Contract: every response carries `x-request-id`: the id sent by the client or a proxy if it is a plain word of at
//! most [`limits::MAX_REQUEST_ID`] bytes, otherwise a new one. With `log.access` each response is logged, with the
//! trace that the request belongs to (<https://www.w3.org/TR/trace-context/>). Paths are logged without their query,
//! which may contain secrets.

use std::{
    convert::Infallible,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    Router,
    extract::{FromRequestParts, Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};

use crate::{ClientAddr, limits};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The target of the access log's lines, for `log.level`.
pub(crate) const TARGET: &str = "abide::access";

/// The id of a request, as in the `x-request-id` of its response. Handlers can use it as an extractor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(&REQUEST_ID).filter(|id| is_plain(id));
        Self(sent.cloned().unwrap_or_else(next))
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or_else(|| Self::of(&parts.headers)))
    }
}

fn is_plain(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=limits::MAX_REQUEST_ID).contains(&bytes.len())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte))
}

/// An id that is unique in this process and, most likely, among all processes.
fn next() -> HeaderValue {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system has random bytes");
        u64::from_ne_bytes(bytes)
    });
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = format!(
        "{:016x}-{}",
        *PROCESS,
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    HeaderValue::from_str(&id).expect("hex digits")
}

/// The trace id of a request whose `traceparent` is valid: `00-TRACE-PARENT-FLAGS`. Future versions may append fields.
fn trace(headers: &HeaderMap) -> Option<&str> {
    let parent = headers.get(&TRACEPARENT)?.to_str().ok()?;
    let mut fields = parent.split('-');
    let [version, trace, span, flags] = [
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    ];
    let is_hex = |field: &str, length| {
        field.len() == length
            && field
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_set = |field: &str| field.bytes().any(|byte| byte != b'0');
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && (version != "00" || fields.next().is_none())
        && is_hex(trace, 32)
        && is_set(trace)
        && is_hex(span, 16)
        && is_set(span)
        && is_hex(flags, 2);
    is_valid.then_some(trace)
}

/// Assigns request ids and writes the access log, if enabled.
pub(crate) fn logged(router: Router, access_log: bool) -> Router {
    router.layer(middleware::from_fn_with_state(access_log, log))
}

async fn log(State(access_log): State<bool>, mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let line = access_log.then(|| Line::of(&request));
    let mut response = next.run(request).await;
    if let Some(line) = line {
        line.write(&id, &response);
    }
    response.headers_mut().insert(REQUEST_ID, id.0);
    response
}

/// The access log's data about a request.
struct Line {
    started: Instant,
    method: http::Method,
    path: String,
    client: String,
    trace: String,
}

impl Line {
    fn of(request: &Request) -> Self {
        Self {
            started: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            client: ClientAddr::of(request.extensions()).0.to_string(),
            trace: trace(request.headers()).unwrap_or("-").to_owned(),
        }
    }

    fn write(self, id: &RequestId, response: &Response) {
        tracing::info!(
            target: TARGET,
            method = %self.method,
            path = self.path,
            status = response.status().as_u16(),
            seconds = self.started.elapsed().as_secs_f64(),
            client = self.client,
            id = id.as_str(),
            trace = self.trace,
            "request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_plain_id_is_kept_and_any_other_replaced() {
        for id in [
            "a",
            "4bf92f35-77b3:1/2",
            &"x".repeat(limits::MAX_REQUEST_ID),
        ] {
            assert_eq!(RequestId::of(&headers(REQUEST_ID, id)).as_str(), id);
        }
        for id in [
            "",
            "a b",
            "a\tb",
            "\"",
            &"x".repeat(limits::MAX_REQUEST_ID + 1),
        ] {
            let (one, two) = (headers(REQUEST_ID, id), HeaderMap::new());
            let made = [RequestId::of(&one), RequestId::of(&two)];
            assert!(made[0] != made[1] && made[0].as_str() != id);
            assert!(is_plain(&made[0].0));
        }
    }

    #[test]
    fn only_a_valid_traceparent_names_a_trace() {
        let (id, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for valid in [
            format!("00-{id}-{parent}-01"),
            format!("cc-{id}-{parent}-01-what-comes"),
        ] {
            assert_eq!(trace(&headers(TRACEPARENT, &valid)), Some(id));
        }
        for wrong in [
            String::new(),
            format!("ff-{id}-{parent}-01"),
            format!("00-{id}-{parent}-01-more"),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{id}-{}-01", "0".repeat(16)),
            format!("00-{}-{parent}-01", id.to_uppercase()),
            format!("00-{id}-{parent}"),
        ] {
            assert_eq!(trace(&headers(TRACEPARENT, &wrong)), None, "{wrong}");
        }
    }
}
