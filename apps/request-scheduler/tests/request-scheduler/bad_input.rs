//! What is refused, and that it leaves nothing.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::path::Path;

use crate::support::program;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

const OK: &str = "https://example.com/";

/// Invalid definitions, with the answer to each.
fn definitions() -> Vec<(String, u16, &'static str)> {
    let bad = |value: Value, code| (value.to_string(), 400, code);
    let large = json!({ "method": "POST", "body": "x".repeat((64 << 10) + 1) });
    let zone = json!({ "url": OK, "cron": "* * * * *", "timeZone": "X/Y" });
    vec![
        ("{".to_owned(), 400, "malformed_json"),
        bad(json!({}), "invalid_body"),
        bad(json!([]), "invalid_body"),
        bad(json!({ "url": 7 }), "invalid_body"),
        bad(json!({ "url": OK, "trigerAt": 5 }), "invalid_body"),
        bad(json!({ "url": OK, "triggerAt": "soon" }), "invalid_body"),
        bad(
            json!({ "url": OK, "requestInit": { "body": {} } }),
            "invalid_body",
        ),
        bad(json!({ "url": "example.com" }), "invalid_request"),
        bad(json!({ "url": OK, "triggerAt": -1 }), "invalid_schedule"),
        bad(
            json!({ "url": OK, "triggerEverySeconds": 0 }),
            "invalid_schedule",
        ),
        bad(json!({ "url": OK, "cron": "soon" }), "invalid_schedule"),
        bad(
            json!({ "url": OK, "cron": "0 0 30 2 *" }),
            "invalid_schedule",
        ),
        bad(zone, "invalid_schedule"),
        bad(
            json!({ "url": OK, "retryAfterSeconds": vec![1; 21] }),
            "invalid_retries",
        ),
        (
            json!({ "url": OK, "requestInit": large }).to_string(),
            413,
            "body_too_large",
        ),
    ]
}

/// A request that was refused has made no object.
fn assert_nothing_is_there(data: &Path) {
    let requests = data.join("objects").join("ScheduledRequest");
    assert!(!requests.exists(), "{} is there", requests.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_definition_is_refused_with_what_would_do_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    for (body, status, code) in definitions() {
        for path in ["/", "/some-id"] {
            let answer = client.ask(Method::POST, path, &body).await;
            assert_eq!(answer.status, status, "{body}: {answer:?}");
            assert_eq!(answer.code(), code, "{body}: {answer:?}");
        }
    }
    let form = Request::post(client.url("/"))
        .header("content-type", "text/plain")
        .header("sec-fetch-site", "same-origin")
        .body(Full::from(json!({ "url": OK }).to_string()))
        .unwrap();
    let answer = client.send(form).await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (415, "unsupported_media_type")
    );
    assert!(server.stop().success());
    assert_nothing_is_there(&data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_id_method_or_query_is_refused_and_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let long = "x".repeat(65);
    for id in ["-a", "a%20b", "%C3%A9", &long] {
        let answer = client.post(&format!("/{id}"), &json!({ "url": OK })).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (400, "invalid_id"),
            "{id}"
        );
    }
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        for path in ["/", "/some-id"] {
            let answer = client.ask(method.clone(), path, "").await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.code(), "method_not_allowed");
        }
    }
    for query in ["before=x", "state=lost", "limit=-1"] {
        let answer = client.get(&format!("/api/requests?{query}")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (400, "invalid_query"),
            "{query}"
        );
    }
    for (method, path) in [
        (Method::GET, "/api/requests/unknown"),
        (Method::GET, "/api/requests/unknown/runs"),
        (Method::DELETE, "/api/requests/unknown"),
        (Method::POST, "/api/requests/unknown/pause"),
        (Method::POST, "/api/requests/unknown/resume"),
        (Method::POST, "/api/requests/unknown/retry"),
    ] {
        let answer = client.ask(method.clone(), path, "").await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (404, "no_such_request"),
            "{method} {path}"
        );
    }
    assert_eq!(
        client.get("/api/requests").await.body["requests"],
        json!([])
    );
    assert!(server.stop().success());
    assert_nothing_is_there(&data);
}
