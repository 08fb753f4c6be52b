//! Rooms over real WebSockets, against the real binary.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{Guest, asleep, program};
use abide_harness::Server;
use chat::ToClient;
use http::StatusCode;
use tokio_tungstenite::{
    connect_async,
    tungstenite::{self, client::IntoClientRequest},
};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (program(&dir.path().join("data")).start(), dir)
}

#[tokio::test]
async fn all_members_receive_messages_in_order() {
    let (server, _dir) = server();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    assert_eq!(ada.welcome().await, (vec![], vec!["ada".to_owned()]));
    let mut grace = Guest::enter(&server, "LOBBY", "grace", 0).await;
    assert_eq!(grace.welcome().await.1, ["ada", "grace"]);
    assert_eq!(ada.present().await, ["ada", "grace"]);
    for turn in 0..3 {
        ada.say("from ada", &format!("a{turn}")).await.unwrap();
        grace.say("from grace", &format!("g{turn}")).await.unwrap();
    }
    let mut heard = (Vec::new(), Vec::new());
    for _ in 0..6 {
        heard.0.push(ada.said().await);
        heard.1.push(grace.said().await);
    }
    assert_eq!(heard.0, heard.1);
    let ids: Vec<i64> = heard.0.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn who_comes_back_is_shown_what_they_missed_and_no_more() {
    let (server, _dir) = server();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    ada.welcome().await;
    for turn in 1..=4 {
        ada.say(&format!("number {turn}"), &turn.to_string())
            .await
            .unwrap();
        ada.said().await;
    }
    let mut grace = Guest::enter(&server, "lobby", "grace", 2).await;
    let (history, _) = grace.welcome().await;
    let texts: Vec<&str> = history.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["number 3", "number 4"]);
    let page = server
        .client()
        .get("/rooms/lobby/messages?before=3&limit=1")
        .await;
    assert_eq!(page.body["messages"][0]["text"], "number 2");
    assert_eq!(page.body["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_that_comes_twice_is_stored_once_and_acknowledged_twice() {
    let (server, _dir) = server();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    ada.welcome().await;
    ada.say("once", "same").await.unwrap();
    ada.say("once", "same").await.unwrap();
    assert_eq!(ada.said().await, ada.said().await);
    let all = server.client().get("/rooms/lobby/messages").await;
    assert_eq!(all.body["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn who_leaves_is_not_present_any_more() {
    let (server, _dir) = server();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    ada.welcome().await;
    let grace = Guest::enter(&server, "lobby", "grace", 0).await;
    assert_eq!(ada.present().await, ["ada", "grace"]);
    grace.leave().await;
    assert_eq!(ada.present().await, ["ada"]);
    // A line that breaks without a word.
    let grace = Guest::enter(&server, "lobby", "grace", 0).await;
    assert_eq!(ada.present().await, ["ada", "grace"]);
    drop(grace);
    assert_eq!(ada.present().await, ["ada"]);
}

#[tokio::test]
async fn an_address_over_its_rate_is_told_to_slow_down_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A burst of ten, and no more while the test runs.
    let server = program(&dir.path().join("data"))
        .arg("--burst=10")
        .arg("--refill-ms=3600000")
        .start();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    ada.welcome().await;
    for turn in 0..30 {
        ada.say("quick", &turn.to_string()).await.unwrap();
    }
    let (mut taken, mut slowed) = (Vec::new(), Vec::new());
    while taken.len() + slowed.len() < 30 {
        match ada.hear().await {
            Some(ToClient::Said(entry)) => taken.push(entry.mark),
            Some(ToClient::SlowDown { mark, wait }) => {
                assert!(wait > 0);
                slowed.push(mark);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((taken.len(), slowed.len()), (10, 20), "the burst is taken");
    // The limit is the address's, not the room's.
    let mut elsewhere = Guest::enter(&server, "other", "ada", 0).await;
    elsewhere.welcome().await;
    elsewhere.say("quick", "other").await.unwrap();
    let told = elsewhere.hear().await;
    assert!(matches!(told, Some(ToClient::SlowDown { .. })), "{told:?}");
}

#[tokio::test]
async fn addresses_of_one_ipv6_network_share_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__SERVER__TRUSTED_PROXIES", "127.0.0.1")
        .env("ABIDE__SERVER__ACCESS", "open")
        .arg("--burst=2")
        .arg("--refill-ms=3600000")
        .start();
    let say = async |address: &str| {
        let mut guest = Guest::enter_from(&server, "lobby", address).await;
        guest.welcome().await;
        guest.say("hi", address).await.unwrap();
        loop {
            match guest.hear().await {
                Some(ToClient::Said(entry)) if entry.mark == address => return true,
                Some(ToClient::SlowDown { .. }) => return false,
                Some(_) => {}
                None => panic!("the line has ended"),
            }
        }
    };
    assert!(say("2001:db8:0:1::1").await);
    assert!(say("2001:db8:0:1::2").await);
    assert!(!say("2001:db8:0:1::3").await, "the third of a network");
    assert!(say("2001:db8:0:2::1").await, "another network");
}

#[tokio::test]
async fn nonsense_is_refused_with_a_reason_and_the_line_stays() {
    let (server, _dir) = server();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    ada.welcome().await;
    for (nonsense, of) in [
        ("hello", None),
        (r#"{"type":"say","text":" ","mark":"7"}"#, Some("7")),
    ] {
        ada.send(nonsense).await.unwrap();
        let Some(ToClient::Refused { mark, .. }) = ada.hear().await else {
            panic!("{nonsense} was not refused");
        };
        assert_eq!(mark.as_deref(), of, "a page can tell which message it was");
    }
    ada.say("sense", "1").await.unwrap();
    assert_eq!(ada.said().await.text, "sense");
    let client = server.client();
    for path in ["/rooms/%20/messages", "/rooms/lobby/socket?name=%20"] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let no_upgrade = client.get("/rooms/lobby/socket?name=ada").await;
    assert_eq!(no_upgrade.status, StatusCode::UPGRADE_REQUIRED);
}

#[tokio::test]
async fn a_room_leaves_memory_between_messages_and_its_people_do_not_notice() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "50ms")
        .start();
    let admin = server.admin_client();
    let mut ada = Guest::enter(&server, "lobby", "ada", 0).await;
    ada.welcome().await;
    let mut grace = Guest::enter(&server, "lobby", "grace", 0).await;
    grace.welcome().await;
    for turn in 0..3 {
        ada.say("still here", &format!("a{turn}")).await.unwrap();
        assert_eq!(grace.said().await.mark, format!("a{turn}"));
        ada.said().await;
        asleep(&admin).await;
        let sleeping = admin.metric("abide_objects_evicted_total").await;
        ada.send("ping").await.unwrap();
        assert_eq!(ada.text().await.as_deref(), Some("pong"));
        assert_eq!(
            (
                admin.metric("abide_objects_resident").await,
                admin.metric("abide_objects_evicted_total").await
            ),
            (0, sleeping),
            "a ping wakes no object"
        );
    }
}

/// A web page elsewhere can open a WebSocket to any server, and its browser says whose page it is.
#[tokio::test]
async fn a_page_of_a_stranger_does_not_come_in() {
    let (server, _dir) = server();
    let address = server.address().to_owned();
    let enter = async |host: &str, origin: Option<&str>| {
        let url = format!("ws://{address}/rooms/lobby/socket?name=eve");
        let mut request = url.into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("host", host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        match connect_async(request).await {
            Ok(_) => 101,
            Err(tungstenite::Error::Http(answer)) => answer.status().as_u16(),
            Err(other) => panic!("{other}"),
        }
    };
    let own = format!("http://{address}");
    assert_eq!(enter(&address, Some(&own)).await, 101);
    assert_eq!(enter(&address, None).await, 101, "a program");
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(enter(&address, Some(origin)).await, 403, "{origin}");
    }
    // A stranger's name that leads here.
    let evil = Some("http://evil.example");
    assert_eq!(enter("evil.example", evil).await, 403);
}
