//! The API, with a fake browser: answers, bad inputs, bounds.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::path::Path;

use crate::support::{browser, browsers, files, local, post, program, shots, take};
use abide_harness::{Client, Receiver, until};
use http::Method;
use serde_json::{Value, json};

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
    abide_harness::assert_private(&data);

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

/// Each request is refused with a status and a code.
async fn assert_refused(client: &Client, bad: Vec<(Value, u16, &str)>) {
    for (body, status, code) in bad {
        let answer = post(client, "main", &body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{body}: {answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_pdf_or_step_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let bad: Vec<(Value, u16, &str)> = vec![
        (
            json!({ "url": PAGE, "format": "pdf", "quality": 50 }),
            400,
            "invalid_quality",
        ),
        (
            json!({ "url": PAGE, "format": "pdf", "sizes": ["200x200", "300x300"] }),
            400,
            "invalid_sizes",
        ),
        (
            json!({ "url": PAGE, "format": "pdf", "paper": "b5" }),
            400,
            "invalid_body",
        ),
        (
            json!({ "url": PAGE, "landscape": true }),
            400,
            "invalid_paper",
        ),
        (
            json!({ "url": PAGE, "steps": [{ "run": "alert()" }] }),
            400,
            "invalid_body",
        ),
        (
            json!({ "url": PAGE, "steps": [{ "click": "" }] }),
            400,
            "invalid_steps",
        ),
        (
            json!({ "url": PAGE, "steps": [{ "click": "#a", "text": "#b" }] }),
            400,
            "invalid_body",
        ),
        (
            json!({ "url": PAGE, "steps": [{ "goto": "http://10.0.0.1/" }] }),
            403,
            "forbidden_address",
        ),
    ];
    assert_refused(&server.client(), bad).await;
    assert!(server.stop().success());
    assert_nothing_is_there(&data);
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
    assert_refused(&client, bad).await;
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
        "/pictures/main/x/unknown.jpg",
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pdf_and_the_pictures_of_steps_are_stored_and_served() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let steps = json!([
        { "click": "#more" }, { "picture": "opened" }, { "text": "h1" }, { "goto": "https://example.org/" }
    ]);
    let body = json!({ "url": PAGE, "format": "pdf", "steps": steps });
    let first = post(&client, "main", &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(first.body["about"]["texts"], json!(["A fake text"]));
    let key = first.body["key"].as_str().unwrap();
    for (file, content_type, bytes) in [
        (
            "opened_1920x1080.jpg",
            "image/jpeg",
            "1920x1080 of https://example.com/",
        ),
        (
            "page.pdf",
            "application/pdf",
            "%PDF of https://example.org/",
        ),
    ] {
        let answer = client.get(&format!("/pictures/{key}/{file}")).await;
        assert_eq!(answer.body, json!(bytes), "{file}: {answer:?}");
        assert_eq!(answer.headers["content-type"], content_type);
    }
    let answer = client.get(&format!("/pictures/{key}/page.pdf")).await;
    assert_eq!(answer.headers["content-disposition"], "attachment");
    abide_harness::assert_private(&data);
    // What steps have led to is never replaced by what others lead to.
    let second = post(&client, "main", &body).await;
    assert_ne!(second.body["key"], first.body["key"]);
    let failed = json!({ "url": PAGE, "steps": [{ "text": "h1" }, { "click": "[[" }] });
    let failed = post(&client, "main", &failed).await;
    assert_eq!(
        (failed.status.as_u16(), failed.code()),
        (422, "step_failed")
    );
    // Steps may change something, so they are not done twice.
    let crashes = json!({ "url": "https://example.com/crash-once", "steps": [{ "text": "h1" }] });
    let interrupted = post(&client, "main", &crashes).await;
    assert_eq!(
        (interrupted.status.as_u16(), interrupted.code()),
        (502, "steps_interrupted")
    );
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
    let refused = take(&server.client(), "main", "http://127.0.0.1:1/through-proxy").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
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
