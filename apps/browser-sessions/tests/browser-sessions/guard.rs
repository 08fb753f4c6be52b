//! A page's proxy: what it refuses, what it carries, what it counts.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::net::SocketAddr;

use crate::site::Site;
use abide::server::{AddressPolicy, AllowPrivate};
use abide_harness::in_time;
use browser_sessions::{guard::PageProxy, limits};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn proxy(allowed: &str) -> PageProxy {
    let policy = AddressPolicy::new(allowed.parse::<AllowPrivate>().unwrap());
    PageProxy::open(policy, 1 << 20).await.unwrap()
}

/// Where to, as SOCKS 5 writes it.
fn target(host: &str, port: u16) -> Vec<u8> {
    let mut text = vec![5, 1, 0];
    match host.parse() {
        Ok(std::net::IpAddr::V4(address)) => {
            text.push(1);
            text.extend(address.octets());
        }
        Ok(std::net::IpAddr::V6(address)) => {
            text.push(4);
            text.extend(address.octets());
        }
        Err(_) => {
            text.extend([3, u8::try_from(host.len()).unwrap()]);
            text.extend(host.bytes());
        }
    }
    text.extend(port.to_be_bytes());
    text
}

/// A connection through a proxy, and its code.
async fn connect(proxy: &PageProxy, host: &str, port: u16) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(&target(host, port)).await.unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await.unwrap();
    (stream, reply[1])
}

async fn site() -> (Site, SocketAddr) {
    let site = Site::start("127.0.0.1:0", |path| format!("this is {path}")).await;
    let address = site.address;
    (site, address)
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let (site, address) = site().await;
    let proxy = proxy("false").await;
    for host in [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "localhost",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
        "0x7f.1",
        "2130706433",
    ] {
        let (_, code) = connect(&proxy, host, address.port()).await;
        // Not allowed, or no name that can be resolved.
        assert!([2, 4].contains(&code), "{host}: {code}");
    }
    let refused = proxy.refused();
    assert_eq!(refused.len(), 10);
    assert!(refused[0].is_forbidden && refused[0].reason.contains("outbound.allow_private"));
    assert_eq!(refused[0].target, format!("127.0.0.1:{}", address.port()));
    assert!(refused[4].is_forbidden, "{refused:?}");
    assert_eq!(site.seen(), Vec::<String>::new());
    assert_eq!(proxy.bytes(), 0);
}

#[tokio::test]
async fn an_allowed_address_is_reached_and_its_bytes_are_counted() {
    let (site, address) = site().await;
    let proxy = proxy("127.0.0.1").await;
    let (mut stream, code) = connect(&proxy, "127.0.0.1", address.port()).await;
    assert_eq!(code, 0);
    let request = b"GET /there HTTP/1.1\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("this is /there"), "{answer}");
    assert_eq!(site.seen(), ["/there"]);
    assert_eq!(proxy.bytes(), (request.len() + answer.len()) as u64);
    let (_, code) = connect(&proxy, "127.0.0.1", 1).await;
    assert_eq!((code, proxy.refused().len()), (5, 1));
}

#[tokio::test]
async fn a_page_that_loads_more_than_it_may_is_cut_off() {
    let site = Site::start("127.0.0.1:0", |_| "x".repeat(2 << 20)).await;
    let proxy = proxy("127.0.0.1").await;
    let (mut stream, _) = connect(&proxy, "127.0.0.1", site.address.port()).await;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    in_time("the proxy to say so", proxy.exceeded()).await;
    let mut read = Vec::new();
    // It ends with an error or without one, but early.
    let _ = stream.read_to_end(&mut read).await;
    assert!(read.len() <= 1 << 20, "{}", read.len());
}

#[tokio::test]
async fn the_proxy_drops_connections_that_do_not_speak_socks_5() {
    let (_site, address) = site().await;
    let proxy = proxy("127.0.0.1").await;
    for garbage in [
        &b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n"[..],
        &[4, 1, 0, 80, 127, 0, 0, 1, 0],
        &[5, 1, 2],
        &[5, 0],
        // BIND, UDP ASSOCIATE, an unknown kind of address, a name that is no text.
        &[5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80],
        &[5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80],
        &[5, 1, 0, 5, 1, 0, 9, 127, 0, 0, 1, 0, 80],
        &[5, 1, 0, 5, 1, 0, 3, 2, 0xff, 0xfe, 0, 80],
    ] {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut said = Vec::new();
        let _ = in_time("the end", stream.read_to_end(&mut said)).await;
        assert!(said.len() <= 2, "{garbage:?}: {said:?}");
    }
    assert_eq!(connect(&proxy, "127.0.0.1", address.port()).await.1, 0);
}

#[tokio::test]
async fn connections_end_with_their_page() {
    let (_site, address) = site().await;
    let proxy = proxy("127.0.0.1").await;
    let (mut stream, _) = connect(&proxy, "127.0.0.1", address.port()).await;
    let listener = proxy.address();
    drop(proxy);
    let mut rest = Vec::new();
    let _ = in_time("the end", stream.read_to_end(&mut rest)).await;
    abide_harness::until("the port to close", async || {
        TcpStream::connect(listener).await.err()
    })
    .await;
}

#[tokio::test]
async fn refusals_that_are_remembered_are_bounded() {
    let proxy = proxy("false").await;
    for port in 1..40 {
        connect(&proxy, "127.0.0.1", port).await;
    }
    assert_eq!(proxy.refused().len(), limits::MAX_REFUSED);
}
