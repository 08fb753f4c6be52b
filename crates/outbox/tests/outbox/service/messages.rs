//! Messages: accepted, shown, listed, remembered by their keys.

use abide::outbox::OutboxOptions;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::service::support::{Api, note};

/// An outbox that holds one message.
async fn small() -> Api {
    Api::start(OutboxOptions::default().max_queued(1)).await
}

/// A message that waits for an hour.
fn later() -> Value {
    let mut later = note(true);
    later["delay"] = json!(3_600_000);
    later
}

#[tokio::test]
async fn a_message_is_taken_delivered_and_shown_with_its_history() {
    let api = Api::start(OutboxOptions::default()).await;
    let taken = api.post("/outbox/box/messages", &note(true)).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(taken.body, json!({ "id": 1, "duplicate": false }));
    assert_eq!(taken.headers[header::LOCATION], "/outbox/box/messages/1");
    let shown = api.until(1, "sent").await;
    assert_eq!(shown["payload"], json!({ "good": true }));
    assert_eq!(shown["summary"], "a note");
    assert_eq!(shown["attempts"], 1);
    assert!(shown["history"].as_array().unwrap().len() >= 3, "{shown}");
    let overview = api.get("/outbox/box").await.body;
    assert_eq!(overview["counts"]["sent"], 1);
    let other = api.get("/outbox/other").await.body;
    assert_eq!(other["counts"]["sent"], 0, "each name has its own");
    api.stop().await;
}

#[tokio::test]
async fn messages_of_one_request_are_all_taken_or_none_is() {
    let api = Api::start(OutboxOptions::default()).await;
    let bad = json!({ "kind": "note", "payload": { "good": "maybe" } });
    let refused = api
        .post("/outbox/box/messages", &json!([note(true), bad]))
        .await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "invalid_message")
    );
    let text = refused.body["error"]["message"].as_str().unwrap();
    assert!(text.contains("essages[1]"), "{text}");
    assert_eq!(
        api.get("/outbox/box/messages").await.body["messages"],
        json!([])
    );

    let taken = api
        .post(
            "/outbox/box/messages",
            &json!({ "messages": [note(true), note(true)] }),
        )
        .await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(taken.body["messages"].as_array().unwrap().len(), 2);
    let listed = api.get("/outbox/box/messages?limit=1").await.body;
    let newest = &taken.body["messages"][1]["id"];
    assert_eq!(
        (&listed["messages"][0]["id"], &listed["next"]),
        (newest, newest)
    );
    let next = api
        .get(&format!("/outbox/box/messages?limit=1&before={newest}"))
        .await
        .body;
    assert_eq!(next["messages"][0]["id"], taken.body["messages"][0]["id"]);
    assert_eq!(next["next"], Value::Null);
    api.stop().await;
}

#[tokio::test]
async fn a_request_with_an_idempotency_key_is_applied_once() {
    let api = Api::start(OutboxOptions::default()).await;
    let key = [("idempotency-key", "\"order 4711\"")];
    let path = "/outbox/box/messages";
    let body = json!({ "kind": "note", "payload": { "good": true }, "delay": 60_000 });
    let first = api.send(Method::POST, path, &key, &body.to_string()).await;
    let again = api.send(Method::POST, path, &key, &body.to_string()).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    assert_eq!(
        (again.status, &again.body, &again.headers[header::LOCATION]),
        (first.status, &first.body, &first.headers[header::LOCATION])
    );
    // Without the key, and with another, it is another request: the answers above came from the key.
    let next = [("idempotency-key", "\"order 4712\"")];
    for (headers, id) in [(&[][..], 2), (&next[..], 3)] {
        let another = api
            .send(Method::POST, path, headers, &body.to_string())
            .await;
        assert_eq!(another.body["id"], id);
    }
    let elsewhere = "/outbox/other/messages";
    let another = api
        .send(Method::POST, elsewhere, &key, &body.to_string())
        .await;
    assert_eq!(another.status, StatusCode::ACCEPTED, "a key is an outbox's");
    let other = api
        .send(Method::POST, path, &key, &note(true).to_string())
        .await;
    assert_eq!(
        (other.status, other.code()),
        (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")
    );
    let listed = api.get(path).await.body;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 3);
    let record = &listed["messages"][2];
    let wait = record["not_before"].as_i64().unwrap() - record["created_at"].as_i64().unwrap();
    assert!(
        (30_000..=60_000).contains(&wait),
        "from when it was enqueued: {record}"
    );
    api.stop().await;
}

