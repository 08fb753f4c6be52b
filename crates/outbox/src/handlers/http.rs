//! Kind `http`: any HTTP request.
//!
//! Contract: a request is sent with an `Idempotency-Key` that is the same on every attempt. A 2xx response delivers it;
//! one with `Operation-Location` begins an operation, which is polled until it finishes, and so does a 408, 429 or 5xx
//! with it. 408, 425, 429 and 5xx are retried, after `Retry-After` if present, and so is a 409 that follows an attempt
//! whose response was lost; redirects and other 4xx are never retried. After a 5xx it is unknown whether the request
//! had its effect, except for a 503 with `Retry-After`.

use std::collections::BTreeMap;

use abide::{
    Body, Request,
    http::{HeaderName, HeaderValue, Method, header},
    server::is_connection_header,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use url::Url;

use super::{
    address::{origin, target, uri, without_query},
    answer, json, limits, operation,
};
use crate::{Deliver, Delivery, Failure, Polled, Submitted};

/// The header with the idempotency key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// An HTTP request as a message.
///
/// ```
/// use abide::{outbox::handlers::{HttpCall, HttpDelivery}, outbox::{Deliver, Outbox, OutboxError, Registry}};
/// use serde_json::json;
///
/// let registry = Registry::new().with(HttpDelivery::new());
///
/// fn tell(outbox: &Outbox) -> Result<(), OutboxError> {
///     let call = HttpCall::post("https://example.com/orders").json(&json!({ "seat": "14C" }))?;
///     HttpDelivery::enqueue(outbox, &call)?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpCall {
    /// `POST` unless said otherwise.
    #[serde(default = "post")]
    pub method: String,
    /// An absolute URL with `http` or `https`.
    pub url: String,
    /// Headers. `Idempotency-Key`, and headers that belong to the connection, are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<HttpBody>,
}

/// A request's body. In JSON: `{"json":…}`, `{"text":"…"}` or `{"base64":"…"}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpBody {
    /// Any JSON, sent unchanged.
    Json(Box<RawValue>),
    /// A text.
    Text(String),
    /// Bytes, in base64 with padding.
    Base64(String),
}

fn post() -> String {
    Method::POST.to_string()
}

impl HttpCall {
    /// A request without headers and body.
    pub fn new(method: impl AsRef<str>, url: impl Into<String>) -> Self {
        Self {
            method: method.as_ref().to_owned(),
            url: url.into(),
            headers: BTreeMap::new(),
            body: None,
        }
    }

    /// A `POST`.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new(Method::POST, url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets a JSON body.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> abide::Result<Self> {
        self.body = Some(HttpBody::Json(json(value)?));
        Ok(self)
    }

    /// Sets a text as the body.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.body = Some(HttpBody::Text(text.into()));
        self
    }

    /// Sets bytes as the body.
    #[must_use]
    pub fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.body = Some(HttpBody::Base64(STANDARD.encode(bytes)));
        self
    }
}

/// Sends [`HttpCall`]s.
#[derive(Clone, Debug, Default)]
pub struct HttpDelivery {
    headers: Vec<ExtraHeader>,
    operations_elsewhere: bool,
    location_operations: bool,
}

/// A header that the handler adds.
#[derive(Clone, Debug)]
struct ExtraHeader {
    /// The origin to which it is sent; `None` for all.
    origin: Option<url::Origin>,
    name: HeaderName,
    value: HeaderValue,
}

impl HttpDelivery {
    /// A handler that adds only the idempotency key to requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header to every request without it, to any destination. Do not use it for secrets.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push(ExtraHeader {
            origin: None,
            name,
            value,
        });
        self
    }

    /// Adds a header, such as `Authorization`, to requests to the origin of this URL; it is not stored in any row. With
    /// [`operations_elsewhere`](Self::operations_elsewhere), these include polls of operations that another receiver
    /// has located there.
    #[must_use]
    pub fn header_for(mut self, origin: &Url, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.push(ExtraHeader {
            origin: Some(origin.origin()),
            name,
            value,
        });
        self
    }

    /// Also polls operations at another origin than that of their request. The message's headers are not sent there.
    #[must_use]
    pub fn operations_elsewhere(mut self) -> Self {
        self.operations_elsewhere = true;
        self
    }

    /// Treats a 202 with `Location`, and without `Operation-Location`, as an operation that lasts while that address
    /// responds with 202, or with a `status` that says so. Any other success, or a redirect to the result (302, 303),
    /// finishes it.
    #[must_use]
    pub fn location_operations(mut self) -> Self {
        self.location_operations = true;
        self
    }

    fn request(&self, delivery: &Delivery, call: &HttpCall) -> Result<(Url, Request), String> {
        let url = target(&call.url)?;
        let mut request = Request::builder()
            .method(method(&call.method)?)
            .uri(uri(&url)?)
            .header(IDEMPOTENCY_KEY, delivery.idempotency_key());
        for (name, value) in headers(&call.headers)? {
            request = request.header(name, value);
        }
        let (kind, body) = match &call.body {
            None => (None, Vec::new()),
            Some(HttpBody::Json(json)) => (Some("application/json"), json.get().into()),
            Some(HttpBody::Text(text)) => (Some("text/plain; charset=utf-8"), text.clone().into()),
            Some(HttpBody::Base64(text)) => (None, bytes(text)?),
        };
        let mut request = request
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        if let Some(kind) = kind {
            let kind = HeaderValue::from_static(kind);
            let headers = request.headers_mut();
            headers.entry(header::CONTENT_TYPE).or_insert(kind);
        }
        self.add_headers(&url, &mut request);
        Ok((url, request))
    }

    fn add_headers(&self, url: &Url, request: &mut Request) {
        let origin = url.origin();
        for addition in &self.headers {
            if addition.origin.as_ref().is_none_or(|only| *only == origin) {
                let headers = request.headers_mut();
                headers
                    .entry(&addition.name)
                    .or_insert_with(|| addition.value.clone());
            }
        }
    }

    fn may_ask(&self, operation: &Url, url: &Url) -> Result<(), String> {
        if self.operations_elsewhere {
            return Ok(());
        }
        operation::same_origin(operation, url)
    }
}

