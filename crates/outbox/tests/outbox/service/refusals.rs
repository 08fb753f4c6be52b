//! Refusals and their messages.

use abide::server::Hosts;
use abide::{
    outbox::service::{self, Delayed, Outbox},
    outbox::{OutboxMessage, OutboxOptions, limits},
};
use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use serde_json::json;
use tower::ServiceExt;

use crate::service::support::{Api, SIGNED, note};

#[tokio::test]
async fn invalid_requests_are_refused_with_the_reason() {
    let api = Api::start(OutboxOptions::default()).await;
    api.post("/outbox/box/messages", &note(true)).await;
    api.until(1, "sent").await;
    let messages = "/outbox/box/messages";
    let long = format!("/outbox/{}", "n".repeat(2_049));
    let get = Method::GET;
    let post = Method::POST;
    for (method, path, body, status, code) in [
        (
            &get,
            "/outbox/box/messages?limit=0",
            "",
            400,
            "invalid_query",
        ),
        (
            &get,
            "/outbox/box/messages?limit=1001",
            "",
            400,
            "invalid_query",
        ),
        (
            &get,
            "/outbox/box/messages?status=lost",
            "",
            400,
            "invalid_query",
        ),
        (
            &get,
            "/outbox/box/messages?color=red",
            "",
            400,
            "invalid_query",
        ),
        (&get, "/outbox/box/messages/one", "", 400, "invalid_path"),
        (&get, "/outbox/box/messages/9", "", 404, "no_such_message"),
        (&get, &long, "", 400, "limit_exceeded"),
        (
            &Method::DELETE,
            "/outbox/box/messages/9",
            "",
            404,
            "no_such_message",
        ),
        (
            &Method::DELETE,
            "/outbox/box/messages/1",
            "",
            409,
            "wrong_status",
        ),
        (
            &post,
            "/outbox/box/messages/1/redrive",
            "",
            409,
            "wrong_status",
        ),
        (
            &Method::PUT,
            "/outbox/box/messages/1/payload",
            "{\"good\":true}",
            409,
            "wrong_status",
        ),
        (
            &post,
            "/outbox/box/redrive",
            "{\"id\":1}",
            400,
            "invalid_body",
        ),
        (&post, messages, "{", 400, "malformed_json"),
        (&post, messages, "7", 400, "invalid_body"),
    ] {
        let answer = api.ask(method.clone(), path, body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{method} {path:.60}"
        );
    }
    let empty_key = [("idempotency-key", "")];
    let answer = api
        .send(post, messages, &empty_key, &note(true).to_string())
        .await;
    assert_eq!(answer.code(), "invalid_idempotency_key");
    api.stop().await;
}

#[tokio::test]
async fn an_undeliverable_message_is_refused() {
    let api = Api::start(OutboxOptions::default()).await;
    let large = "x".repeat(limits::MAX_PAYLOAD_BYTES);
    for (message, status, code) in [
        (json!({ "kind": "fax", "payload": 1 }), 400, "unknown_kind"),
        (
            json!({ "kind": "note", "payload": 1 }),
            400,
            "invalid_message",
        ),
        (
            json!({ "kind": "note", "payload": { "good": true }, "delay": 1, "not_before": 1 }),
            400,
            "invalid_message",
        ),
        (
            json!({ "kind": "note", "payload": { "good": true }, "dedup_key": "x".repeat(256) }),
            400,
            "invalid_message",
        ),
        (
            json!({ "kind": "note", "payload": large }),
            413,
            "payload_too_large",
        ),
    ] {
        let answer = api.post("/outbox/box/messages", &message).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{answer:?}"
        );
    }
    assert_eq!(api.get("/outbox/box").await.body["counts"]["queued"], 0);
    api.stop().await;
}

