//! How WebSockets end.

use std::{sync::Arc, time::Duration};

use abide::Host;
use abide_harness::until;
use futures_util::StreamExt;
use tokio_tungstenite::{
    MaybeTlsStream, connect_async,
    tungstenite::{
        Message as Sent,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::websockets::world::{Echo, Notes, close_frame, hear, say, world};

#[tokio::test]
async fn a_close_of_either_side_is_answered_and_told_once() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    let frame = CloseFrame {
        code: CloseCode::Library(4_002),
        reason: "enough".into(),
    };
    client.close(Some(frame.clone())).await.unwrap();
    assert_eq!(close_frame(hear(&mut client).await), frame);
    assert!(client.next().await.is_none(), "the connection ends");
    world.notes.wait(r#"closed 4002 "enough" true"#).await;

    let mut client = world.client().await;
    say(&mut client, "close 3001").await;
    let frame = close_frame(hear(&mut client).await);
    assert_eq!(
        (u16::from(frame.code), &*frame.reason),
        (3_001, "as you wish")
    );
    assert!(client.next().await.is_none());
    world.notes.wait(r#"closed 3001 "as you wish" true"#).await;

    let mut client = world.client().await;
    client.close(None).await.unwrap();
    world.notes.wait(r#"closed 1005 "" true"#).await;
    assert_eq!(world.notes.count("closed"), 3);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_disappears_is_1006() {
    let world = world(|host| host).await;
    drop(world.client().await);
    world.notes.wait(r#"closed 1006 "" false"#).await;
    assert_eq!(world.notes.count("error"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_is_told_and_the_object_learns_why() {
    let world = world(|host| host.configure(|c| c.websocket.max_message_bytes = 1_000)).await;
    for (what, bytes, code) in [
        ("not masked", &[0x81, 0x01, b'x'][..], 1002),
        ("not UTF-8", &[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
        ("too long", &[0x82, 0xfe, 0xff, 0xff, 0, 0, 0, 0], 1009),
    ] {
        let before = world.notes.count("closed 1006");
        let mut client = world.client().await;
        let MaybeTlsStream::Plain(stream) = client.get_mut() else {
            panic!("no TLS here");
        };
        tokio::io::AsyncWriteExt::write_all(stream, bytes)
            .await
            .unwrap();
        let frame = close_frame(hear(&mut client).await);
        assert_eq!(u16::from(frame.code), code, "{what}");
        world
            .notes
            .wait(&format!("error the WebSocket was closed with {code}"))
            .await;
        while world.notes.count("closed 1006") == before {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(world.notes.count("closed"), 3);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_dropped_with_an_open_socket_gives_its_directory_back() {
    let dir = tempfile::tempdir().unwrap();
    let start = || async {
        Host::open_in_memory()
            .disk(Arc::new(abide_storage::RealDisk))
            .object::<Echo>()
            .with(Notes::default())
            .configure(|c| c.data.dir = dir.path().join("data"))
            .router(|env| abide::server::object_router::<Echo>(&env))
            .start()
            .await
    };
    let host = start().await.unwrap();
    let url = format!("ws://{}/room/", host.addr());
    let (mut client, _) = connect_async(url).await.unwrap();
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    drop(host);
    // Its threads end themselves.
    let host = until("the directory to be free", async || start().await.ok()).await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn open_sockets_are_closed_with_1001_when_the_host_ends() {
    let patient = Duration::from_secs(30);
    let world = world(|host| host.configure(|c| c.server.shutdown_grace = patient)).await;
    let mut client = world.client().await;
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    let notes = world.notes.clone();
    let ending = tokio::spawn(world.host.shutdown());
    let frame = close_frame(hear(&mut client).await);
    assert_eq!(u16::from(frame.code), 1001);
    assert!(client.next().await.is_none());
    ending.await.unwrap().unwrap();
    assert_eq!(
        notes.count(r#"closed 1001 "the server is stopping" true"#),
        1
    );
}

#[tokio::test]
async fn a_client_that_does_not_confirm_the_close_does_not_keep_the_host() {
    let world = world(|host| host).await;
    let client = world.client().await;
    let notes = world.notes.clone();
    world.host.shutdown().await.unwrap();
    drop(client);
    assert_eq!(notes.count("closed 1001"), 0);
}
