//! The API, with a fake browser: answers, bad inputs, bounds, crashes of pages and browsers.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::Path};

use abide_harness::{Client, Receiver, in_time, until};
use browser_sessions::limits;
use http::Method;
use serde_json::{Value, json};
use support::{browser, browsers, files, local, post, program, shots, take};

const PAGE: &str = "https://example.com/";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_pictures_of_a_page_are_stored_under_the_time_and_served() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let answer = post(&client, "main", &json!({ "url": PAGE })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let shot = &answer.body;
    assert_eq!(
        (&shot["state"], &shot["url"]),
        (&json!("done"), &json!(PAGE))
    );
    assert_eq!(shot["about"]["title"], "A fake page");
    let key = shot["key"].as_str().unwrap();
    let time = key.strip_prefix("main/").unwrap();
    assert!(time.ends_with("0Z") || time.ends_with("5Z"), "{key}");
    let sizes = ["1920x1080", "1366x768", "1536x864", "360x640", "414x896"];
    for (picture, size) in shot["pictures"].as_array().unwrap().iter().zip(sizes) {
        let stored = format!("{key}/screenshot_{size}.jpg");
        assert_eq!(
            (&picture["size"], &picture["key"]),
            (&json!(size), &json!(stored))
        );
        let expected = format!("{size} of {PAGE}");
        assert_eq!(
            std::fs::read_to_string(data.join("pictures").join(&stored)).unwrap(),
            expected
        );
        let answer = client.get(&format!("/pictures/{stored}")).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body),
            (200, &json!(expected))
        );
        assert_eq!(answer.headers["content-type"], "image/jpeg");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    assert_eq!(shots(&client, "main").await, std::slice::from_ref(shot));
    let id = shot["id"].as_i64().unwrap();
    let path = format!("/sessions/main/screenshots/{id}");
    assert_eq!(client.get(&path).await.body, *shot);

    // The same page in these five minutes replaces its pictures; another has its own. The clock may pass to the next five between.
    let again = post(&client, "main", &json!({ "url": PAGE })).await;
    let other = take(&client, "main", "https://example.org/").await;
    assert_eq!((again.status.as_u16(), other.status.as_u16()), (201, 201));
    assert_ne!(other.body["key"], again.body["key"]);
    if again.body["key"] == shot["key"] {
        assert_eq!(again.body["id"], shot["id"]);
        assert_eq!(shots(&client, "main").await.len(), 2);
    }

    let deleted = client.ask(Method::DELETE, &path, "").await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    for (method, path) in [(Method::GET, &path), (Method::DELETE, &path)] {
        assert_eq!(
            client.ask(method, path, "").await.code(),
            "no_such_screenshot"
        );
    }
    for size in sizes {
        let stored = format!("{key}/screenshot_{size}.jpg");
        assert!(!data.join("pictures").join(&stored).exists(), "{stored}");
        assert_eq!(
            client.get(&format!("/pictures/{stored}")).await.code(),
            "no_such_picture"
        );
    }
    assert!(server.stop().success());
    assert_eq!(browsers(&data), Vec::<u32>::new());
    assert_eq!(
        files(&data.join("browsers")),
        Vec::<std::path::PathBuf>::new()
    );
}

