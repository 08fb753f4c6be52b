//! The HTTP client of objects, for other code of the bench. It does not use TLS.

use anyhow::{Result, bail};
use axum::{
    body::Bytes,
    http::{Request, StatusCode},
};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

#[derive(Clone)]
pub(crate) struct HttpClient(Client<HttpConnector, Full<Bytes>>);

impl HttpClient {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Sends a text, with one more header; returns the response's status and body.
    pub(crate) async fn post(
        &self,
        url: &str,
        (name, value): (&str, &str),
        text: String,
    ) -> Result<(StatusCode, Bytes)> {
        let request = Request::post(url).header(name, value);
        let response = self.0.request(request.body(Full::from(text))?).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a message with this key to a receiver, which must accept it.
    pub(crate) async fn deliver(&self, url: &str, key: &str, text: String) -> Result<()> {
        let (status, _) = self.post(url, ("idempotency-key", key), text).await?;
        if !status.is_success() {
            bail!("{url} answered {status}");
        }
        Ok(())
    }
}
