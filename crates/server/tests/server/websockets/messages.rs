//! Messages there and back.

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message as Sent;

use crate::{
    support::ask,
    websockets::world::{SHORT, hear, say, world},
};

#[tokio::test]
async fn text_and_bytes_of_every_length_come_back() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    for length in [0, 1, 125, 126, 65_535, 65_536, 3_000_000] {
        let text = "é".repeat(length / 2) + if length % 2 == 1 { "x" } else { "" };
        say(&mut client, &text).await;
        assert_eq!(hear(&mut client).await, Sent::text(text));
        let bytes = vec![length as u8; length];
        client.send(Sent::binary(bytes.clone())).await.unwrap();
        assert_eq!(hear(&mut client).await, Sent::binary(bytes));
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn many_small_messages_come_back_in_order() {
    let world = world(|host| host).await;
    let (mut send, mut receive) = world.client().await.split();
    let sending = tokio::spawn(async move {
        for number in 0..5_000 {
            send.feed(Sent::text(number.to_string())).await.unwrap();
        }
        send.flush().await.unwrap();
        send
    });
    for number in 0..5_000 {
        let next = receive.next().await.unwrap().unwrap();
        assert_eq!(next, Sent::text(number.to_string()));
    }
    drop(sending.await.unwrap());
    drop(receive);
    world.notes.wait("closed 1006").await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_broadcast_reaches_every_client() {
    let world = world(|host| host).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(world.client().await);
    }
    say(&mut clients[3], "all hello").await;
    for client in &mut clients {
        assert_eq!(hear(client).await, Sent::text("hello"));
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_leaves_memory_while_its_client_stays_and_a_message_wakes_it() {
    let world = world(|host| host.configure(|c| c.objects.idle_timeout = SHORT)).await;
    let mut client = world.client().await;
    for life in 1..=3 {
        say(&mut client, "hello").await;
        assert_eq!(hear(&mut client).await, Sent::text("hello"));
        while world.notes.count("left") < life {
            tokio::task::yield_now().await;
        }
    }
    say(&mut client, "awake").await;
    assert_eq!(hear(&mut client).await, Sent::text("awake"));
    assert_eq!(world.notes.count("new"), 4);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_metrics_count_messages_and_bytes() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    say(&mut client, "12345").await;
    hear(&mut client).await;
    let admin = world.host.admin_addr().unwrap();
    // The recorder belongs to the process, and other tests count, too.
    let metrics = ask(admin, http::Method::GET, "/metrics").await.body;
    for name in [
        "abide_websockets_open",
        "abide_websocket_messages_received_total",
        "abide_websocket_messages_sent_total",
        "abide_websocket_received_bytes_total",
        "abide_websocket_sent_bytes_total",
        "abide_websocket_slow_readers_total",
    ] {
        assert!(metrics.contains(&format!("# HELP {name} ")), "{name}");
    }
    world.host.shutdown().await.unwrap();
}
