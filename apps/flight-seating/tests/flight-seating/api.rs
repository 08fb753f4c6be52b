//! The JSON API and the page, over HTTP against the real binary.

use crate::support::{occupant, program};
use abide_harness::Server;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use serde_json::json;

const FLIGHT: &str = "/flights/BA117/2026-12-01";

/// A server on an empty data directory, which ends with it.
fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    (program(&dir.path().join("data")).start(), dir)
}

#[tokio::test]
async fn a_new_seat_map_has_every_seat_free_in_the_order_of_the_cabin() {
    let (server, _dir) = server();
    let client = server.client();
    let made = client
        .put(FLIGHT, &json!({ "rows": 2, "columns": "AC" }))
        .await;
    assert_eq!(made.status, StatusCode::CREATED);
    let read = client.get(FLIGHT).await;
    assert_eq!(read.status, StatusCode::OK);
    assert_eq!(
        read.body["seats"],
        json!([
            { "seat": "1A", "occupant": null },
            { "seat": "1C", "occupant": null },
            { "seat": "2A", "occupant": null },
            { "seat": "2C", "occupant": null },
        ])
    );
    assert_eq!(read.body, made.body);
}

#[tokio::test]
async fn the_same_seat_map_again_changes_nothing_and_another_is_refused() {
    let (server, _dir) = server();
    let client = server.client();
    let map = json!({ "rows": 30, "columns": "ABCDEF" });
    assert_eq!(client.put(FLIGHT, &map).await.status, StatusCode::CREATED);
    client
        .post(
            &format!("{FLIGHT}/seats/14C"),
            &json!({ "occupant": "ada" }),
        )
        .await;
    let again = client.put(FLIGHT, &map).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(occupant(&again, "14C"), Some("ada"));
    let other = client
        .put(FLIGHT, &json!({ "rows": 31, "columns": "ABCDEF" }))
        .await;
    assert_eq!(
        (other.status, other.code()),
        (StatusCode::CONFLICT, "other_seat_map")
    );
}

#[tokio::test]
async fn a_seat_goes_to_the_first_who_asks() {
    let (server, _dir) = server();
    let client = server.client();
    client
        .put(FLIGHT, &json!({ "rows": 30, "columns": "ABCDEF" }))
        .await;
    let seat = format!("{FLIGHT}/seats/14C");
    let first = client.post(&seat, &json!({ "occupant": "ada" })).await;
    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(
        first.body,
        json!({ "seat": "14C", "occupant": "ada", "moved_from": null })
    );
    let second = client.post(&seat, &json!({ "occupant": "grace" })).await;
    assert_eq!(
        (second.status, second.code()),
        (StatusCode::CONFLICT, "seat_taken")
    );
    let repeated = client.post(&seat, &json!({ "occupant": "ada" })).await;
    assert_eq!(
        repeated.status,
        StatusCode::OK,
        "what one has already is no conflict"
    );
    assert_eq!(occupant(&client.get(FLIGHT).await, "14C"), Some("ada"));
}

#[tokio::test]
async fn who_takes_another_seat_leaves_the_old_one() {
    let (server, _dir) = server();
    let client = server.client();
    client
        .put(FLIGHT, &json!({ "rows": 30, "columns": "ABCDEF" }))
        .await;
    client
        .post(
            &format!("{FLIGHT}/seats/14C"),
            &json!({ "occupant": "ada" }),
        )
        .await;
    let moved = client
        .post(
            &format!("{FLIGHT}/seats/1a"),
            &json!({ "occupant": " ada " }),
        )
        .await;
    assert_eq!(
        moved.body,
        json!({ "seat": "1A", "occupant": "ada", "moved_from": "14C" })
    );
    let read = client.get(FLIGHT).await;
    assert_eq!(
        (occupant(&read, "1A"), occupant(&read, "14C")),
        (Some("ada"), None)
    );
}

#[tokio::test]
async fn who_is_refused_a_taken_seat_keeps_their_own() {
    let (server, _dir) = server();
    let client = server.client();
    client
        .put(FLIGHT, &json!({ "rows": 1, "columns": "AB" }))
        .await;
    client
        .post(&format!("{FLIGHT}/seats/1A"), &json!({ "occupant": "ada" }))
        .await;
    client
        .post(
            &format!("{FLIGHT}/seats/1B"),
            &json!({ "occupant": "grace" }),
        )
        .await;
    let refused = client
        .post(
            &format!("{FLIGHT}/seats/1A"),
            &json!({ "occupant": "grace" }),
        )
        .await;
    assert_eq!(refused.code(), "seat_taken");
    let read = client.get(FLIGHT).await;
    assert_eq!(
        (occupant(&read, "1A"), occupant(&read, "1B")),
        (Some("ada"), Some("grace"))
    );
}

