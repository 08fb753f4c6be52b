//! The HTTP/1.1 server of a fake: it may also close the connection instead of responding, stay silent, or never finish.

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{body::Frame, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;

use crate::listener::Listener;

/// A request that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Received {
    /// The path.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// A header, empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// The key that identifies a repeat: `Idempotency-Key`, or `webhook-id`; empty if there is neither.
    pub fn key(&self) -> &str {
        match self.header("idempotency-key") {
            "" => self.header("webhook-id"),
            key => key,
        }
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }
}

/// The response to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(Response<Bytes>),
    /// The connection is closed.
    Drop,
    /// No response, while the client waits.
    Hang,
    /// A status, followed by an endless body.
    Endless(StatusCode),
}

/// Serves HTTP/1.1 on an address.
pub(crate) async fn serve<F, R>(address: &str, answer: F) -> Listener
where
    F: Fn(Received) -> R + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    let answer = Arc::new(answer);
    Listener::start(address, move |stream| {
        let answer = Arc::clone(&answer);
        async move {
            let service = service_fn(move |request| {
                let answer = Arc::clone(&answer);
                async move { respond(answer(read(request).await?).await).await }
            });
            // A connection ends with an error when it is dropped on purpose, and when its client disconnects.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await
}

async fn read(request: Request<Incoming>) -> io::Result<Received> {
    let (parts, body) = request.into_parts();
    Ok(Received {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body: body.collect().await.map_err(io::Error::other)?.to_bytes(),
    })
}

/// An error closes the connection without a response.
async fn respond(reply: Reply) -> io::Result<Response<BoxBody<Bytes, Infallible>>> {
    match reply {
        Reply::Answer(response) => Ok(response.map(|body| Full::new(body).boxed())),
        Reply::Drop => Err(io::Error::other("dropped on purpose")),
        Reply::Hang => pending().await,
        Reply::Endless(status) => {
            let chunk = Bytes::from(vec![b'.'; 1024]);
            let chunks = stream::repeat(chunk).then(|chunk| async {
                // Fast enough to reach any size limit, slow enough for the machine.
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(Frame::data(chunk))
            });
            let mut response = Response::new(BodyExt::boxed(StreamBody::new(chunks)));
            *response.status_mut() = status;
            Ok(response)
        }
    }
}
