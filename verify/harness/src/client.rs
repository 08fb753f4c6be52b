//! An HTTP client for tests.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use crate::until;

/// The protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A response: its status, its headers, its body as JSON (or a JSON string of its text).
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// The `code` of an error response, which must have a message, too.
    pub fn code(&self) -> &str {
        assert!(
            self.body["error"]["message"]
                .as_str()
                .is_some_and(|text| text.ends_with('.')),
            "{self:?}"
        );
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

/// Why there was no response.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;

/// An HTTP client for one address. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    inner: HyperClient<HttpConnector, Full<Bytes>>,
    base: Arc<str>,
}

impl Client {
    /// A client of `host:port`.
    pub fn new(address: &str, version: Version) -> Self {
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder.http2_only(version == Version::Http2);
        Self {
            inner: builder.build_http(),
            base: format!("http://{address}").into(),
        }
    }

    /// A metric of an admin listener, or 0.
    pub async fn metric(&self, name: &str) -> u64 {
        let answer = self.get("/metrics").await;
        let text = answer.body.as_str().expect("metrics are text");
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Waits until an admin listener's metrics contain each of these texts.
    ///
    /// # Panics
    /// If one never appears.
    pub async fn until_shown(&self, metrics: &[&str]) {
        for metric in metrics {
            until(metric, async || {
                let answer = self.get("/metrics").await.body;
                let text = answer.as_str().expect("metrics are text");
                text.contains(metric).then_some(())
            })
            .await;
        }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "").await
    }

    /// PUT of JSON.
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, path, &body.to_string()).await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, &body.to_string()).await
    }

    /// Any method and text, sent as JSON.
    pub async fn ask(&self, method: Method, path: &str, body: &str) -> Answer {
        self.try_ask(method, path, body)
            .await
            .expect("the server answers")
    }

    /// The same, for a server that may not respond.
    pub async fn try_ask(&self, method: Method, path: &str, body: &str) -> Result<Answer, Broken> {
        let mut request = Request::builder().method(method).uri(self.url(path));
        if !body.is_empty() || matches!(request.method_ref(), Some(&Method::POST | &Method::PUT)) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        self.send(request.body(Full::from(body.to_owned()))?).await
    }

    /// Any request.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Broken> {
        let (parts, body) = self.inner.request(request).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.base).finish()
    }
}
