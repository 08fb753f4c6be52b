//! Rooms as their screens and controllers see them.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::time::Duration;

use crate::support::{Player, make, program};
use abide_harness::until;
use game_rooms::limits;
use http::Method;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_is_found_by_its_code_in_either_case() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let room = make(&client).await;
    let code = &room.code;
    assert_eq!(code.len(), 4);
    assert!(room.record["createdAt"].as_i64().unwrap() > 1_700_000_000_000);
    for code in [code.clone(), code.to_lowercase()] {
        let found = client.get(&format!("/rooms/{code}")).await;
        assert_eq!(found.status, 200);
        // Nothing of the secret is in it.
        assert_eq!(found.body, serde_json::json!({ "room": room.record }));
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
async fn players_send_to_the_screen_and_the_screen_to_all_players() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let (client, address) = (server.client(), server.address());
    let (room, elsewhere) = (make(&client).await, make(&client).await);
    let mut host = Player::host(address, &room).await;
    let mut peers = [
        Player::peer(address, &room, 1).await,
        Player::peer(address, &room, 2).await,
    ];
    let mut stranger = Player::host(address, &elsewhere).await;
    host.sees(true, &[1, 2]).await;
    peers[0].sees(true, &[1, 2]).await;

    for number in 0..50 {
        peers[0].send(format!("reading {number}")).await;
    }
    peers[0].send(vec![0_u8, 255]).await;
    for number in 0..50 {
        assert_eq!(host.text().await, format!("1 reading {number}"));
    }
    let bytes = Message::from(b"1 \x00\xff".to_vec());
    assert_eq!(host.hear().await.unwrap(), bytes);
    // A player can pass for neither another nor the room.
    peers[1].send("1 forged").await;
    assert_eq!(host.text().await, "2 1 forged");
    peers[1].send("{\"room\":{}}").await;
    assert_eq!(host.text().await, "2 {\"room\":{}}");

    host.send("score 1").await;
    for peer in &mut peers {
        // Nothing of the other player has come before it.
        assert_eq!(peer.text().await, "score 1");
    }
    // Nothing comes back to its sender.
    peers[1].send("end").await;
    assert_eq!(host.text().await, "2 end");
    host.leave().await;
    peers[1].sees(false, &[1, 2]).await;
    stranger.sees(true, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socket_without_the_secret_cannot_become_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let (client, address) = (server.client(), server.address());
    let (room, other) = (make(&client).await, make(&client).await);
    let mut peer = Player::peer(address, &room, 1).await;
    peer.sees(false, &[1]).await;
    // Neither while there is no screen, nor while there is one.
    for turn in 0..2 {
        let mut thief = Player::enter(address, &room.id, "host", &"0".repeat(32)).await;
        let (code, reason) = thief.closed().await;
        assert_eq!(code, 4_001, "{turn}");
        assert!(reason.contains("another secret"), "{reason}");
        if turn == 0 {
            let mut host = Player::host(address, &room).await;
            host.sees(true, &[1]).await;
            peer.send("hello").await;
            assert_eq!(host.text().await, "1 hello");
            let mut wrong =
                Player::enter(address, &other.id, "host", "f".repeat(32).as_str()).await;
            assert_eq!(wrong.closed().await.0, 4_001);
            host.send("still here").await;
            assert_eq!(peer.text().await, "still here");
        }
    }
    let paths = [
        ("/sockets/x?role=peer".to_owned(), "invalid_room"),
        (format!("/sockets/{}?role=peer", room.id), "invalid_secret"),
        (format!("/sockets/{}?role=host", room.id), "invalid_secret"),
    ];
    for (path, expected) in paths {
        let refused = client.get(&path).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, expected));
    }
    for query in ["", "?role=king"] {
        let path = format!("/sockets/{}{query}", room.id);
        assert_eq!(client.get(&path).await.status, 400, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloaded_screen_takes_its_place_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let address = server.address();
    let room = make(&server.client()).await;
    let mut before = Player::host(address, &room).await;
    let mut peer = Player::peer(address, &room, 1).await;
    before.sees(true, &[1]).await;
    let mut after = Player::host(address, &room).await;
    let (code, reason) = before.closed().await;
    assert_eq!(
        (code, reason.as_str()),
        (4_002, "Another window has taken this place.")
    );
    after.sees(true, &[1]).await;
    peer.send("only once").await;
    assert_eq!(after.text().await, "1 only once");
    after.send("from the new").await;
    assert_eq!(peer.text().await, "from the new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloaded_phone_is_the_same_player_and_replaces_its_first_socket() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let address = server.address();
    let room = make(&server.client()).await;
    let mut host = Player::host(address, &room).await;
    let mut first = Player::peer(address, &room, 7).await;
    assert_eq!(first.number().await, 1);
    let mut other = Player::peer(address, &room, 8).await;
    assert_eq!(other.number().await, 2);
    // The same secret once more.
    let mut second = Player::peer(address, &room, 7).await;
    assert_eq!(second.number().await, 1);
    let (code, reason) = first.closed().await;
    assert_eq!(
        (code, reason.as_str()),
        (4_002, "Another window has taken this place.")
    );
    second.send("here").await;
    assert_eq!(host.text().await, "1 here");
    // A phone that loses the network says nothing.
    drop(second);
    host.sees(true, &[2]).await;
    let mut third = Player::peer(address, &room, 7).await;
    assert_eq!(third.number().await, 1);
    host.sees(true, &[1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleeping_room_relays_and_knows_its_players() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "100ms")
        .start();
    let (admin, address) = (server.admin_client(), server.address());
    let asleep = async || {
        until("the room to leave memory", async || {
            (admin.metric("abide_objects_resident").await == 0).then_some(())
        })
        .await;
    };
    let room = make(&server.client()).await;
    let mut host = Player::host(address, &room).await;
    let mut peer = Player::peer(address, &room, 1).await;
    let mut other = Player::peer(address, &room, 2).await;
    assert_eq!(other.number().await, 2);
    host.sees(true, &[1, 2]).await;
    asleep().await;
    // The gateway answers this one, and the room sleeps on.
    peer.send("ping").await;
    assert_eq!(peer.text().await, "pong");
    assert_eq!(admin.metric("abide_objects_resident").await, 0);
    peer.send("after a while").await;
    assert_eq!(host.text().await, "1 after a while");
    asleep().await;
    let mut again = Player::peer(address, &room, 2).await;
    assert_eq!(again.number().await, 2);
    assert_eq!(other.closed().await.0, 4_002);
    asleep().await;
    let _host = Player::host(address, &room).await;
    assert_eq!(host.closed().await.0, 4_002);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn screen_and_players_come_back_to_their_places_after_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let room = make(&server.client()).await;
    let mut host = Player::host(server.address(), &room).await;
    let mut players = Vec::new();
    for number in 1..=3 {
        let mut player = Player::peer(server.address(), &room, number).await;
        assert_eq!(player.number().await, u64::from(number));
        players.push(player);
    }
    server.kill();
    while let Some(last) = host.hear().await {
        assert!(last.is_close(), "{last:?}");
    }

    let server = program(&data).start();
    let (client, address) = (server.client(), server.address());
    let found = client.get(&format!("/rooms/{}", room.code)).await;
    assert_eq!(found.body["room"], room.record);
    // In another order.
    let mut players = Vec::new();
    for number in [3, 1, 2] {
        let mut player = Player::peer(address, &room, number).await;
        assert_eq!(player.number().await, u64::from(number));
        players.push(player);
    }
    let mut thief = Player::enter(address, &room.id, "host", &"0".repeat(32)).await;
    assert_eq!(thief.closed().await.0, 4_001);
    let mut host = Player::host(address, &room).await;
    host.sees(true, &[1, 2, 3]).await;
    players[0].send("on we go").await;
    assert_eq!(host.text().await, "3 on we go");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_beyond_its_rooms_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--rooms-per-client=2")
        .start();
    let client = server.client();
    make(&client).await;
    make(&client).await;
    let refused = client.post("/rooms", &serde_json::json!({})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (429, "too_many_rooms")
    );
    assert_eq!(refused.headers["retry-after"], "600");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_flood_or_send_too_much_are_closed_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--messages-per-second=20")
        .start();
    let address = server.address();
    let room = make(&server.client()).await;
    let mut host = Player::host(address, &room).await;

    let mut large = Player::peer(address, &room, 1).await;
    let most = limits::MESSAGE_BYTES as usize;
    large.send("x".repeat(most)).await;
    assert_eq!(host.text().await.len(), "1 ".len() + most);
    large.send("x".repeat(most + 1)).await;
    let (code, reason) = large.closed().await;
    assert_eq!(code, 1_009);
    assert!(reason.contains("4096 bytes"), "{reason}");
    let mut huge = Player::peer(address, &room, 2).await;
    huge.send("x".repeat(limits::GATEWAY_MESSAGE_BYTES as usize + 1))
        .await;
    assert_eq!(huge.closed().await.0, 1_009);

    let mut flood = Player::peer(address, &room, 3).await;
    // What two hundred took is far from the ten seconds in which they may be sent.
    for number in 0..1_000 {
        flood.send(format!("{number}")).await;
    }
    let (code, reason) = flood.closed().await;
    assert_eq!(code, 4_003);
    assert!(reason.contains("20 messages per second"), "{reason}");
    host.sees(true, &[]).await;
    let mut calm = Player::peer(address, &room, 4).await;
    calm.send("calm").await;
    let calm = async {
        loop {
            let text = host.text().await;
            if text == "4 calm" {
                return text;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), calm)
        .await
        .unwrap();
}
