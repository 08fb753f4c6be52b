//! A bucket on a port of this machine.

use std::{io, net::SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{Bucket, Cut};

/// A running front. Dropping it closes the port.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// Serves a bucket at a free port.
///
/// # Errors
/// If there is no port.
pub async fn serve(bucket: Bucket) -> io::Result<Front> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let bucket = bucket.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| answer(bucket.clone(), request));
                let connection = http1::Builder::new();
                // An error is a connection that was cut.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(Front { address, task })
}

impl Front {
    /// The URL of the service, without a bucket.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    bucket: Bucket,
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Cut> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let request = http::Request::from_parts(parts, body);
    Ok(bucket.answer(request).await?.map(Full::new))
}
