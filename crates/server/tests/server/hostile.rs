//! Hostile bytes on a connection: requests that two parsers could read differently, and floods of headers.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::{ask, connect, read_to_end};
use abide_server::{Host, RunningHost};
use axum::{
    Router,
    body::Bytes,
    routing::{any, post},
};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A host, and how often `/hidden` was requested.
async fn host() -> (RunningHost, Arc<AtomicUsize>) {
    let hidden = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hidden);
    let router = Router::new()
        .route("/", post(async |body: Bytes| body.len().to_string()))
        .route(
            "/hidden",
            any(async move || {
                count.fetch_add(1, Ordering::SeqCst);
            }),
        );
    let host = Host::open_in_memory()
        .configure(|c| c.server.body_timeout = Duration::from_millis(100))
        .router(|_| router);
    (host.start().await.unwrap(), hidden)
}

/// A request that another parser could take for a part of the body before it.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";

async fn told(addr: SocketAddr, sent: &str) -> String {
    let mut client = connect(addr, sent).await;
    client.shutdown().await.unwrap();
    read_to_end(client).await
}

#[tokio::test]
async fn a_request_of_two_readings_is_refused_and_hides_no_other() {
    let (host, hidden) = host().await;
    let chunked = format!("0\r\n\r\n{HIDDEN}");
    let length = chunked.len();
    for headers in [
        // Two lengths.
        format!("content-length: 0\r\ncontent-length: {length}\r\n"),
        format!("content-length: 0, {length}\r\n"),
        "content-length: +0\r\n".to_owned(),
        "content-length: 0x0\r\n".to_owned(),
        "content-length: -1\r\n".to_owned(),
        "content-length: 99999999999999999999\r\n".to_owned(),
        // A coding that is not chunked at the end.
        "transfer-encoding: chunked, identity\r\n".to_owned(),
        "transfer-encoding: xchunked\r\n".to_owned(),
        "transfer-encoding: identity\r\n".to_owned(),
        "transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n".to_owned(),
        // Headers that are not headers.
        format!("content-length : {length}\r\n"),
        format!(" content-length: {length}\r\n"),
        format!("x: y\r\n content-length: {length}\r\n"),
        format!("content-length\t: {length}\r\n"),
        "x\0y: 1\r\n".to_owned(),
        "x: \0\r\n".to_owned(),
        "x: a\rcontent-length: 3\r\n".to_owned(),
    ] {
        let sent = format!("POST / HTTP/1.1\r\nhost: x\r\n{headers}\r\n{chunked}");
        let told = told(host.addr(), &sent).await;
        let is_refused = told.starts_with("HTTP/1.1 400 ") || told.is_empty();
        assert!(is_refused, "{headers:?}: {told}");
        assert_eq!(hidden.load(Ordering::SeqCst), 0, "{headers:?}");
    }
    // A length beside chunks does not count (RFC 9112, section 6.3), or the request is refused.
    let both = format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n");
    for headers in [both.clone(), both.to_uppercase()] {
        let sent = format!("POST / HTTP/1.1\r\nhost: x\r\n{headers}\r\n5\r\nhello\r\n0\r\n\r\n");
        let told = told(host.addr(), &sent).await;
        let is_safe = told.starts_with("HTTP/1.1 400 ") || told.ends_with("\r\n\r\n5");
        assert!(is_safe, "{headers:?}: {told}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_chunk_of_two_readings_ends_the_request() {
    let (host, hidden) = host().await;
    for chunks in [
        "-1\r\n",
        "+0\r\n",
        "0x0\r\n",
        "g\r\n",
        "\r\n",
        "fffffffffffffffff\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
        "3 \r\r\nabc\r\n0\r\n\r\n",
    ] {
        let sent = format!(
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}{HIDDEN}"
        );
        let told = told(host.addr(), &sent).await;
        assert!(!told.contains("HTTP/1.1 200 "), "{chunks:?}: {told}");
        assert_eq!(hidden.load(Ordering::SeqCst), 0, "{chunks:?}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn floods_of_headers_are_refused_and_harm_no_other_client() {
    let (host, _) = host().await;
    let many = "x: 1\r\n".repeat(10_000);
    let long = format!("x: {}\r\n", "a".repeat(300_000));
    let path = format!("/{}", "a".repeat(300_000));
    for (target, headers) in [("/", &*many), ("/", &long), (&path, "")] {
        let mut client = connect(host.addr(), "").await;
        let sent = format!("POST {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        // It may be refused before all is sent.
        let _ = client.write_all(sent.as_bytes()).await;
        let mut start = [0; 12];
        let read = client.read(&mut start).await.unwrap_or(0);
        let start = String::from_utf8_lossy(&start[..read]).into_owned();
        let is_refused = ["", "HTTP/1.1 431", "HTTP/1.1 414", "HTTP/1.1 400"];
        assert!(is_refused.contains(&&*start), "{start}");
    }
    let other = ask(host.addr(), Method::POST, "/").await;
    assert_eq!(other.body, "0");
    host.shutdown().await.unwrap();
}
