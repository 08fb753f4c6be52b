//! The PROXY protocol: only a trusted proxy's header names the client of a connection.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{future::pending, net::SocketAddr, time::Duration};

use crate::support::{ask, connect, read_to_end, reset};
use abide::{
    Host,
    server::{ClientAddr, ConnectionsPerClient, RunningHost, ServerConfig, access::AccessPolicy},
};
use abide_harness::{in_time, until};
use axum::{Router, routing::get};
use http::Method;
use tokio::{io::AsyncWriteExt as _, net::TcpSocket};

async fn host(configure: impl FnOnce(&mut ServerConfig)) -> RunningHost {
    let router = |_| {
        Router::new().route("/a/wait", get(pending::<()>)).route(
            "/a/client",
            get(async |ClientAddr(client): ClientAddr| client.to_string()),
        )
    };
    let builder = Host::open_in_memory().router(router);
    let builder = builder.configure(|c| {
        c.server.proxy_protocol = true;
        c.server.access = AccessPolicy::Open;
        configure(&mut c.server);
    });
    builder.start().await.unwrap()
}

/// Sends a request behind a header of the PROXY protocol; what comes back.
async fn ask_behind(addr: SocketAddr, from: &str, header: &str) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(addr).await.unwrap();
    let request = "GET /a/client HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-forwarded-for: 203.0.113.7\r\n\r\n";
    let sent = format!("{header}{request}");
    // The server may have closed it already.
    let _ = stream.write_all(sent.as_bytes()).await;
    let said = read_to_end(stream).await;
    said.rsplit("\r\n").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_proxy_header_names_the_client() {
    let host = host(|c| {
        c.trusted_proxies = vec!["127.0.0.2".parse().unwrap()];
        c.max_connections_per_client = ConnectionsPerClient::AtMost(1);
    })
    .await;
    let addr = host.addr();
    let header = "PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n";
    assert_eq!(ask_behind(addr, "127.0.0.2", header).await, "192.0.2.1");
    for header in [
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN 127.0.0.2 127.0.0.1 1 2\r\n",
    ] {
        let unnamed = ask_behind(addr, "127.0.0.2", header).await;
        assert_eq!(unnamed, "0.0.0.0", "a health check is no word of the proxy");
    }
    assert_eq!(ask_behind(addr, "127.0.0.2", "").await, "", "it has to say");
    assert_eq!(ask_behind(addr, "127.0.0.1", "").await, "127.0.0.1");
    // From another address it is not a valid request.
    let refused = ask_behind(addr, "127.0.0.1", header).await;
    assert_ne!(refused, "192.0.2.1");
    // The client has its share of connections, not the proxy.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut first = socket.connect(addr).await.unwrap();
    let head = format!("{header}GET /a/wait HTTP/1.1\r\nhost: x\r\n\r\n");
    first.write_all(head.as_bytes()).await.unwrap();
    until("the share is used up", async || {
        let said = ask_behind(addr, "127.0.0.2", header).await;
        said.is_empty().then_some(())
    })
    .await;
    let other = "PROXY TCP4 192.0.2.2 10.0.0.1 4711 80\r\n";
    assert_eq!(ask_behind(addr, "127.0.0.2", other).await, "192.0.2.2");
    reset(first);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_proxy_that_does_not_say_for_whom_it_connects_loses_the_connection() {
    let host = host(|c| {
        c.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
        c.header_timeout = Duration::from_millis(100);
    })
    .await;
    let silent = connect(host.addr(), "PROXY TCP4 ").await;
    assert_eq!(in_time("an end", read_to_end(silent)).await, "");
    let metrics = ask(host.admin_addr().unwrap(), Method::GET, "/metrics").await;
    let given_up = r#"abide_http_given_up_total{what="proxy_header"}"#;
    assert!(metrics.body.contains(given_up), "{}", metrics.body);
    host.shutdown().await.unwrap();
}