impl Deliver for HttpDelivery {
    type Payload = HttpCall;

    const KIND: &'static str = "http";

    fn check(&self, call: &HttpCall) -> Result<(), String> {
        method(&call.method)?;
        uri(&target(&call.url)?)?;
        headers(&call.headers)?;
        if let Some(HttpBody::Base64(text)) = &call.body {
            bytes(text)?;
        }
        Ok(())
    }

    fn destination(&self, call: &HttpCall) -> String {
        origin(&call.url)
    }

    fn summary(&self, call: &HttpCall) -> String {
        format!("{} {}", call.method, without_query(&call.url))
    }

    async fn submit(&self, delivery: &Delivery, call: &HttpCall) -> Result<Submitted, Failure> {
        let (url, request) = self.request(delivery, call).map_err(Failure::permanent)?;
        let answer = answer::send(delivery, request).await?;
        let mut named = operation::named(&answer, &url);
        if named.is_none() && self.location_operations && answer.status.as_u16() == 202 {
            named = operation::at(&answer, &url, &header::LOCATION);
        }
        let named = named.map(|operation| {
            let operation = operation?;
            self.may_ask(&operation, &url)?;
            Ok(operation)
        });
        match operation::begun(&answer, named)? {
            Some(operation) => Ok(operation::accepted(&operation, &answer)),
            None if answer.status.is_success() => Ok(Submitted::Done),
            None => Err(answer.failure()),
        }
    }

    async fn poll(
        &self,
        delivery: &Delivery,
        call: &HttpCall,
        operation: &str,
    ) -> Result<Polled, Failure> {
        let url = target(&call.url).map_err(Failure::permanent)?;
        let operation = target(operation).map_err(Failure::permanent)?;
        self.may_ask(&operation, &url).map_err(Failure::permanent)?;
        let uri = uri(&operation).map_err(Failure::permanent)?;
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri;
        if operation.origin() == url.origin() {
            let headers = headers(&call.headers).map_err(Failure::permanent)?;
            // There is no body for these headers to describe.
            let headers = headers
                .into_iter()
                .filter(|(name, _)| !name.as_str().starts_with("content-"));
            request.headers_mut().extend(headers);
        }
        self.add_headers(&operation, &mut request);
        let answer = answer::send(delivery, request).await?;
        operation::told(&answer, self.location_operations.then_some(Polled::Done))
    }
}

/// Headers that the handler sets itself, besides those of the connection.
static OWN_HEADERS: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRAILER,
    header::EXPECT,
    IDEMPOTENCY_KEY,
];

fn method(text: &str) -> Result<Method, String> {
    match text.parse() {
        Ok(Method::CONNECT) | Err(_) => Err(format!("`{text}` is not a valid method")),
        Ok(method) => Ok(method),
    }
}

fn headers(given: &BTreeMap<String, String>) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let bytes: usize = given
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if given.len() > limits::MAX_HEADERS || bytes > limits::MAX_HEADER_BYTES {
        return Err(format!(
            "there are {} headers with {bytes} bytes; at most {} with {} are allowed",
            given.len(),
            limits::MAX_HEADERS,
            limits::MAX_HEADER_BYTES
        ));
    }
    let checked = given.iter().map(|(name, value)| {
        let parsed: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not a valid header name"))?;
        if OWN_HEADERS.contains(&parsed) || is_connection_header(&parsed) {
            return Err(format!("header `{name}` cannot be set by a message"));
        }
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of header `{name}` has invalid characters"))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    });
    checked.collect()
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|error| format!("the body is not valid base64: {error}"))
}
