//! Flights that are closed, and those who watch.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{occupant, program};
use abide_harness::{Client, Random, Server, in_time, setting};
use flight_seating::{Closed, News, Seat};
use futures_util::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::{net::TcpStream, task::JoinSet};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{self, Message, client::IntoClientRequest, http::HeaderValue},
};

/// It has departed long ago.
const FLIGHT: &str = "/flights/BA117/2020-12-01";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn watch(server: &Server, flight: &str) -> tungstenite::Result<Socket> {
    let url = format!("ws://{}{flight}/live", server.address());
    connect_async(url).await.map(|(socket, _)| socket)
}

/// What a socket hears next; nothing if it has ended.
async fn hear(socket: &mut Socket) -> Option<News> {
    let next = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    };
    in_time("news", next).await
}

fn seat(seat: &str, occupant: Option<&str>) -> Seat {
    Seat {
        seat: seat.to_owned(),
        occupant: occupant.map(str::to_owned),
    }
}

async fn sits(client: &Client, flight: &str, seat: &str, occupant: &str) {
    let path = format!("{flight}/seats/{seat}");
    let answer = client.post(&path, &json!({ "occupant": occupant })).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_receive_each_change_from_a_hibernated_object() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "50ms")
        .start();
    let client = server.client();
    assert!(watch(&server, FLIGHT).await.is_err(), "there is no flight");
    let map = json!({ "rows": 1, "columns": "AB" });
    client.put(FLIGHT, &map).await;
    let mut socket = watch(&server, FLIGHT).await.unwrap();
    let free = News::Seats(vec![seat("1A", None), seat("1B", None)]);
    assert_eq!(hear(&mut socket).await, Some(free));
    let admin = server.admin_client();
    abide_harness::until("the objects to leave memory", async || {
        (admin.metric("abide_objects_resident").await == 0).then_some(())
    })
    .await;
    socket.send(Message::text("ping")).await.unwrap();
    let pong = in_time("an answer", socket.next()).await.unwrap().unwrap();
    assert_eq!(pong.to_text().unwrap(), "pong");
    assert_eq!(admin.metric("abide_objects_resident").await, 0);

    sits(&client, FLIGHT, "1A", "ada").await;
    let taken = News::Changed(vec![seat("1A", Some("ada"))]);
    assert_eq!(hear(&mut socket).await, Some(taken));
    sits(&client, FLIGHT, "1B", "ada").await;
    let moved = News::Changed(vec![seat("1A", None), seat("1B", Some("ada"))]);
    assert_eq!(hear(&mut socket).await, Some(moved));
    let closed = client
        .ask(Method::POST, &format!("{FLIGHT}/close"), "")
        .await;
    assert_eq!(closed.status, StatusCode::OK, "{closed:?}");
    let at = closed.body["closed_at"].as_u64().unwrap();
    assert_eq!(hear(&mut socket).await, Some(News::Closed(at)));
    assert_eq!(hear(&mut socket).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_stranger_cannot_watch() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let map = json!({ "rows": 1, "columns": "AB" });
    server.client().put(FLIGHT, &map).await;
    let url = format!("ws://{}{FLIGHT}/live", server.address());
    let mut request = url.into_client_request().unwrap();
    let evil = HeaderValue::from_static("https://evil.example");
    request.headers_mut().insert("origin", evil);
    match connect_async(request).await {
        Err(tungstenite::Error::Http(answer)) => assert_eq!(answer.status(), 403),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_flight_stays_readable_and_changes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let map = json!({ "rows": 2, "columns": "AB" });
    let close = format!("{FLIGHT}/close");
    let none = client.ask(Method::POST, &close, "").await;
    assert_eq!(none.code(), "no_seat_map");
    client.put(FLIGHT, &map).await;
    sits(&client, FLIGHT, "2B", "ada").await;
    let before = client.get(FLIGHT).await.body;
    let closed = client.ask(Method::POST, &close, "").await;
    assert_eq!(closed.status, StatusCode::OK, "{closed:?}");
    assert_eq!(closed.body["seats"], before["seats"]);
    let document: Closed = serde_json::from_value(closed.body.clone()).unwrap();
    assert_eq!(
        (&*document.flight, &*document.date),
        ("BA117", "2020-12-01")
    );

    for _ in 0..2 {
        let read = client.get(FLIGHT).await;
        assert_eq!(read.status, StatusCode::OK);
        assert_eq!(read.headers["content-type"], "application/json");
        assert_eq!(read.body, closed.body);
        let again = client.ask(Method::POST, &close, "").await;
        assert_eq!(again.body, closed.body, "closing it again changes nothing");
    }
    let conflict = (StatusCode::CONFLICT, "flight_closed");
    let made = client.put(FLIGHT, &map).await;
    assert_eq!((made.status, made.code()), conflict);
    let taken = client
        .post(
            &format!("{FLIGHT}/seats/1A"),
            &json!({ "occupant": "grace" }),
        )
        .await;
    assert_eq!((taken.status, taken.code()), conflict);
    assert!(watch(&server, FLIGHT).await.is_err());
    drop(client);
    assert!(server.stop().success());
    let server = program(&data).start();
    assert_eq!(server.client().get(FLIGHT).await.body, closed.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_that_has_not_departed_is_not_closed() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let flight = "/flights/BA117/9999-12-31";
    client
        .put(flight, &json!({ "rows": 1, "columns": "A" }))
        .await;
    let refused = client
        .ask(Method::POST, &format!("{flight}/close"), "")
        .await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::CONFLICT, "not_departed")
    );
    sits(&client, flight, "1A", "ada").await;
}

/// `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the sequence of moments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_while_flights_are_closed_lose_no_seat_map() {
    const FLIGHTS: u32 = 12;
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3);
    let mut random = Random::new(setting("ABIDE_CRASH_SEED", 0xC105));
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for round in 0..rounds {
        let server = program(&data).start();
        let client = server.client();
        let flights: Vec<String> = (0..FLIGHTS)
            .map(|flight| format!("/flights/R{round}-{flight}/2020-12-01"))
            .collect();
        for flight in &flights {
            client
                .put(flight, &json!({ "rows": 1, "columns": "AB" }))
                .await;
            sits(&client, flight, "1B", flight).await;
        }
        let mut closing = JoinSet::new();
        for flight in &flights {
            let (client, path) = (server.client(), format!("{flight}/close"));
            closing.spawn(async move { client.try_ask(Method::POST, &path, "").await.is_ok() });
        }
        for _ in 0..random.below(FLIGHTS) {
            closing.join_next().await;
        }
        server.kill();
        closing.join_all().await;

        let server = program(&data).start();
        let client = server.client();
        for flight in &flights {
            let read = client.get(flight).await;
            assert_eq!(occupant(&read, "1B"), Some(flight.as_str()), "{read:?}");
            let closed = client
                .ask(Method::POST, &format!("{flight}/close"), "")
                .await;
            assert_eq!(closed.status, StatusCode::OK, "{closed:?}");
            assert_eq!(occupant(&closed, "1B"), Some(flight.as_str()));
            assert_eq!(client.get(flight).await.body, closed.body);
        }
        assert!(server.stop().success());
    }
}