#[tokio::test]
async fn a_full_outbox_says_so_and_remembers_no_refusal() {
    let api = small().await;
    let (path, later) = ("/outbox/box/messages", later());
    assert_eq!(api.post(path, &later).await.status, StatusCode::ACCEPTED);
    let key = [("idempotency-key", "second")];
    let full = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!(
        (full.status, full.code()),
        (StatusCode::SERVICE_UNAVAILABLE, "outbox_full")
    );
    assert!(full.headers.contains_key(header::RETRY_AFTER));
    let canceled = api.ask(Method::DELETE, "/outbox/box/messages/1", "").await;
    assert_eq!(canceled.body["status"], "canceled");
    let taken = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
    api.stop().await;
}

#[tokio::test]
async fn a_request_that_was_taken_is_answered_again_when_the_outbox_is_full() {
    let api = small().await;
    let (path, later) = ("/outbox/box/messages", later());
    let key = [("idempotency-key", "first")];
    let taken = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    let again = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!((again.status, &again.body), (taken.status, &taken.body));
    api.stop().await;
}

#[tokio::test]
async fn a_full_outbox_accepts_a_repeated_dedup_key() {
    let api = small().await;
    let path = "/outbox/box/messages";
    let mut later = later();
    later["dedup_key"] = json!("one");
    assert_eq!(api.post(path, &later).await.status, StatusCode::ACCEPTED);
    let again = api.post(path, &later).await;
    assert_eq!(again.body, json!({ "id": 1, "duplicate": true }));
    api.stop().await;
}

#[tokio::test]
async fn a_destination_that_rests_is_sent_to_again_if_it_is_known() {
    let api = Api::start(OutboxOptions::default()).await;
    let path = "/outbox/box/destinations/resume";
    let unknown = api.post(path, &json!({ "destination": "none" })).await;
    assert_eq!(
        (unknown.status, unknown.code()),
        (StatusCode::NOT_FOUND, "no_such_destination")
    );
    api.post("/outbox/box/messages", &later()).await;
    let overview = api.get("/outbox/box").await.body;
    let destination = &overview["destinations"][0]["destination"];
    let known = api.post(path, &json!({ "destination": destination })).await;
    assert_eq!(known.status, StatusCode::NO_CONTENT, "{known:?}");
    api.stop().await;
}

#[tokio::test]
async fn an_outbox_that_is_not_there_reads_as_an_empty_one() {
    let api = Api::start(OutboxOptions::default()).await;
    for (path, status) in [
        ("/outbox/box", StatusCode::OK),
        ("/outbox/box/messages", StatusCode::OK),
        ("/outbox/box/dead-letters", StatusCode::OK),
        ("/outbox/box/messages/1", StatusCode::NOT_FOUND),
        ("/outbox/box/page", StatusCode::OK),
        ("/outbox/box/live", StatusCode::UPGRADE_REQUIRED),
    ] {
        assert_eq!(api.get(path).await.status, status, "{path}");
    }
    let swept = api.post("/outbox/box/redrive", &json!({})).await;
    assert_eq!(swept.body["count"], 0, "{swept:?}");
    let none = api.ask(Method::DELETE, "/outbox/box/messages/1", "").await;
    assert_eq!(none.code(), "no_such_message");
    api.stop().await;
}

#[tokio::test]
async fn credentials_in_headers_are_never_shown() {
    let api = Api::start(OutboxOptions::default()).await;
    let payload = json!({ "good": false, "headers": { "Authorization": "Bearer hunter2" } });
    let message = json!({ "kind": "note", "payload": payload });
    api.post("/outbox/box/messages", &message).await;
    let failed = api.until(1, "failed").await;
    let mut shown = failed["payload"].clone();
    assert_eq!(shown["headers"]["Authorization"], "[redacted]");
    for path in [
        "",
        "/messages?status=failed",
        "/dead-letters",
        "/failing",
        "/page",
    ] {
        let view = api.get(&format!("/outbox/box{path}")).await;
        assert!(!view.body.to_string().contains("hunter2"), "{path}");
    }
    // A client that changes something else need not know it.
    shown["good"] = true.into();
    let path = "/outbox/box/messages/1/payload";
    let edited = api.ask(Method::PUT, path, &shown.to_string()).await;
    assert_eq!(edited.status, StatusCode::OK, "{edited:?}");
    api.post("/outbox/box/messages/1/redrive", &json!({})).await;
    api.until(1, "sent").await;
    api.stop().await;
}
