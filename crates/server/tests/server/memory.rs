//! The edge while memory is short: which work is refused, which runs, and who is notified.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{io::ErrorKind, net::SocketAddr};

use crate::support::{ask, code, connect, send};
use abide::{
    Host,
    prelude::*,
    server::{JsonBody, RunningHost},
    storage::MemoryUse,
};
use abide_harness::until;
use axum::routing::post;
use http::{Method, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

const MIB: usize = 1 << 20;

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

async fn host(budget: usize) -> RunningHost {
    Host::open_in_memory()
        .object::<Giver>()
        .configure(|c| {
            c.memory.budget = Some(budget as u64);
            c.objects.workers = Some(1);
        })
        .router(|env| {
            abide::server::object_router::<Giver>(&env).route(
                "/json/length",
                post(|JsonBody(text): JsonBody<String>| async move { text.len().to_string() }),
            )
        })
        .start()
        .await
        .unwrap()
}

fn taken(host: &RunningHost, used_for: MemoryUse) -> u64 {
    host.memory().usage()[used_for as usize].bytes
}

/// A connection whose client takes little of what it is sent.
async fn narrow(addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.connect(addr).await.unwrap()
}

#[tokio::test]
async fn unfinished_bodies_are_bounded_together_and_refused_with_retry_after() {
    let host = host(4 * MIB).await;
    let head = format!(
        "POST /json/length HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n\"",
        2 * MIB
    );
    let mut clients = Vec::new();
    // Together they send twice the budget, and none of them all.
    for _ in 0..8 {
        let mut client = connect(host.addr(), &head).await;
        // One that has been refused does not read on.
        let _ = client.write_all(&vec![b'x'; MIB]).await;
        clients.push(client);
    }
    // A refusal is counted before its answer is sent.
    let mut refused = Vec::new();
    until("a body to be refused", async || {
        for mut client in std::mem::take(&mut clients) {
            let mut first = [0; 64];
            match client.try_read(&mut first) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => clients.push(client),
                read => {
                    let mut answer = first[..read.unwrap_or(0)].to_vec();
                    let _ = client.read_to_end(&mut answer).await;
                    refused.push(answer);
                }
            }
        }
        (!refused.is_empty()).then_some(())
    })
    .await;
    let most = taken(&host, MemoryUse::Bodies);
    assert!(most <= 5 * MIB as u64, "{most}");
    for answer in refused {
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("retry-after: 1"), "{answer}");
        assert!(answer.contains(r#""code":"overloaded""#), "{answer}");
    }
    assert!(!clients.is_empty(), "all were refused");
    drop(clients);
    until("memory to be given back", async || {
        (taken(&host, MemoryUse::Bodies) == 0).then_some(())
    })
    .await;
    let body = serde_json::to_vec(&"x".repeat(MIB)).unwrap();
    let answer = send(host.addr(), Method::POST, "/json/length", body).await;
    assert_eq!(
        (answer.status, answer.body),
        (StatusCode::OK, MIB.to_string())
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_head_that_comes_with_a_part_of_its_body_is_refused_with_an_answer() {
    let host = host(4 * MIB).await;
    let memory = host.memory().account();
    let _others = memory.charge(MemoryUse::Bodies, 8 * MIB as u64);
    let head = format!(
        "POST /json/length HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {MIB}\r\n\r\n\"{}",
        "x".repeat(64 << 10)
    );
    let mut client = connect(host.addr(), &head).await;
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    drop(client);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn unread_answers_are_bounded_together_and_reported() {
    // More than the system keeps for a connection.
    const ANSWER: usize = 12 * MIB;
    let host = host(40 * MIB).await;
    let path = format!("/giver/{ANSWER}");
    let mut clients = Vec::new();
    until("a request to be refused", async || {
        let mut client = narrow(host.addr()).await;
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        client.read_exact(&mut first).await.unwrap();
        clients.push(client);
        (&first == b"HTTP/1.1 503").then_some(())
    })
    .await;
    let replies = taken(&host, MemoryUse::Replies);
    assert!(
        (22 * MIB as u64..50 * MIB as u64).contains(&replies),
        "{replies}"
    );

    let admin = host.admin_addr().unwrap();
    let ready = ask(admin, Method::GET, "/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.body.contains(r#""code":"no_memory""#), "{ready:?}");
    let metrics = ask(admin, Method::GET, "/metrics").await.body;
    assert!(
        metrics.contains(r#"abide_memory_bytes{use="replies"} "#)
            && metrics.contains(r#"abide_memory_refused_total{use="bodies"} "#)
            && metrics.contains("abide_memory_budget_bytes 22719147"),
        "{metrics}"
    );
    let answer = ask(host.addr(), Method::GET, "/giver/1").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(code(&answer), "overloaded");
    assert_eq!(answer.headers["retry-after"], "1");

    // What has begun continues: one who has waited reads everything.
    let mut bytes = vec![0; ANSWER];
    clients[0].read_exact(&mut bytes).await.unwrap();
    drop(clients);
    until("memory to be given back", async || {
        (taken(&host, MemoryUse::Replies) == 0).then_some(())
    })
    .await;
    let ready = ask(admin, Method::GET, "/readyz").await;
    assert_eq!(ready.status, StatusCode::OK, "{ready:?}");
    let answer = ask(host.addr(), Method::GET, "/giver/3").await;
    assert_eq!(answer.body, "xxx");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn unfinished_heads_are_charged_and_bounded_together() {
    const CLIENTS: usize = 60;
    let host = host(4 * MIB).await;
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}", "a".repeat(100_000));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = TcpStream::connect(host.addr()).await.unwrap();
        // One that is refused may be closed already.
        let _ = client.write_all(head.as_bytes()).await;
        clients.push(client);
    }
    let connections = || host.memory().usage()[MemoryUse::Connections as usize];
    until("a head to be refused", async || {
        (connections().refused > 0).then_some(())
    })
    .await;
    let charged = connections().bytes as usize;
    assert!((MIB..5 * MIB).contains(&charged), "{charged}");
    clients.drain(1..);
    until("memory to be given back", async || {
        (connections().bytes < 150_000).then_some(())
    })
    .await;
    drop(clients);
    let answer = ask(host.addr(), Method::GET, "/giver/3").await;
    assert_eq!(answer.body, "xxx");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_connection_counts_as_long_as_it_is_open() {
    let host = host(64 * MIB).await;
    let clients = [
        connect(host.addr(), "GET ").await,
        connect(host.addr(), "GET ").await,
    ];
    let each = until("connections to be counted", async || {
        let bytes = taken(&host, MemoryUse::Connections);
        (bytes > 0 && bytes.is_multiple_of(2)).then_some(bytes / 2)
    })
    .await;
    assert!(each >= 8 << 10, "{each}");
    for client in clients {
        drop(client);
    }
    until("connections to be given back", async || {
        (taken(&host, MemoryUse::Connections) == 0).then_some(())
    })
    .await;
    host.shutdown().await.unwrap();
}