#[tokio::test]
async fn what_does_not_exist_is_404() {
    let (server, _dir) = server();
    let client = server.client();
    let read = client.get(FLIGHT).await;
    assert_eq!(
        (read.status, read.code()),
        (StatusCode::NOT_FOUND, "no_seat_map")
    );
    let early = client
        .post(&format!("{FLIGHT}/seats/1A"), &json!({ "occupant": "ada" }))
        .await;
    assert_eq!(
        (early.status, early.code()),
        (StatusCode::NOT_FOUND, "no_seat_map")
    );
    client
        .put(FLIGHT, &json!({ "rows": 30, "columns": "ABCDEF" }))
        .await;
    for seat in ["31A", "1G", "0A", "14", "%20", "14C%2F"] {
        let answer = client
            .post(
                &format!("{FLIGHT}/seats/{seat}"),
                &json!({ "occupant": "ada" }),
            )
            .await;
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::NOT_FOUND, "no_such_seat"),
            "{seat}"
        );
    }
    let elsewhere = client.get("/elsewhere").await;
    assert_eq!(
        (elsewhere.status, elsewhere.code()),
        (StatusCode::NOT_FOUND, "not_found")
    );
}

#[tokio::test]
async fn flights_and_dates_do_not_touch_each_other() {
    let (server, _dir) = server();
    let client = server.client();
    for flight in [
        "/flights/BA117/2026-12-01",
        "/flights/BA117/2026-12-02",
        "/flights/BA118/2026-12-01",
    ] {
        let made = client
            .put(flight, &json!({ "rows": 1, "columns": "A" }))
            .await;
        assert_eq!(made.status, StatusCode::CREATED);
    }
    client
        .post(
            "/flights/BA117/2026-12-01/seats/1A",
            &json!({ "occupant": "ada" }),
        )
        .await;
    assert_eq!(
        occupant(&client.get("/flights/ba117/2026-12-01").await, "1A"),
        Some("ada"),
        "case does not matter"
    );
    assert_eq!(
        occupant(&client.get("/flights/BA117/2026-12-02").await, "1A"),
        None
    );
    assert_eq!(
        occupant(&client.get("/flights/BA118/2026-12-01").await, "1A"),
        None
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_who_want_one_seat_exactly_one_gets_it() {
    let (server, _dir) = server();
    let client = server.client();
    client
        .put(FLIGHT, &json!({ "rows": 30, "columns": "ABCDEF" }))
        .await;
    let wishes = (0..200).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let occupant = format!("passenger {number}");
            let answer = client
                .post(
                    &format!("{FLIGHT}/seats/14C"),
                    &json!({ "occupant": occupant }),
                )
                .await;
            (occupant, answer)
        })
    });
    let mut winners = Vec::new();
    for wish in wishes.collect::<Vec<_>>() {
        let (occupant, answer) = wish.await.unwrap();
        match answer.status {
            StatusCode::OK => winners.push(occupant),
            StatusCode::CONFLICT => assert_eq!(answer.code(), "seat_taken"),
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(
        occupant(&client.get(FLIGHT).await, "14C"),
        Some(winners[0].as_str())
    );
}

#[tokio::test]
async fn http2_is_spoken_on_the_same_port() {
    let (server, _dir) = server();
    let made = server
        .http2_client()
        .put(FLIGHT, &json!({ "rows": 1, "columns": "A" }))
        .await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(server.client().get(FLIGHT).await.status, StatusCode::OK);
}

#[tokio::test]
async fn browsers_get_the_page_and_programs_the_json() {
    let (server, _dir) = server();
    let client = server.client();
    client
        .put(FLIGHT, &json!({ "rows": 1, "columns": "A" }))
        .await;
    for path in ["/", FLIGHT] {
        let request = Request::get(client.url(path))
            .header(header::ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8")
            .body(Full::<Bytes>::default())
            .unwrap();
        let page = client.send(request).await.unwrap();
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(
            page.headers[header::CONTENT_TYPE],
            "text/html; charset=utf-8"
        );
        assert!(page.body.as_str().unwrap().starts_with("<!doctype html>"));
    }
    let json = client.get(FLIGHT).await;
    assert_eq!(json.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(json.headers[header::VARY], "Accept");
}

#[tokio::test]
async fn seats_survive_a_clean_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    client
        .put(FLIGHT, &json!({ "rows": 30, "columns": "ABCDEF" }))
        .await;
    client
        .post(
            &format!("{FLIGHT}/seats/14C"),
            &json!({ "occupant": "ada" }),
        )
        .await;
    drop(client);
    assert!(server.stop().success());
    let server = program(&data).start();
    assert_eq!(
        occupant(&server.client().get(FLIGHT).await, "14C"),
        Some("ada")
    );
}
