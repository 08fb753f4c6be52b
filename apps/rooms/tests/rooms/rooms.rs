//! Rooms over real WebSockets, against the real binary: documents and channels, and what clients do wrong.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{Editor, closed, connect, program, text};
use abide_harness::{Client, Server, until};
use futures_util::SinkExt;
use http::{Method, StatusCode};
use serde_json::json;
use tokio_tungstenite::tungstenite::{self, Message};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (program(&dir.path().join("data")).start(), dir)
}

/// Waits until no object is in memory.
async fn asleep(admin: &Client) {
    until("the objects to leave memory", async || {
        (admin.metric("abide_objects_resident").await == 0).then_some(())
    })
    .await;
}

/// The HTTP status with which a WebSocket was refused.
fn refused<T: std::fmt::Debug>(result: tungstenite::Result<T>) -> StatusCode {
    match result {
        Err(tungstenite::Error::Http(response)) => response.status(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn editors_keep_writing_while_their_document_hibernates() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "50ms")
        .start();
    let admin = server.admin_client();
    let mut ada = Editor::connect(&server, "pad", 1).await;
    let mut grace = Editor::connect(&server, "pad", 2).await;
    let state = ada.client.state(r#"{"user":{"name":"ada"}}"#);
    ada.say(state).await;
    for turn in 0..3 {
        asleep(&admin).await;
        assert!(ada.insert(0, &turn.to_string()).await);
        while grace.client.length() < turn + 1 {
            assert!(grace.hear().await);
        }
    }
    assert_eq!(grace.client.text(), "210");
    assert!(grace.client.states.contains_key(&1));
    let away = ada.line.take();
    drop(away);
    while grace.client.states.contains_key(&1) {
        assert!(grace.hear().await);
    }
}

#[tokio::test]
async fn a_document_tells_how_it_stands() {
    let (server, _dir) = server();
    let mut ada = Editor::connect(&server, "pad", 1).await;
    assert!(ada.insert(0, "hello").await && ada.settle().await);
    let client = server.client();
    let status = client.get("/parties/main/pad").await;
    assert_eq!(status.body["connections"], 1);
    assert_eq!(status.body["updates"], 1);
    let other = client.get("/parties/main/pad/text").await;
    assert_eq!((other.status, other.body), (StatusCode::OK, json!("")));
    let refused = client.ask(Method::POST, "/parties/main/pad", "{}").await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.code(), "method_not_allowed");
}

#[tokio::test]
async fn invalid_messages_are_refused_with_a_reason_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--max-document-bytes=3000")
        .start();
    let mut ada = Editor::connect(&server, "pad", 1).await;
    assert!(ada.insert(0, "kept").await && ada.settle().await);
    let cases: Vec<(Message, u16, &str)> = vec![
        (
            Message::binary(vec![0, 2, 3, 9, 9, 9]),
            1007,
            "the update is malformed",
        ),
        (
            Message::binary(vec![0, 0, 200, 1]),
            1007,
            "the message is malformed",
        ),
        (
            Message::binary(vec![9]),
            1003,
            "messages of type 9 are unknown",
        ),
        (Message::text("hello"), 1003, "texts begin with __YPS:"),
        (
            // An update of 3,001 bytes.
            Message::binary([&[0, 2, 0xb9, 0x17][..], &[0; 3_001]].concat()),
            4413,
            "the document is full",
        ),
    ];
    for (message, code, reason) in cases {
        let mut eve = connect(server.address(), "main", "pad", "_pk=eve")
            .await
            .unwrap();
        eve.send(message).await.unwrap();
        let close = closed(&mut eve).await;
        assert_eq!(u16::from(close.code), code);
        assert!(close.reason.starts_with(reason), "{}", close.reason);
    }
    let mut grace = Editor::connect(&server, "pad", 2).await;
    for _ in 0..4 {
        grace.insert(0, &"x".repeat(900)).await;
    }
    let close = closed(grace.line.as_mut().unwrap()).await;
    assert_eq!(u16::from(close.code), 4413);
    let late = Editor::connect(&server, "pad", 3).await;
    assert_eq!(late.client.text().len(), 2_704, "what fitted was taken");
    assert!(late.client.text().ends_with("kept"));
}

