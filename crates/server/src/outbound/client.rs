//! Requests to one server each, and the pool of connections to servers.
//!
//! Contract: a request is sent at most once to a server that may have processed it.

use std::time::Duration;

use abide_runtime::{Body, Request, Result};
use bytes::Bytes;
use http::Uri;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::timeout;
use tower::{service_fn, util::BoxCloneSyncService};

use super::{
    connector::{BoxError, Connector, Stream},
    error::{failed, is_unprocessed},
    policy::AddressPolicy,
};
use crate::{OutboundConfig, limits};

/// See the module's documentation.
pub(super) struct Client(legacy::Client<BoxCloneSyncService<Uri, Stream, BoxError>, Body>);

impl Client {
    pub(super) fn new(config: &OutboundConfig) -> Self {
        let policy = AddressPolicy::new(config.allow_private.clone());
        let connector = Connector::new(policy, &["h2", "http/1.1"]);
        let limit = config.connect_timeout;
        let connect = service_fn(move |uri: Uri| {
            let connector = connector.clone();
            async move {
                timeout(limit, connector.connect(&uri))
                    .await
                    .unwrap_or_else(|_| Err(not_connected(limit)))
            }
        });
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::OUTBOUND_IDLE)
            .pool_max_idle_per_host(limits::OUTBOUND_IDLE_PER_HOST)
            .http2_keep_alive_interval(limits::HTTP2_PING)
            .http2_keep_alive_timeout(limits::HTTP2_PING)
            .build(BoxCloneSyncService::new(connect));
        Self(client)
    }

    /// Sends a request; again while the server says that it has not processed it, if `whole` is its body.
    pub(super) async fn send(
        &self,
        mut request: Request,
        whole: Option<&Bytes>,
    ) -> Result<http::Response<Incoming>> {
        let mut repeats = 0..limits::OUTBOUND_REPEATS;
        loop {
            let copy = repeats.next().and_then(|_| copy(&request, whole));
            match (self.0.request(request).await, copy) {
                (Err(error), Some(copy)) if is_unprocessed(&error) => request = copy,
                (result, _) => return result.map_err(|error| failed(&error)),
            }
        }
    }
}

fn copy(request: &Request, whole: Option<&Bytes>) -> Option<Request> {
    // A redirect may have removed the body.
    let body = match request.body().size_hint().exact() {
        Some(0) => Body::empty(),
        _ => Body::from(whole?.clone()),
    };
    let mut copy = Request::new(body);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    Some(copy)
}

fn not_connected(limit: Duration) -> BoxError {
    let seconds = limit.as_secs_f64();
    format!("it took longer than {seconds} s (outbound.connect_timeout)").into()
}

#[cfg(test)]
mod tests {
    use abide_runtime::{ErrorKind, Response};
    use h2::{Reason, server};
    use hyper_util::rt::TokioIo;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A client of an HTTP/2 server that refuses to process every other request.
    async fn of_refusing_server() -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = server::handshake(stream).await.unwrap();
            let mut refuses = true;
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                if refuses {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    respond.send_response(Response::new(()), true).unwrap();
                }
                refuses = !refuses;
            }
        });
        let connect = service_fn(move |_: Uri| async move {
            let stream = TcpStream::connect(addr).await?;
            Ok(Stream::from(TokioIo::new(stream)))
        });
        let client = legacy::Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build(BoxCloneSyncService::new(connect));
        Client(client)
    }

    #[tokio::test]
    async fn a_request_that_the_server_has_not_processed_is_sent_again() {
        let client = of_refusing_server().await;
        let request = |body: &Bytes| {
            let body = Body::from(body.clone());
            Request::post("http://example.com/").body(body).unwrap()
        };
        for whole in [Bytes::new(), Bytes::from("moin")] {
            let response = client.send(request(&whole), Some(&whole)).await;
            assert_eq!(response.unwrap().status(), 200);
        }
        let once = request(&Bytes::from("moin"));
        let error = client.send(once, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
}
