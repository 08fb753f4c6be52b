//! The HTTP client for S3-compatible services.

use abide::server::tls_client_config;
use async_trait::async_trait;
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
use tokio::time::timeout;
use tower_http::timeout::TimeoutBody;

use crate::limits;

/// Makes clients.
#[derive(Debug)]
pub(crate) struct StoreClients;

#[derive(Debug)]
struct Service(Client<HttpsConnector<HttpConnector>, HttpRequestBody>);

impl client::HttpConnector for StoreClients {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = tls_client_config(&[]).map_err(|error| object_store::Error::Generic {
            store: "S3",
            source: error.into(),
        })?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limits::STORE_CONNECT));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        let is_open = options.get_config_value(&ClientConfigKey::AllowHttp);
        let builder = if is_open.is_some_and(|is_open| is_open == "true") {
            builder.https_or_http()
        } else {
            builder.https_only()
        };
        let connector = builder.enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(HttpClient::new(Service(client)))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = timeout(limits::STORE_ANSWER, self.0.request(request)).await;
        let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
        let (parts, body) = answer.map_err(failed)?.into_parts();
        let body = TimeoutBody::new(limits::STORE_ANSWER, body)
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
