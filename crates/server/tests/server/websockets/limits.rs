//! Peers that are slow, or gone.

use std::time::Duration;

use abide::socket::SlowReader;
use abide_harness::until;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::{MaybeTlsStream, tungstenite::Message as Sent};

use crate::{
    support::{ask, connect, read_to_end},
    websockets::world::{SHORT, hear, say, world},
};

#[tokio::test]
async fn a_ping_is_answered_with_its_payload() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    client.send(Sent::Ping("you?".into())).await.unwrap();
    let pong = client.next().await.unwrap().unwrap();
    assert_eq!(pong, Sent::Pong("you?".into()));
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_flood_of_pings_to_a_socket_is_read_slowly() {
    const FRAMES: usize = 100_000;
    // With a mask of zeros.
    let frame = [0x89, 0x80, 0, 0, 0, 0];
    let world = world(|host| host).await;
    let handshake = "GET /room/ HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut flood = connect(world.host.addr(), handshake).await;
    let mut buffer = vec![0; 64 << 10];
    assert!(flood.read(&mut buffer).await.unwrap() > 0);
    let frames = frame.repeat(FRAMES);
    let mut sent = 0;
    // Until the server has not read for a while.
    while sent < frames.len() {
        let some = flood.write(&frames[sent..]);
        let Ok(some) = tokio::time::timeout(SHORT * 4, some).await else {
            break;
        };
        sent += some.unwrap();
        let _ = flood.try_read(&mut buffer);
    }
    let mut answered = 0;
    while let Ok(bytes) = tokio::time::timeout(SHORT * 4, flood.read(&mut buffer)).await {
        answered += bytes.unwrap() / 2;
    }
    assert!(answered < FRAMES / 2, "{answered}");
    let mut other = world.client().await;
    say(&mut other, "hello").await;
    hear(&mut other).await;
    drop(flood);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_answer_pings_is_found_dead() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.ping_interval = Some(SHORT);
            c.websocket.pong_timeout = SHORT;
        })
    })
    .await;
    // The client answers pings only while it is polled, and this one is not.
    let client = world.client().await;
    world.notes.wait(r#"closed 1006 "" false"#).await;
    drop(client);
    let metrics = ask(
        world.host.admin_addr().unwrap(),
        http::Method::GET,
        "/metrics",
    );
    let metrics = metrics.await.body;
    assert!(
        metrics.contains("abide_websocket_keep_alive_timeouts_total "),
        "{metrics}"
    );
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_answers_pings_stays() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.ping_interval = Some(Duration::from_millis(10));
            c.websocket.pong_timeout = Duration::from_secs(20);
        })
    })
    .await;
    let mut client = world.client().await;
    for _ in 0..5 {
        let ping = client.next().await.unwrap().unwrap();
        assert!(matches!(ping, Sent::Ping(_)), "{ping:?}");
    }
    say(&mut client, "still here").await;
    assert_eq!(hear(&mut client).await, Sent::text("still here"));
    assert_eq!(world.notes.count("closed"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_closed_with_1013() {
    let world = world(|host| host.configure(|c| c.websocket.send_buffer_bytes = 200_000)).await;
    let mut client = world.client().await;
    // More than the kernel takes for a client that does not read.
    say(&mut client, "flood 1000").await;
    let frame = loop {
        match hear(&mut client).await {
            Sent::Close(frame) => break frame.unwrap(),
            message => assert_eq!(message.len(), 100_000),
        }
    };
    assert_eq!(u16::from(frame.code), 1013);
    assert!(client.next().await.is_none());
    world.notes.wait("closed 1013").await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_may_miss_messages_instead() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.send_buffer_bytes = 200_000;
            c.websocket.slow_reader = SlowReader::DropNewest;
        })
    })
    .await;
    let mut client = world.client().await;
    say(&mut client, "flood 1000").await;
    let mut count = 0;
    loop {
        // This echo may be among what is left out, as long as there is something else to hear.
        say(&mut client, "still there").await;
        match hear(&mut client).await.len() {
            100_000 => count += 1,
            _ => break,
        }
    }
    assert!((1..1_000).contains(&count), "{count}");
    assert_eq!(world.notes.count("closed"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_socket_outlives_the_request_timeout_and_keeps_its_slot() {
    let world = world(|host| {
        host.configure(|c| {
            c.server.request_timeout = SHORT;
            c.server.header_timeout = SHORT;
            c.server.max_connections = 1;
        })
    })
    .await;
    // On a busy machine this and the last request may be too late, for once.
    let mut client = until("a handshake in time", async || {
        world.try_client_of("/room/").await.ok()
    })
    .await;
    let addr = world.host.addr();
    let plain = move || async move {
        let request = "GET /room/plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        read_to_end(connect(addr, request).await).await
    };
    let waiting = tokio::spawn(plain());
    tokio::time::sleep(2 * SHORT).await;
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    assert!(!waiting.is_finished(), "there is one slot");
    client.close(None).await.unwrap();
    drop(client);
    waiting.await.unwrap();
    until("an answer in time", async || {
        plain().await.ends_with("no socket").then_some(())
    })
    .await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_message_that_does_not_come_to_its_end_closes_its_socket_with_1008() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.message_timeout = SHORT;
            c.websocket.ping_interval = None;
        })
    })
    .await;
    let mut client = world.client().await;
    // The header of a masked text of 5 bytes, and one byte of it.
    let MaybeTlsStream::Plain(stream) = client.get_mut() else {
        panic!("there is no TLS here");
    };
    stream
        .write_all(&[0x81, 0x85, 0, 0, 0, 0, b'h'])
        .await
        .unwrap();
    let Sent::Close(Some(close)) = hear(&mut client).await else {
        panic!("a close is expected");
    };
    assert_eq!(u16::from(close.code), 1008);
    world.notes.wait("error ").await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_stalled_reader_below_the_send_buffer_is_found_dead() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.send_buffer_bytes = 256 << 20;
            c.websocket.ping_interval = Some(SHORT);
            c.websocket.pong_timeout = SHORT;
        })
    })
    .await;
    let mut client = world.client().await;
    // More than the kernel takes for a client that does not read.
    say(&mut client, "flood 300").await;
    world.notes.wait(r#"closed 1006 "" false"#).await;
    until("its memory to be given back", async || {
        let metrics = ask(
            world.host.admin_addr().unwrap(),
            http::Method::GET,
            "/metrics",
        );
        let metrics = metrics.await.body;
        metrics
            .contains("abide_memory_bytes{use=\"sockets\"} 0\n")
            .then_some(())
    })
    .await;
    drop(client);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_stalled_reader_above_the_send_buffer_is_disconnected() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.send_buffer_bytes = 200_000;
            c.websocket.ping_interval = None;
        })
    })
    .await;
    let mut client = world.client().await;
    say(&mut client, "flood 1000").await;
    world.notes.wait("closed 10").await;
    let open = async || {
        let metrics = ask(
            world.host.admin_addr().unwrap(),
            http::Method::GET,
            "/metrics",
        );
        let metrics = metrics.await.body;
        metrics.contains("abide_websockets_open 0\n")
    };
    until("the socket to be ended", async || {
        open().await.then_some(())
    })
    .await;
    drop(client);
    world.host.shutdown().await.unwrap();
}
