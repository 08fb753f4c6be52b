//! Watchers.

use abide::outbox::OutboxOptions;
use abide_harness::in_time;
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::service::support::{Api, note};

#[tokio::test]
async fn a_watcher_gets_a_snapshot_and_then_changes() {
    let api = Api::start(OutboxOptions::default()).await;
    let request = Request::get("/outbox/box/live").header("accept", "text/event-stream");
    let request = request.body(Body::empty()).unwrap();
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        response.headers()[header::CONTENT_TYPE],
        "text/event-stream"
    );
    let mut events = response.into_body();
    let mut seen = String::new();
    let mut until = async |what: &str| {
        while !seen.contains(what) {
            let frame = in_time(what, events.frame()).await;
            let data = frame.unwrap().unwrap().into_data().unwrap();
            seen.push_str(std::str::from_utf8(&data).unwrap());
        }
    };
    until("\"type\":\"snapshot\"").await;
    api.post("/outbox/box/messages", &note(true)).await;
    until("\"status\":\"sent\"").await;

    let neither = api.get("/outbox/box/live").await;
    assert_eq!(
        (neither.status, neither.code()),
        (StatusCode::UPGRADE_REQUIRED, "not_a_stream")
    );
    drop(events);
    api.stop().await;
}

#[tokio::test]
async fn the_page_and_its_scripts_are_there() {
    let api = Api::start(OutboxOptions::default()).await;
    api.post("/outbox/a%20%3Cbox%3E/messages", &note(true))
        .await;
    let request = Request::get("/outbox/a%20%3Cbox%3E/page")
        .body(Body::empty())
        .unwrap();
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert!(
        response
            .headers()
            .contains_key(header::CONTENT_SECURITY_POLICY)
    );
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = std::str::from_utf8(&page).unwrap();
    assert!(
        page.contains("a &lt;box&gt;") && page.contains("a note"),
        "{page}"
    );
    let scripts = page.split("src=\"assets/").skip(1).collect::<Vec<_>>();
    assert_eq!(scripts.len(), 2, "{page}");
    for script in scripts {
        let (name, _) = script.split_once('"').unwrap();
        let answer = api.get(&format!("/outbox/box/assets/{name}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}");
    }
    assert_eq!(
        api.get("/outbox/box/assets/other.js").await.code(),
        "no_such_file"
    );
    api.stop().await;
}
