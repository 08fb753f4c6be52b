//! Peers that do nothing, or too much: none of them holds for long what others need.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use std::{future::pending, net::SocketAddr, time::Duration};

use crate::support::{Answer, ask, code, connect, read_to_end};
use abide::{
    Host,
    prelude::*,
    server::{
        ClientAddr, ConnectionsPerClient, HostBuilder, RunningHost, ServerConfig, object_router,
    },
    storage::MemoryUse,
};
use abide_harness::{in_time, until};
use axum::{
    Router,
    body::Bytes,
    routing::{get, post},
};
use http::{Method, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

const SHORT: Duration = Duration::from_millis(100);

/// More than the system keeps for a connection.
const LONG_ANSWER: usize = 12 << 20;

#[durable_object]
struct Giver;

impl DurableObject for Giver {
    fn new(_: Ctx, _: Env) -> Result<Self> {
        Ok(Self)
    }

    /// Gives as many bytes as the path says.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let bytes = request.uri().path()[1..].parse().map_err(Error::from_std)?;
        Ok(Response::new(Body::from(vec![b'x'; bytes])))
    }
}

fn builder(configure: impl FnOnce(&mut ServerConfig)) -> HostBuilder {
    Host::open_in_memory()
        .object::<Giver>()
        .router(|env| {
            object_router::<Giver>(&env)
                .route("/a/body", get(async |body: Bytes| body.len().to_string()))
                .route("/a/wait", get(pending::<()>))
                .route("/a/refused", post(async || StatusCode::FORBIDDEN))
                .route(
                    "/a/client",
                    get(async |ClientAddr(client): ClientAddr| client.to_string()),
                )
        })
        .configure(|c| configure(&mut c.server))
}

async fn host(configure: impl FnOnce(&mut ServerConfig)) -> RunningHost {
    builder(configure).start().await.unwrap()
}

/// An HTTP/2 client, and its connection, which answers pings until it ends.
async fn http2(addr: SocketAddr) -> (SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(65_535)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    (client, tokio::spawn(connection))
}

fn request(addr: SocketAddr, path: &str) -> http::Request<Empty<Bytes>> {
    let uri = format!("http://{addr}{path}");
    http::Request::get(uri).body(Empty::new()).unwrap()
}

/// Asks as a proxy on this machine does for this client.
async fn ask_for(addr: SocketAddr, path: &str, forwarded: &str) -> Answer {
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-forwarded-for: {forwarded}\r\n\r\n"
    );
    let said = read_to_end(connect(addr, &head).await).await;
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let mut answer = Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        headers: http::HeaderMap::new(),
        body: body.to_owned(),
    };
    if let Some((_, after)) = head.split_once("retry-after: ") {
        let after = after.lines().next().unwrap().parse().unwrap();
        answer.headers.insert("retry-after", after);
    }
    answer
}

async fn shows(host: &RunningHost, metric: &str) {
    let metrics = ask(host.admin_addr().unwrap(), Method::GET, "/metrics").await;
    assert!(metrics.body.contains(metric), "{}", metrics.body);
}

