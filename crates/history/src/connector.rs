//! The HTTP client for object stores.

use std::time::Duration;

use async_trait::async_trait;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{
        self, HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
        HttpResponseBody, HttpService,
    },
};
use rustls::ClientConfig;
use tokio::time::timeout;
use tower_http::timeout::TimeoutBody;

/// The slowest line on which a body still arrives in time, in bytes per second.
const SLOWEST: u64 = 64 << 10;

/// Makes the HTTP clients of object stores.
#[derive(Clone, Debug)]
pub struct Connector {
    tls: ClientConfig,
    connect: Duration,
    answer: Duration,
}

impl Connector {
    /// Whom clients trust. They connect within 5 seconds, and wait 30 seconds for an answer.
    pub fn new(tls: ClientConfig) -> Self {
        Self {
            tls,
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
        }
    }

    /// Time to connect.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect = time;
        self
    }

    /// Time until an answer begins, and for each of its pieces. A request with a body has a second more for each 64 KiB.
    #[must_use]
    pub fn answer_timeout(mut self, time: Duration) -> Self {
        self.answer = time;
        self
    }
}

#[derive(Debug)]
struct Service {
    client: Client<HttpsConnector<HttpConnector>, HttpRequestBody>,
    answer: Duration,
}

impl client::HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.connect));
        // A line that has gone silent during a long upload.
        tcp.set_tcp_user_timeout(Some(self.answer));
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone());
        let is_open = options.get_config_value(&ClientConfigKey::AllowHttp);
        let builder = if is_open.is_some_and(|is_open| is_open == "true") {
            builder.https_or_http()
        } else {
            builder.https_only()
        };
        let connector = builder.enable_http1().wrap_connector(tcp);
        Ok(HttpClient::new(Service {
            client: Client::builder(TokioExecutor::new()).build(connector),
            answer: self.answer,
        }))
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a simulation has another client, which needs no network"
)]
#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let length = request.body().size_hint().lower();
        let limit = self.answer + Duration::from_secs(length / SLOWEST);
        let answer = timeout(limit, self.client.request(request)).await;
        let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
        let (parts, body) = answer.map_err(failed)?.into_parts();
        let body = TimeoutBody::new(self.answer, body)
            .map_err(|error| HttpError::new_boxed(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// The kind says whether the request is sent again.
fn failed(error: Error) -> HttpError {
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error)
}
