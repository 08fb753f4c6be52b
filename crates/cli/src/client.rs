//! The HTTP client for a node: through one of its listeners, or its Unix socket.

use std::io;

use abide::server::tls_client_config;
use anyhow::Result;
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, ResponseFuture, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::UnixStream;
use tower::{service_fn, util::BoxCloneSyncService};

type Socket = BoxCloneSyncService<Uri, TokioIo<UnixStream>, io::Error>;

/// The body of a request.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// There are no proxies: the node is local or nearby.
pub(crate) enum Client {
    Listener(legacy::Client<HttpsConnector<HttpConnector>, RequestBody>),
    Socket(legacy::Client<Socket, RequestBody>),
}

impl Client {
    /// For any listener.
    pub(crate) fn new() -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_client_config(&[])?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self::Listener(client))
    }

    /// For the node that listens at this path.
    pub(crate) fn of_socket(path: String) -> Self {
        let connect = service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let connector = BoxCloneSyncService::new(connect);
        Self::Socket(legacy::Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Sends a request.
    pub(crate) fn request(&self, request: Request<RequestBody>) -> ResponseFuture {
        match self {
            Self::Listener(client) => client.request(request),
            Self::Socket(client) => client.request(request),
        }
    }
}
