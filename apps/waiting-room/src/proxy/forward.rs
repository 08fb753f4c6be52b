//! Passing requests on to the origin.
//!
//! Contract: everything goes to the one origin of the settings, whatever a request says; bodies stream in both directions; a connection
//! that switches protocols is a tunnel of bytes from then on.

use abide::server::ApiError;
use axum::{body::Body, response::IntoResponse, response::Response};
use http::{Request, StatusCode, Uri, Version, request::Parts};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use thiserror::Error;

use super::{Visit, headers, tunnel};
use crate::room::Session;

type Connections = Client<HttpsConnector<HttpConnector>, Body>;

/// The application behind the waiting room.
#[derive(Clone)]
pub struct Origin {
    uri: Uri,
    /// HTTP/1.1, and HTTP/2 if the origin chooses it.
    any: Connections,
    /// HTTP/1.1, for connections that switch protocols.
    http1: Connections,
}

/// The system's certificates cannot be read.
#[derive(Debug, Error)]
#[error(
    "the system's certificates, with which an https origin is checked, cannot be read: {0}; install ca-certificates"
)]
pub struct NoRoots(#[from] std::io::Error);

impl Origin {
    /// An origin, which is not asked yet.
    pub fn new(uri: Uri) -> Result<Self, NoRoots> {
        let build = |with_http2: bool| -> Result<Connections, NoRoots> {
            let mut http = HttpConnector::new();
            http.enforce_http(false);
            http.set_nodelay(true);
            let builder = HttpsConnectorBuilder::new();
            // An origin without TLS needs none of the system's certificates.
            let builder = if uri.scheme_str() == Some("https") {
                builder
                    .with_provider_and_native_roots(provider())?
                    .https_or_http()
            } else {
                builder.with_tls_config(no_roots()).https_or_http()
            };
            let builder = builder.enable_http1();
            let connector = if with_http2 {
                builder.enable_http2().wrap_connector(http)
            } else {
                builder.wrap_connector(http)
            };
            Ok(Client::builder(TokioExecutor::new()).build(connector))
        };
        Ok(Self {
            any: build(true)?,
            http1: build(false)?,
            uri,
        })
    }

    /// Passes a request on.
    pub(super) async fn forward(
        &self,
        parts: Parts,
        body: Body,
        visit: &Visit,
        session: Option<Session>,
    ) -> Response {
        if headers::is_loop(&parts.headers) {
            return ApiError::new(
                StatusCode::LOOP_DETECTED,
                "loop",
                "This request has come through this waiting room before: its origin leads back to it.",
            )
            .into_response();
        }
        match self.try_forward(parts, body, visit, session).await {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(%error, origin = %self.uri, "the origin did not answer; the visitor got 502");
                ApiError::new(
                    StatusCode::BAD_GATEWAY,
                    "origin_unreachable",
                    "The application behind the waiting room does not answer. Try again in a moment.",
                )
                .into_response()
            }
        }
    }

    async fn try_forward(
        &self,
        mut parts: Parts,
        body: Body,
        visit: &Visit,
        session: Option<Session>,
    ) -> Result<Response, hyper_util::client::legacy::Error> {
        let protocol = headers::upgrade(&parts.headers);
        let visitor = parts.extensions.remove::<OnUpgrade>();
        headers::strip(&mut parts.headers);
        headers::introduce(
            &mut parts.headers,
            &headers::From {
                client: visit.client,
                peer: visit.peer,
                host: visit.host.as_ref().map(ToString::to_string).as_deref(),
                is_secure: visit.is_secure,
                is_from_proxy: visit.is_from_proxy,
            },
        );
        let mut request = Request::new(body);
        *request.method_mut() = parts.method;
        *request.uri_mut() = self.address(&parts.uri);
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = parts.headers;
        let client = match &protocol {
            Some(protocol) => {
                headers::put_upgrade(request.headers_mut(), protocol.clone());
                &self.http1
            }
            None => &self.any,
        };
        let mut response = client.request(request).await?;
        let switched = headers::upgrade(response.headers());
        let origin = response.extensions_mut().remove::<OnUpgrade>();
        headers::strip(response.headers_mut());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (Some(protocol), Some(origin), Some(visitor)) = (switched, origin, visitor) else {
                return Ok(ApiError::new(
                    StatusCode::BAD_GATEWAY,
                    "no_upgrade",
                    "The application switched to another protocol, which the request did not ask for.",
                )
                .into_response());
            };
            headers::put_upgrade(response.headers_mut(), protocol);
            tokio::spawn(tunnel::carry(visitor, origin, session));
        }
        let (parts, body) = response.into_parts();
        Ok(Response::from_parts(parts, passed(body)))
    }

    /// The origin's address with the path and the query of a request.
    fn address(&self, asked: &Uri) -> Uri {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = asked.path_and_query().cloned();
        Uri::from_parts(parts).unwrap_or_else(|_| self.uri.clone())
    }
}

/// A body of which nothing is said that would have the host put an explanation in place of an empty error.
fn passed(body: hyper::body::Incoming) -> Body {
    if body.size_hint().exact() == Some(0) {
        return Body::from_stream(futures_util::stream::empty::<
            Result<bytes::Bytes, axum::Error>,
        >());
    }
    Body::new(body)
}

fn provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// For an origin that is asked without TLS.
fn no_roots() -> rustls::ClientConfig {
    let builder = rustls::ClientConfig::builder_with_provider(provider().into());
    let builder = builder.with_safe_default_protocol_versions();
    let roots = rustls::RootCertStore::empty();
    #[allow(clippy::expect_used, reason = "ring knows the default versions")]
    let builder = builder.expect("the provider knows the protocol's versions");
    builder.with_root_certificates(roots).with_no_client_auth()
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Origin").field(&self.uri).finish()
    }
}