/// A request that was refused has made no object and started no browser.
fn assert_nothing_is_there(data: &Path) {
    assert!(!data.join("objects").join("BrowserSession").exists());
    assert_eq!(browsers(data), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_request_is_refused_with_what_would_do_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let bad: Vec<(Value, u16, &str)> = vec![
        (json!([]), 400, "invalid_body"),
        (json!({}), 400, "invalid_body"),
        (json!({ "url": 7 }), 400, "invalid_body"),
        (json!({ "url": PAGE, "sizs": [] }), 400, "invalid_body"),
        (
            json!({ "url": PAGE, "sizes": ["huge"] }),
            400,
            "invalid_body",
        ),
        (
            json!({ "url": PAGE, "sizes": ["1x1"] }),
            400,
            "invalid_body",
        ),
        (json!({ "url": PAGE, "sizes": [] }), 400, "invalid_sizes"),
        (json!({ "url": PAGE, "format": "gif" }), 400, "invalid_body"),
        (json!({ "url": PAGE, "quality": 0 }), 400, "invalid_quality"),
        (
            json!({ "url": PAGE, "delay_ms": 60_000 }),
            400,
            "invalid_delay",
        ),
        (json!({ "url": "example.com" }), 400, "invalid_url"),
        (json!({ "url": "file:///etc/passwd" }), 400, "invalid_url"),
        (
            json!({ "url": "http://127.0.0.1/" }),
            403,
            "forbidden_address",
        ),
        (
            json!({ "url": "http://169.254.169.254/" }),
            403,
            "forbidden_address",
        ),
        (
            json!({ "url": "http://[::ffff:10.0.0.1]/" }),
            403,
            "forbidden_address",
        ),
    ];
    for (body, status, code) in bad {
        let answer = post(&client, "main", &body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{body}: {answer:?}"
        );
    }
    let malformed = client
        .ask(Method::POST, "/sessions/main/screenshots", "{")
        .await;
    assert_eq!(malformed.code(), "malformed_json");
    let long = "x".repeat(65);
    for session in ["-a", "a.b", "a%20b", "%C3%A9", &long] {
        let answer = take(&client, session, PAGE).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (400, "invalid_session"),
            "{session}"
        );
    }
    for path in [
        "/pictures/main/x/y.txt",
        "/pictures/main/..%2f..%2fabide/y.jpg",
        "/pictures/main/%2e%2e/y.jpg",
        "/pictures/main/x/..%2f..%2f..%2fy.jpg",
        "/pictures/main/x/nobody.jpg",
    ] {
        let answer = client.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (404, "no_such_picture"),
            "{path}"
        );
    }
    assert!(server.stop().success());
    assert_nothing_is_there(&data);
}

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
async fn a_page_that_crashes_or_is_too_large_is_reported_and_the_session_goes_on() {
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
async fn a_page_that_hangs_is_cut_off_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        // Enough for the pages that do not hang, on a machine that is busy.
        .arg("--page-time=4")
        // Too short to learn what became of the page; so it is raised.
        .env("ABIDE__SERVER__REQUEST_TIMEOUT", "100ms")
        .start();
    let client = server.client();
    assert_fails_alone(&client, "/never-loads", 504, "page_too_slow").await;
    // The pipe is still whole, but the page cannot be closed.
    assert_fails_alone(&client, "/never-closes", 504, "page_too_slow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_stays_open_between_requests_until_it_has_been_idle() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    assert_eq!(browser(&client, "main").await, "closed");
    let keep = client
        .ask(Method::POST, "/sessions/main/keep-alive", "")
        .await;
    assert_eq!(keep.code(), "no_open_browser");
    assert_eq!(
        take(&client, "main", PAGE).await.body["about"]["cold_browser"],
        true
    );
    let first = browsers(&data);
    assert_eq!(first.len(), 1);
    assert_eq!(
        take(&client, "main", PAGE).await.body["about"]["cold_browser"],
        false
    );
    assert_eq!(browsers(&data), first);
    let keep = client
        .ask(Method::POST, "/sessions/main/keep-alive", "")
        .await;
    assert_eq!(keep.status, 204);
    let closed = client
        .ask(Method::DELETE, "/sessions/main/browser", "")
        .await;
    assert_eq!(closed.status, 204, "{closed:?}");
    until("the browser to end", async || {
        browsers(&data).is_empty().then_some(())
    })
    .await;
    let answer = take(&client, "main", PAGE).await;
    assert_eq!(answer.body["about"]["cold_browser"], true, "{answer:?}");
    assert!(server.stop().success());
    let server = program(&data).arg("--idle=1").start();
    let client = server.client();
    assert_eq!(take(&client, "main", PAGE).await.status, 201);
    until("the idle browser to be closed", async || {
        (browser(&client, "main").await == "closed" && browsers(&data).is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_browsers_run_than_may_and_an_idle_one_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data)
        .arg("--max-browsers=2")
        .arg("--max-pages=1")
        .start();
    let client = server.client();
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..12 {
        let client = client.clone();
        requests.spawn(async move {
            let session = format!("session-{}", number % 4);
            let url = format!("https://example.com/{number}/slow");
            take(&client, &session, &url).await
        });
    }
    let mut most = 0;
    while !requests.is_empty() {
        most = most.max(browsers(&data).len());
        if let Some(answer) = requests.try_join_next() {
            let answer = answer.unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(most, 2);
    for session in 0..4 {
        assert_eq!(shots(&client, &format!("session-{session}")).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reaches_the_web_through_the_guard_alone() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let port = receiver.address().rsplit_once(':').unwrap().1.to_owned();
    // A name passes the first check; what it resolves to does not.
    let url = format!("http://localhost:{port}/through-proxy");
    let server = program(&dir.path().join("strict")).start();
    let answer = take(&server.client(), "main", &url).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (403, "forbidden_address"),
        "{answer:?}"
    );
    let message = answer.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("outbound.allow_private"), "{message}");
    assert_eq!(receiver.received().len(), 0);
    let server = local(&dir.path().join("local")).start();
    let answer = take(&server.client(), "main", &url).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(receiver.received().len(), 1);
    let nobody = take(&server.client(), "main", "http://127.0.0.1:1/through-proxy").await;
    assert_eq!(
        (nobody.status.as_u16(), nobody.code()),
        (502, "page_unreachable")
    );
    // The page's bytes are counted on their way.
    let server = local(&dir.path().join("small"))
        .arg("--page-bytes=20")
        .start();
    let answer = take(&server.client(), "main", &url).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (502, "page_too_large"),
        "{answer:?}"
    );
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