#[tokio::test]
async fn a_full_room_and_invalid_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--max-connections=2")
        .start();
    let address = server.address();
    let _ada = connect(address, "main", "pad", "_pk=a").await.unwrap();
    let grace = connect(address, "main", "pad", "_pk=b").await.unwrap();
    let third = connect(address, "main", "pad", "_pk=c").await;
    assert_eq!(refused(third), StatusCode::SERVICE_UNAVAILABLE);
    drop(grace);
    until("a place in the room", async || {
        connect(address, "main", "pad", "_pk=c").await.ok()
    })
    .await;
    let long = "x".repeat(129);
    for (party, room, query, status) in [
        ("nothing", "pad", "_pk=a", 404),
        ("main", &*long, "_pk=a", 400),
        ("main", "other", &*format!("_pk={long}"), 400),
        ("main", "other", "_pk=", 400),
        (
            "main",
            "other",
            &*format!("_pk=a&x={}", "x".repeat(2_048)),
            414,
        ),
        ("channel", "other", "_pk=a&tag=", 400),
    ] {
        let answer = connect(address, party, room, query).await;
        assert_eq!(refused(answer).as_u16(), status, "{party} {room} {query}");
    }
    let unknown = server.client().get("/parties/nothing/pad").await;
    assert_eq!(unknown.code(), "no_such_party");
    let name = server.client().get(&format!("/d/{}", "x".repeat(41))).await;
    assert_eq!(name.code(), "invalid_name");
}

#[tokio::test]
async fn a_channel_passes_on_to_all_others_and_to_tags_and_announces_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "50ms")
        .start();
    let address = server.address();
    let (client, admin) = (server.client(), server.admin_client());
    let mut ada = connect(address, "channel", "lobby", "_pk=ada&tag=blue")
        .await
        .unwrap();
    let mut grace = connect(address, "channel", "lobby", "_pk=grace&tag=red")
        .await
        .unwrap();
    for turn in ["one", "two"] {
        asleep(&admin).await;
        ada.send(Message::text(turn)).await.unwrap();
        assert_eq!(text(&mut grace).await, turn);
    }
    grace.send(Message::text("hi")).await.unwrap();
    assert_eq!(text(&mut ada).await, "hi", "its own did not come back");
    let there = client.get("/parties/channel/lobby").await;
    let expected = json!({ "connections": [
        { "id": "ada", "tags": ["blue"], "messages": 2 }, { "id": "grace", "tags": ["red"], "messages": 1 },
    ] });
    assert_eq!(there.body, expected);
    let post = async |query: &str, body: &str| {
        let path = format!("/parties/channel/lobby{query}");
        client.ask(Method::POST, &path, body).await
    };
    assert_eq!(post("?tag=red", "to red").await.body, json!({ "sent": 1 }));
    assert_eq!(text(&mut grace).await, "to red");
    assert_eq!(post("", "to all").await.body, json!({ "sent": 2 }));
    assert_eq!(text(&mut ada).await, "to all");
    assert_eq!(text(&mut grace).await, "to all");
    assert_eq!(post("?in=1", "later").await.status, StatusCode::ACCEPTED);
    assert_eq!(text(&mut ada).await, "later");
    assert_eq!(post("?in=x", "later").await.code(), "invalid_query");
    let long = format!("?tag={}", "x".repeat(65));
    assert_eq!(post(&long, "to no one").await.code(), "invalid_tag");
    assert_eq!(post("?in=9999999", "later").await.code(), "invalid_delay");
    assert_eq!(
        post("", &"x".repeat(70_000)).await.code(),
        "message_too_long"
    );
    ada.send(Message::text("x".repeat(70_000))).await.unwrap();
    assert_eq!(u16::from(closed(&mut ada).await.code), 1009);
}

#[tokio::test]
async fn an_announcement_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let answer = server
        .client()
        .ask(Method::POST, "/parties/channel/lobby?in=2", "still here")
        .await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    server.kill();
    let server = program(&data).start();
    let mut ada = connect(server.address(), "channel", "lobby", "_pk=ada")
        .await
        .unwrap();
    assert_eq!(text(&mut ada).await, "still here");
}
