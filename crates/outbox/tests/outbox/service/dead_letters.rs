//! Dead letters: edited, redriven, discarded.

use abide::outbox::{GiveUp, OutboxOptions};
use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::service::support::{Api, note};

#[tokio::test]
async fn a_dead_letter_that_was_edited_keeps_its_dedup_key_for_what_it_was() {
    let api = Api::start(OutboxOptions::default()).await;
    let path = "/outbox/box/messages";
    let bad = json!({ "kind": "note", "payload": { "good": false }, "dedup_key": "one" });
    api.post(path, &bad).await;
    api.until(1, "failed").await;
    let good = json!({ "good": true }).to_string();
    api.ask(Method::PUT, "/outbox/box/messages/1/payload", &good)
        .await;
    // Its producer had no answer, and asks again.
    let again = api.post(path, &bad).await;
    assert_eq!(again.body, json!({ "id": 1, "duplicate": true }));
    api.stop().await;
}

#[tokio::test]
async fn a_dead_letter_is_edited_and_redriven_or_discarded() {
    let api = Api::start(OutboxOptions::default()).await;
    for _ in 0..3 {
        api.post("/outbox/box/messages", &note(false)).await;
    }
    let failed = api.until(1, "failed").await;
    assert_eq!(failed["last_error"], "it is unwanted");
    for id in [2, 3] {
        api.until(id, "failed").await;
    }
    let of_kind = api
        .get("/outbox/box/dead-letters?kind=note&limit=2")
        .await
        .body;
    assert_eq!(of_kind["messages"].as_array().unwrap().len(), 2);
    assert_eq!(of_kind["next"], 2);
    let none = api
        .get("/outbox/box/dead-letters?destination=elsewhere")
        .await
        .body;
    assert_eq!(none["messages"], json!([]));

    let bad = json!({ "good": "maybe" }).to_string();
    let refused = api
        .ask(Method::PUT, "/outbox/box/messages/1/payload", &bad)
        .await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "invalid_message")
    );
    let good = json!({ "good": true }).to_string();
    let edited = api
        .ask(Method::PUT, "/outbox/box/messages/1/payload", &good)
        .await;
    assert_eq!(
        (edited.status, &edited.body["status"]),
        (StatusCode::OK, &json!("failed"))
    );
    let redriven = api
        .ask(Method::POST, "/outbox/box/messages/1/redrive", "")
        .await;
    assert_eq!(
        (redriven.status, &redriven.body["status"]),
        (StatusCode::OK, &json!("queued"))
    );
    api.until(1, "sent").await;

    let discarded = api.ask(Method::DELETE, "/outbox/box/messages/2", "").await;
    assert_eq!(discarded.body["status"], "discarded");
    let swept = api
        .post("/outbox/box/redrive", &json!({ "kind": "note" }))
        .await;
    assert_eq!(swept.body, json!({ "count": 1, "more": false, "last": 3 }));
    api.until(3, "failed").await;
    let swept = api.post("/outbox/box/discard", &json!({})).await;
    assert_eq!(swept.body, json!({ "count": 1, "more": false, "last": 3 }));
    let counts = &api.get("/outbox/box").await.body["counts"];
    assert_eq!(
        (&counts["failed"], &counts["discarded"]),
        (&json!(0), &json!(2))
    );
    api.stop().await;
}

#[tokio::test]
async fn what_is_failing_is_listed_with_its_destinations() {
    let api = Api::start(OutboxOptions::default().give_up(GiveUp::Never)).await;
    let none = api.get("/outbox/box/failing").await.body;
    let nothing = json!({ "destinations": [], "messages": [], "next": null });
    assert_eq!(none, nothing, "an outbox that is not there");
    for _ in 0..2 {
        api.post("/outbox/box/messages", &note(false)).await;
    }
    let failing = abide_harness::until("both to fail", async || {
        let failing = api.get("/outbox/box/failing").await.body;
        (failing["messages"].as_array()?.len() == 2).then_some(failing)
    })
    .await;
    assert_eq!(failing["messages"][0]["id"], 2);
    assert_eq!(failing["messages"][0]["status"], "queued");
    assert_eq!(failing["messages"][0]["last_error"], "it is unwanted");
    let first = api.get("/outbox/box/failing?limit=1").await.body;
    assert_eq!(first["next"], 2);
    let next = api.get("/outbox/box/failing?limit=1&before=2").await.body;
    assert_eq!(
        (&next["messages"][0]["id"], &next["next"]),
        (&json!(1), &json!(null))
    );
    let refused = api.get("/outbox/box/failing?limit=0").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    api.stop().await;
}
