//! Rooms as their screens and controllers see them.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use abide_harness::until;
use http::Method;
use support::{Player, make, program};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_is_found_by_its_code_in_either_case_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let room = make(&client).await;
    let code = room["roomCode"].as_str().unwrap();
    assert_eq!(code.len(), 4);
    assert!(room["createdAt"].as_i64().unwrap() > 1_700_000_000_000);
    for code in [code.to_owned(), code.to_lowercase()] {
        let found = client.get(&format!("/rooms/{code}")).await;
        assert_eq!((found.status.as_u16(), &found.body["room"]), (200, &room));
    }
    let other = if code == "2222" { "3333" } else { "2222" };
    let missing = client.get(&format!("/rooms/{other}")).await;
    assert_eq!(
        (missing.status.as_u16(), missing.code()),
        (404, "no_such_room")
    );
    for bad in ["O000", "ABC", "ABCDE"] {
        let refused = client.get(&format!("/rooms/{bad}")).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code()),
            (400, "invalid_code"),
            "{bad}"
        );
    }
    assert_eq!(client.ask(Method::DELETE, "/rooms", "").await.status, 405);
    let picture = client
        .get(&format!(
            "/rooms/{code}/qr.svg?origin=https://games.example.com"
        ))
        .await;
    assert_eq!(picture.headers["content-type"], "image/svg+xml");
    let refused = client
        .get(&format!("/rooms/{code}/qr.svg?origin=nowhere"))
        .await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (400, "invalid_origin")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_peer_sends_goes_to_all_hosts_and_what_a_host_sends_to_all_peers() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let (client, address) = (server.client(), server.address());
    let (room, elsewhere) = (make(&client).await, make(&client).await);
    let id = room["durableObjectId"].as_str().unwrap();
    let mut hosts = [
        Player::enter(address, id, "host").await,
        Player::enter(address, id, "host").await,
    ];
    let mut peers = [
        Player::enter(address, id, "peer").await,
        Player::enter(address, id, "peer").await,
    ];
    let id = elsewhere["durableObjectId"].as_str().unwrap();
    let mut stranger = Player::enter(address, id, "host").await;
    hosts[0].sees(2, 2).await;
    peers[0].sees(2, 2).await;

    for number in 0..50 {
        peers[0].send(format!("reading {number}")).await;
    }
    peers[0].send(vec![0_u8, 255]).await;
    for host in &mut hosts {
        for number in 0..50 {
            assert_eq!(
                host.hear().await.unwrap().to_text().unwrap(),
                format!("reading {number}")
            );
        }
        assert_eq!(host.hear().await.unwrap(), Message::from(vec![0_u8, 255]));
    }
    hosts[1].send("score 1").await;
    for peer in &mut peers {
        // Nothing of the other peer has come before it.
        assert_eq!(peer.hear().await.unwrap().to_text().unwrap(), "score 1");
    }
    // Nothing has come to another room, and nothing comes back to whoever sent it.
    let [host, mut other] = hosts;
    other.send("score 2").await;
    peers[1].send("end").await;
    assert_eq!(other.hear().await.unwrap().to_text().unwrap(), "end");
    host.leave().await;
    other.sees(1, 2).await;
    stranger.sees(1, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_sleeps_while_nobody_sends_and_relays_the_next_message_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "100ms")
        .start();
    let room = make(&server.client()).await;
    let id = room["durableObjectId"].as_str().unwrap();
    let mut host = Player::enter(server.address(), id, "host").await;
    let mut peer = Player::enter(server.address(), id, "peer").await;
    host.sees(1, 1).await;
    let admin = server.admin_client();
    until("the room to leave memory", async || {
        (admin.metric("abide_objects_resident").await == 0).then_some(())
    })
    .await;
    peer.send("after a while").await;
    assert_eq!(
        host.hear().await.unwrap().to_text().unwrap(),
        "after a while"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_a_code_leads_to_its_room_and_those_who_come_again_play_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let room = make(&server.client()).await;
    let (id, code) = (
        room["durableObjectId"].as_str().unwrap(),
        room["roomCode"].as_str().unwrap(),
    );
    let mut host = Player::enter(server.address(), id, "host").await;
    server.kill();
    assert_eq!(host.hear().await, None, "the line ends with the process");

    let server = program(&data).start();
    let found = server.client().get(&format!("/rooms/{code}")).await;
    assert_eq!(found.body["room"], room);
    let mut host = Player::enter(server.address(), id, "host").await;
    let mut peer = Player::enter(server.address(), id, "peer").await;
    host.sees(1, 1).await;
    peer.send("on we go").await;
    assert_eq!(host.hear().await.unwrap().to_text().unwrap(), "on we go");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_and_too_large_are_turned_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let (client, address) = (server.client(), server.address());
    let room = make(&client).await;
    let id = room["durableObjectId"].as_str().unwrap();
    for path in [
        "/sockets/x?role=peer".to_owned(),
        format!("/sockets/{id}?role=king"),
        format!("/sockets/{id}"),
    ] {
        assert_eq!(client.get(&path).await.status, 400, "{path}");
    }
    let mut large = Player::enter(address, id, "peer").await;
    large
        .send("x".repeat(game_rooms::MAX_MESSAGE_BYTES + 1))
        .await;
    let closed = large.hear().await.unwrap();
    assert!(matches!(closed, Message::Close(Some(frame)) if u16::from(frame.code) == 1_009));
    drop(large);

    let room = make(&client).await;
    let id = room["durableObjectId"].as_str().unwrap();
    let mut players = Vec::new();
    for _ in 0..game_rooms::MAX_SOCKETS {
        players.push(Player::enter(address, id, "peer").await);
    }
    let mut extra = Player::enter(address, id, "host").await;
    let closed = extra.hear().await.unwrap();
    assert!(matches!(closed, Message::Close(Some(frame)) if u16::from(frame.code) == 4_000));
}