/// The connections that hosts of this process have refused.
async fn refusals(host: &RunningHost) -> u64 {
    let metrics = ask(host.admin_addr().unwrap(), Method::GET, "/metrics").await;
    let mut lines = metrics.body.lines();
    let count = lines.find_map(|line| line.strip_prefix("abide_http_connections_refused_total "));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn idle_http_2_connections_that_answer_pings_give_their_slots_back() {
    let host = host(|c| {
        c.max_connections = 2;
        c.idle_timeout = SHORT;
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (mut client, connection) = http2(host.addr()).await;
        let answer = client.send_request(request(host.addr(), "/giver/3"));
        assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
        clients.push((client, connection));
    }
    let answer = in_time("an answer", ask(host.addr(), Method::GET, "/giver/3")).await;
    assert_eq!(answer.body, "xxx");
    for (_client, connection) in clients {
        in_time("a goodbye", connection).await.unwrap().unwrap();
    }
    shows(
        &host,
        r#"abide_http_given_up_total{what="idle_connection"}"#,
    )
    .await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_connection_with_a_request_on_it_is_not_idle() {
    let host = host(|c| {
        c.idle_timeout = SHORT / 10;
        c.write_timeout = SHORT / 10;
        c.request_timeout = SHORT;
    })
    .await;
    let (mut client, _connection) = http2(host.addr()).await;
    let answer = client.send_request(request(host.addr(), "/a/wait")).await;
    assert_eq!(answer.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    let answer = ask(host.addr(), Method::GET, "/a/wait").await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    host.shutdown().await.unwrap();
}

fn replies(host: &RunningHost) -> u64 {
    host.memory().usage()[MemoryUse::Replies as usize].bytes
}

/// A client that asks for a long answer and has read its head.
async fn reader(addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut client = socket.connect(addr).await.unwrap();
    let head = format!("GET /giver/{LONG_ANSWER} HTTP/1.1\r\nhost: x\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 15];
    client.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    client
}

#[tokio::test]
async fn a_reader_that_takes_nothing_loses_its_answer_and_a_slow_one_gets_it() {
    let host = host(|c| c.write_timeout = Duration::from_secs(3)).await;
    let stalled = reader(host.addr()).await;
    let mut slow = reader(host.addr()).await;
    assert!(replies(&host) > 12 << 20);
    let mut left = LONG_ANSWER;
    let mut bytes = vec![0; 256 << 10];
    while left > 4 << 20 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        left -= slow.read(&mut bytes).await.unwrap();
    }
    while left > 0 {
        left = left.saturating_sub(slow.read(&mut bytes).await.unwrap());
    }
    until("the stalled answer to be given up", async || {
        (replies(&host) == 0).then_some(())
    })
    .await;
    drop((stalled, slow));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_stream_that_takes_nothing_is_reset_and_its_connection_stays() {
    let host = host(|c| c.write_timeout = Duration::from_millis(500)).await;
    let (mut client, _connection) = http2(host.addr()).await;
    let path = format!("/giver/{LONG_ANSWER}");
    let stalled = client.send_request(request(host.addr(), &path));
    let stalled = stalled.await.unwrap();
    assert_eq!(stalled.status(), StatusCode::OK);
    assert!(replies(&host) > 0);
    until("the stalled stream to be given up", async || {
        (replies(&host) == 0).then_some(())
    })
    .await;
    let answer = client.send_request(request(host.addr(), "/giver/3")).await;
    assert_eq!(answer.unwrap().status(), StatusCode::OK);
    shows(&host, r#"abide_http_given_up_total{what="stalled_reader"}"#).await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_that_stops_arriving_is_408() {
    let host = host(|c| {
        c.body_timeout = SHORT;
        c.request_timeout = Duration::from_hours(1);
    })
    .await;
    let head = "GET /a/body HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc";
    let said = in_time("an answer", read_to_end(connect(host.addr(), head).await)).await;
    assert!(
        said.starts_with("HTTP/1.1 408 ") && said.contains("body_timeout"),
        "{said}"
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_client_has_as_many_connections_as_it_may_and_no_more() {
    let host = host(|c| c.max_connections_per_client = ConnectionsPerClient::AtMost(3)).await;
    let addr = host.addr();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(connect(addr, "GET ").await);
    }
    let before = refusals(&host).await;
    let mut refused = TcpStream::connect(addr).await.unwrap();
    let ended = in_time("a refusal", refused.read(&mut [0; 1])).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert!(refusals(&host).await > before);
    held.clear();
    until("a connection to be accepted", async || {
        let request = "GET /giver/3 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.ok()?;
        read_to_end(stream).await.ends_with("xxx").then_some(())
    })
    .await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_host_whose_connections_are_used_up_says_that_it_is_full() {
    let host = host(|c| c.max_connections = 1).await;
    let admin = host.admin_addr().unwrap();
    let held = connect(host.addr(), "GET ").await;
    until("the host to be full", async || {
        let ready = ask(admin, Method::GET, "/readyz").await;
        let is_full = ready.body.contains(r#""code":"full""#);
        (ready.status == StatusCode::SERVICE_UNAVAILABLE && is_full).then_some(())
    })
    .await;
    shows(&host, "abide_http_connections_limit ").await;
    drop(held);
    until("the host to be ready", async || {
        let ready = ask(admin, Method::GET, "/readyz").await;
        (ready.status == StatusCode::OK).then_some(())
    })
    .await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_client_is_the_one_named_by_a_trusted_proxy_only() {
    for (trusted, forwarded, expected) in [
        (&[][..], "203.0.113.7", "127.0.0.1"),
        (&["127.0.0.1"], "203.0.113.7", "203.0.113.7"),
        (&["127.0.0.1"], "10.9.9.9, 203.0.113.7", "203.0.113.7"),
        (
            &["127.0.0.0/8", "10.0.0.0/8"],
            "9.9.9.9, 203.0.113.7, 10.9.9.9",
            "203.0.113.7",
        ),
    ] {
        let trusted: Vec<_> = trusted.iter().map(|one| one.parse().unwrap()).collect();
        let host = host(|c| c.trusted_proxies = trusted).await;
        let answer = ask_for(host.addr(), "/a/client", forwarded).await;
        assert_eq!(answer.body, expected, "{forwarded}");
        host.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_has_its_own_share() {
    let host = host(|c| {
        c.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
        c.max_connections_per_client = ConnectionsPerClient::AtMost(2);
    })
    .await;
    let addr = host.addr();
    let waiting = || {
        let head = "GET /a/wait HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 203.0.113.7\r\n\r\n";
        connect(addr, head)
    };
    let held = [waiting().await, waiting().await];
    let refused = until("a request to be refused", async || {
        let answer = ask_for(addr, "/a/client", "203.0.113.7").await;
        (answer.status == StatusCode::TOO_MANY_REQUESTS).then_some(answer)
    })
    .await;
    assert_eq!(code(&refused), "too_many_connections");
    let other = ask_for(addr, "/a/client", "203.0.113.8").await;
    assert_eq!(other.body, "203.0.113.8");
    for connection in held {
        support::reset(connection);
    }
    until("the client's requests to end", async || {
        let answer = ask_for(addr, "/a/client", "203.0.113.7").await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_too_fast_is_told_when_to_come_back() {
    let host = host(|c| {
        c.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
        c.requests_per_client = Some(1);
    })
    .await;
    let refused = until("a request to be refused", async || {
        let answer = ask_for(host.addr(), "/a/client", "203.0.113.7").await;
        (answer.status != StatusCode::OK).then_some(answer)
    })
    .await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(code(&refused), "too_many_requests");
    let after: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=2).contains(&after), "{after}");
    let other = ask_for(host.addr(), "/a/client", "203.0.113.8").await;
    assert_eq!(other.status, StatusCode::OK);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_half_closes_after_its_requests_is_answered() {
    let slow = async |body: Bytes| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        body
    };
    let router = Router::new()
        .route("/slow", post(slow))
        .route("/large", get(async || "x".repeat(1 << 20)));
    let host = Host::open_in_memory().router(|_| router);
    let host = host.start().await.unwrap();
    let slow = "POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n";
    let large = "GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    for (requests, expected) in [
        (format!("{slow}body"), 4),
        (large.to_owned(), 1 << 20),
        (format!("{slow}body{slow}body{large}"), 1 << 20),
    ] {
        let mut client = connect(host.addr(), &requests).await;
        client.shutdown().await.unwrap();
        let told = read_to_end(client).await;
        assert_eq!(
            told.matches("HTTP/1.1 200 OK").count(),
            requests.matches("HTTP/1.1").count(),
            "{requests}"
        );
        let body = told.rsplit("\r\n\r\n").next().unwrap();
        assert_eq!(body.len(), expected, "{requests}");
    }
    // Half a request is none.
    let mut client = connect(host.addr(), &format!("{slow}bod")).await;
    client.shutdown().await.unwrap();
    let told = read_to_end(client).await;
    assert!(!told.contains("200 OK"), "{told}");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_flood_of_pings_is_read_slowly_and_harms_no_other_connection() {
    const PINGS: usize = 40_000;
    let host = host(|_| {}).await;
    let mut flood = connect(host.addr(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    flood.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let pings = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].repeat(PINGS);
    let (mut read, mut write) = flood.into_split();
    let sent = tokio::spawn(async move {
        // The server stops to read.
        let _ = write.write_all(&pings).await;
        pending::<()>().await;
    });
    let (mut buffer, mut answered) = (vec![0; 64 << 10], 0);
    while let Ok(bytes) = tokio::time::timeout(SHORT * 3, read.read(&mut buffer)).await {
        answered += bytes.unwrap() / 17;
    }
    assert!((100..PINGS / 2).contains(&answered), "{answered}");
    let other = ask(host.addr(), Method::GET, "/a/client").await;
    assert_eq!(other.body, "127.0.0.1");
    sent.abort();
    drop(read);
    host.shutdown().await.unwrap();
}

/// A client that sends a body of 4 MiB for a handler that reads none of it.
async fn refused(host: &RunningHost) -> TcpStream {
    let head = format!(
        "POST /a/refused HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        4 << 20
    );
    connect(host.addr(), &head).await
}

#[tokio::test]
async fn a_client_that_still_sends_a_refused_body_gets_the_response() {
    let host = builder(|_| {}).start().await.unwrap();
    let mut client = refused(&host).await;
    for _ in 0..64 {
        client.write_all(&vec![b'x'; 64 << 10]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 403 "), "{answer:?}");
    // One that ends what it sends is not kept.
    drop(refused(&host).await);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_keeps_sending_a_refused_body_is_closed() {
    let host = builder(|_| {}).start().await.unwrap();
    let mut client = refused(&host).await;
    in_time("the connection to be closed", async {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    host.shutdown().await.unwrap();
}
