//! What clients are told by the extractors of a program's own routes.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::collections::HashMap;

use abide_server::{UrlPath, UrlQuery};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
    routing::get,
};
use serde_json::Value;
use tower::ServiceExt as _;

#[tokio::test]
async fn a_refusal_says_once_that_something_cannot_be_read() {
    let router = Router::new()
        .route("/path/{number}", get(async |_: UrlPath<u8>| ()))
        .route("/query", get(async |_: UrlQuery<HashMap<String, u8>>| ()));
    let cases = [
        (
            "/path/abc",
            "invalid_path",
            "The address cannot be read: Cannot parse",
        ),
        (
            "/query?a=b",
            "invalid_query",
            "The query cannot be read: a: it must be an integer.",
        ),
    ];
    for (uri, code, start) in cases {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let body = to_bytes(answer.into_body(), 4096).await.unwrap();
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(error["error"]["code"], code);
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(start), "{message}");
    }
}
