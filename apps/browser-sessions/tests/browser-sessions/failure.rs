//! Pages that crash or hang, browsers that crash or do not start, and more requests than may wait; with a fake browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{fs::Permissions, os::unix::fs::PermissionsExt};

use crate::support::{post, program, shots, take};
use abide_harness::{Client, in_time};
use browser_sessions::limits;
use serde_json::json;

const PAGE: &str = "https://example.com/";

/// A page fails with a status and a code, and the next one does not.
async fn assert_fails_alone(client: &Client, page: &str, status: u16, code: &str) {
    let answer = take(client, "main", &format!("https://example.com{page}")).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (status, code),
        "{page}: {answer:?}"
    );
    let newest = shots(client, "main").await.remove(0);
    assert_eq!(newest["state"], "failed", "{newest}");
    assert_eq!(newest["error"], answer.body["error"]["message"]);
    let answer = take(client, "main", PAGE).await;
    assert_eq!(answer.status, 201, "after {page}: {answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_survives_a_page_that_crashes_or_is_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    assert_fails_alone(&client, "/crash", 502, "page_crashed").await;
    assert_fails_alone(&client, "/browser-crash", 502, "browser_failed").await;
    let large = json!({ "url": "https://example.com/large", "sizes": ["200x100", "100x200"] });
    let answer = post(&client, "main", &large).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (422, "pictures_too_large")
    );
    // A browser that crashes once is replaced within the request.
    let answer = take(&client, "main", "https://example.com/crash-once").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.body["about"]["cold_browser"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_survives_a_browser_over_its_memory_limit() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--browser-memory=256")
        .start();
    let client = server.client();
    assert_fails_alone(&client, "/without-end", 502, "too_much_memory").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_survives_a_page_that_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        // Enough for the pages that do not hang, on a machine that is busy.
        .arg("--page-time=4")
        // Too short for the page; so it is raised.
        .env("ABIDE__SERVER__REQUEST_TIMEOUT", "100ms")
        .start();
    let client = server.client();
    assert_fails_alone(&client, "/never-loads", 504, "page_too_slow").await;
    // The pipe is still whole, but the page cannot be closed.
    assert_fails_alone(&client, "/never-closes", 504, "page_too_slow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_does_not_start_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("BROWSER_SESSIONS_CHROMIUM", "/nonexistent/chromium")
        .start();
    let answer = take(&server.client(), "main", PAGE).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "no_browser"));
    assert!(
        answer.body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("--chromium")
    );
    // What Chromium says as root.
    let refuses = dir.path().join("refuses");
    std::fs::write(
        &refuses,
        "#!/bin/sh\necho 'no usable sandbox' >&2; exit 1\n",
    )
    .unwrap();
    std::fs::set_permissions(&refuses, Permissions::from_mode(0o700)).unwrap();
    let server = program(&dir.path().join("other"))
        .env("BROWSER_SESSIONS_CHROMIUM", refuses.to_str().unwrap())
        .start();
    let answer = take(&server.client(), "main", PAGE).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "no_browser"));
    let message = answer.body["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("no usable sandbox") && message.contains("--no-sandbox"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_may_wait_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--max-browsers=1")
        .arg("--max-pages=1")
        .start();
    let client = server.client();
    let mut requests = tokio::task::JoinSet::new();
    // One page is open, and as many requests wait as may: half of them for the page, the others for a browser.
    for number in 0..1 + limits::MAX_WAITING + 10 {
        let client = client.clone();
        requests.spawn(async move {
            let session = if number % 2 == 0 { "one" } else { "two" };
            take(&client, session, "https://example.com/never-loads").await
        });
    }
    for _ in 0..10 {
        let answer = in_time("a refusal", requests.join_next()).await;
        let answer = answer.unwrap().unwrap();
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (503, "browsers_busy")
        );
        assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
    }
    assert_eq!(requests.len(), 1 + limits::MAX_WAITING);
    requests.abort_all();
    server.kill();
}