#[tokio::test]
async fn a_web_page_of_another_origin_is_refused() {
    let api = Api::start(OutboxOptions::default()).await;
    let body = note(true).to_string();
    for (origin, status) in [
        ("http://127.0.0.1:8080", StatusCode::ACCEPTED),
        ("http://127.0.0.1:9090", StatusCode::FORBIDDEN),
        ("https://evil.example", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
    ] {
        let headers = [("host", "127.0.0.1:8080"), ("origin", origin)];
        let answer = api
            .send(Method::POST, "/outbox/box/messages", &headers, &body)
            .await;
        assert_eq!(answer.status, status, "{origin}");
    }
    api.stop().await;
}

#[tokio::test]
async fn a_host_name_a_stranger_could_own_is_refused_unless_configured() {
    let own = Api::start_with(OutboxOptions::default(), |host| {
        let own = Hosts::Named(vec!["outbox.example.com".to_owned()]);
        host.configure(|c| c.server.hosts = own)
    });
    let (api, own) = (Api::start(OutboxOptions::default()).await, own.await);
    for (api, host, status) in [
        (&api, "127.0.0.1:8080", StatusCode::OK),
        (&api, "abide:8080", StatusCode::OK),
        (&api, "outbox.example.com:8080", StatusCode::FORBIDDEN),
        (&own, "outbox.example.com:8080", StatusCode::OK),
        (&own, "evil.example:8080", StatusCode::FORBIDDEN),
    ] {
        let answer = api
            .send(Method::GET, "/outbox/box", &[("host", host)], "")
            .await;
        assert_eq!(answer.status, status, "{host}: {answer:?}");
        if status == StatusCode::FORBIDDEN {
            assert_eq!(answer.code(), "unknown_host");
        }
    }
    api.stop().await;
    own.stop().await;
}

/// A handler that signs what it is given must not sign what a client says.
#[tokio::test]
async fn a_client_writes_no_message_of_a_kind_that_is_not_open() {
    let api = Api::start(OutboxOptions::default()).await;
    let signed = |good| json!({ "kind": SIGNED, "payload": { "good": good } });
    let closed = (StatusCode::FORBIDDEN, "closed_kind");
    for body in [signed(true), json!([note(true), signed(true)])] {
        let refused = api.post("/outbox/box/messages", &body).await;
        assert_eq!((refused.status, refused.code()), closed, "{refused:?}");
    }
    assert_eq!(api.get("/outbox/box").await.body["counts"]["queued"], 0);

    let plain = [
        ("content-type", "text/plain"),
        ("sec-fetch-site", "same-origin"),
    ];
    let body = note(true).to_string();
    let plain = api
        .send(Method::POST, "/outbox/box/messages", &plain, &body)
        .await;
    assert_eq!(plain.code(), "unsupported_media_type");

    // A dead letter that the program has written.
    let outbox = api.host.env().object::<Outbox>().get_by_name("box");
    let message = OutboxMessage::new(SIGNED, &json!({ "good": false })).unwrap();
    let delayed = Delayed {
        message,
        delay: None,
    };
    outbox.enqueue(vec![delayed]).await.unwrap();
    api.until(1, "failed").await;
    let good = json!({ "good": true }).to_string();
    let payload = "/outbox/box/messages/1/payload";
    let refused = api.ask(Method::PUT, payload, &good).await;
    assert_eq!((refused.status, refused.code()), closed, "{refused:?}");
    let redriven = api.post("/outbox/box/messages/1/redrive", &json!({})).await;
    assert_eq!(redriven.status, StatusCode::OK);
    let failed = api.until(1, "failed").await;
    assert_eq!(failed["payload"], json!({ "good": false }));
    api.stop().await;
}

#[tokio::test]
async fn a_call_by_json_enqueues_nothing() {
    let api = Api::start(OutboxOptions::default()).await;
    let outbox = api.host.env().any_namespace("Outbox").unwrap();
    let outbox = outbox.get_by_name("box");
    let message = OutboxMessage::new(SIGNED, &json!({ "good": true })).unwrap();
    let delayed = Delayed {
        message,
        delay: None,
    };
    let args = serde_json::to_vec(&json!([[delayed]])).unwrap();
    let refused = outbox.call_json("enqueue", args).await.unwrap_err();
    assert!(refused.message().contains("POST /outbox/"), "{refused}");
    let args = serde_json::to_vec(&json!([1, "{}"])).unwrap();
    outbox.call_json("edit", args).await.unwrap();
    assert_eq!(api.get("/outbox/box").await.body["counts"]["queued"], 0);
    api.stop().await;
}

#[tokio::test]
async fn operators_see_and_send_again_and_write_nothing() {
    let api = Api::with_router(service::operators_router).await;
    let outbox = api.host.env().object::<Outbox>().get_by_name("box");
    let message = OutboxMessage::new(SIGNED, &json!({ "good": false })).unwrap();
    let delayed = Delayed {
        message,
        delay: None,
    };
    outbox.enqueue(vec![delayed]).await.unwrap();
    api.until(1, "failed").await;
    let sent = async |method: &str, path: &str, body: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = api.router.clone().oneshot(request).await.unwrap();
        response.status().as_u16()
    };
    let message = note(true).to_string();
    let messages = "/outbox/box/messages";
    assert_eq!(sent("POST", messages, &message).await, 405);
    let payload = "/outbox/box/messages/1/payload";
    assert_eq!(sent("PUT", payload, r#"{"good":true}"#).await, 404);
    let redriven = api.post("/outbox/box/messages/1/redrive", &json!({})).await;
    assert_eq!(redriven.status, StatusCode::OK);
    api.until(1, "failed").await;
    let discarded = api.ask(Method::DELETE, "/outbox/box/messages/1", "").await;
    assert_eq!(discarded.status, StatusCode::OK);
    api.stop().await;
}
