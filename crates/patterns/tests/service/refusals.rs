//! What is refused, and what is said then.

use abide::server::Hosts;
use abide_patterns::outbox::{Options, limits};
use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::support::{Api, note};

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_told_why() {
    let api = Api::start(Options::default()).await;
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
async fn a_message_that_nobody_could_deliver_is_refused() {
    let api = Api::start(Options::default()).await;
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
    let api = Api::start(Options::default()).await;
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
async fn a_name_that_a_stranger_could_have_is_refused_unless_it_is_an_own_one() {
    let own = Api::start_with(Options::default(), |host| {
        let own = Hosts::Named(vec!["outbox.example.com".to_owned()]);
        host.configure(|c| c.server.hosts = own)
    });
    let (api, own) = (Api::start(Options::default()).await, own.await);
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
