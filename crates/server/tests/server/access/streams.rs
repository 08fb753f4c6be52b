//! What a token has opened, and how it ends.

use std::{net::SocketAddr, time::Duration};

use abide::server::access::{NewToken, Role};
use abide_harness::in_time;
use tokio::io::AsyncReadExt;

use crate::{access::World, support::connect};

/// What is open behind an answer, after its head.
async fn open(addr: SocketAddr, path: &str, headers: &str, token: &str) -> tokio::net::TcpStream {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {token}\r\n{headers}\r\n"
    );
    let mut stream = connect(addr, &request).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = in_time("a head", stream.read_u8()).await;
        head.push(byte.expect("a head"));
    }
    let head = String::from_utf8(head).unwrap();
    let status: u16 = head[9..12].parse().unwrap();
    assert!([101, 200].contains(&status), "{head}");
    stream
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// What comes until the connection ends.
async fn rest(mut stream: tokio::net::TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = in_time("the end", stream.read_to_end(&mut bytes)).await;
    bytes
}

#[tokio::test]
async fn what_a_token_has_opened_ends_with_it() {
    let world = World::new();
    let revoked = world.token(Role::Read, |_| {});
    let short = |token: &mut NewToken| token.lifetime = Some(Duration::from_secs(2));
    let expiring = world.token(Role::Read, short);
    let kept = world.token(Role::Read, |_| {});
    let host = world.host().await;
    let addr = host.addr();
    let (body, socket) = ("/streams/a/endless", "/streams/a/socket");
    let mut still = open(addr, body, "", &kept).await;
    let mut still_open = open(addr, socket, UPGRADE, &kept).await;
    let mut ending = Vec::new();
    for token in [&expiring, &revoked] {
        ending.push((
            open(addr, body, "", token).await,
            open(addr, socket, UPGRADE, token).await,
        ));
    }
    let id = revoked.split('_').nth(1).unwrap();
    assert!(world.store.revoke_token(id).unwrap());
    for (body, socket) in ending {
        let body = rest(body).await;
        assert!(!body.ends_with(b"0\r\n\r\n"), "it ends as if it were whole");
        let said = rest(socket).await;
        // A close frame with 1008.
        assert_eq!(&said[..1], [0x88], "{said:?}");
        assert_eq!(&said[2..4], 1008_u16.to_be_bytes(), "{said:?}");
    }
    for stream in [&mut still, &mut still_open] {
        let mut byte = [0; 1];
        let read = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut byte)).await;
        assert!(read.is_err() || read.unwrap().unwrap() > 0, "it ended");
    }
    drop((still, still_open));
    host.shutdown().await.unwrap();
}
