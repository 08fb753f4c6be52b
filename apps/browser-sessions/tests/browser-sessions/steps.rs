//! The real browser: steps before a picture, and PDF.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::site::{Site, redirect};
use crate::support::{chromium, post, shots};
use serde_json::{Value, json};

const FORM: &str = "<!doctype html><title>Sign in</title><div style='height:3000px'>below</div><form action=/welcome>\
    <input id=user name=user value=before><input id=off disabled><button id=send>Send</button></form>\
    <select id=choice><option>1</select><p id=hidden style='visibility:hidden'>secret</p>\
    <div style='position:relative'><button id=covered>x</button><i style='position:absolute;inset:0;background:#fff'></i></div>";

async fn site(private: &Site) -> Site {
    let forbidden = format!("http://{}/secret", private.address);
    Site::start("127.0.0.1:0", move |path| match path {
        "/" => FORM.to_owned(),
        "/leave" => format!("<title>door</title><a id=out href='{forbidden}'>out</a>"),
        "/out" => redirect(&forbidden),
        "/nothing" => "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(),
        "/links" => {
            "<title>links</title><a id=none href=/nothing>none</a> <a id=hash href=#x>hash</a>\
                     <button id=ask onclick=\"alert('stay')\">ask</button>"
                .to_owned()
        }
        "/long" => format!("<title>long</title><p id=long>{}</p>", "x".repeat(20_000)),
        path if path.starts_with("/welcome") => format!(
            "<!doctype html><title>Welcome</title><h1>{path}</h1><p id=late></p>\
             <script>setTimeout(() => late.textContent = 'arrived', 300)</script>"
        ),
        _ => "<title>else</title><p>other</p>".to_owned(),
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn steps_fill_in_a_form_and_read_the_page_that_follows() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data).start();
    let client = server.client();
    let private = Site::start("127.0.0.2:0", |_| "secret".to_owned()).await;
    let site = site(&private).await;
    let body = json!({ "url": site.url("/"), "sizes": ["360x640"], "steps": [
        { "type": { "into": "#user", "text": "ada & co" } },
        { "picture": "filled-in" },
        { "click": "#send" },
        // The click has led to another page, which is loaded now.
        { "text": "h1" },
        { "wait_for": "#late:not(:empty)" },
        { "text": "#late" },
        { "goto": site.url("/links") },
        { "click": "#hash" },
        { "click": "#ask" },
        { "click": "#none" },
        { "text": "#none" },
    ] });
    let answer = post(&client, "main", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let about = &answer.body["about"];
    assert_eq!(
        about["texts"],
        json!(["/welcome?user=ada+%26+co", "arrived", "none"])
    );
    assert_eq!(
        (&about["title"], &about["final_url"]),
        (&json!("links"), &json!(site.url("/links#x")))
    );
    let names: Vec<&str> = answer.body["pictures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|picture| picture["key"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["filled-in_360x640.jpg", "screenshot_360x640.jpg"]);
    for picture in answer.body["pictures"].as_array().unwrap() {
        let stored = data.join("pictures").join(picture["key"].as_str().unwrap());
        assert_eq!(std::fs::read(stored).unwrap()[..3], [0xff, 0xd8, 0xff]);
    }
    // The form was sent once, in the one size.
    let sent = site
        .seen()
        .iter()
        .filter(|path| path.starts_with("/welcome"))
        .count();
    assert_eq!(sent, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_step_that_fails_is_named_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = chromium(&dir.path().join("data")).start();
    let client = server.client();
    let private = Site::start("127.0.0.2:0", |_| "secret".to_owned()).await;
    let site = site(&private).await;
    let to = site.url("/out");
    let mut asks = tokio::task::JoinSet::new();
    let cases: Vec<(&str, Value, u16, &str, &str)> = vec![
        (
            "/",
            json!({ "click": "#missing" }),
            422,
            "step_failed",
            "`#missing`",
        ),
        (
            "/",
            json!({ "click": "#covered" }),
            422,
            "step_failed",
            "covered",
        ),
        (
            "/",
            json!({ "wait_for": "#hidden" }),
            422,
            "step_failed",
            "invisible",
        ),
        (
            "/",
            json!({ "type": { "into": "#off", "text": "x" } }),
            422,
            "step_failed",
            "disabled",
        ),
        (
            "/",
            json!({ "type": { "into": "#choice", "text": "x" } }),
            422,
            "step_failed",
            "not an input",
        ),
        (
            "/",
            json!({ "click": "[[" }),
            422,
            "step_failed",
            "not a valid CSS selector",
        ),
        (
            "/long",
            json!({ "text": "#long" }),
            422,
            "step_failed",
            "16384 characters",
        ),
        (
            "/leave",
            json!({ "click": "#out" }),
            403,
            "forbidden_address",
            "127.0.0.2",
        ),
        (
            "/",
            json!({ "goto": to }),
            403,
            "forbidden_address",
            "127.0.0.2",
        ),
    ];
    for (number, (path, step, status, code, says)) in cases.into_iter().enumerate() {
        let client = client.clone();
        let body = json!({ "url": site.url(path), "steps": [{ "text": "title" }, step] });
        asks.spawn(async move {
            // At the same time, because some of them wait.
            let session = format!("session-{}", number % 3);
            let answer = post(&client, &session, &body).await;
            let message = answer.body["error"]["message"].as_str().unwrap_or_default();
            let is_right =
                answer.status == status && answer.code() == code && message.contains(says);
            assert!(is_right, "{body}: {answer:?}");
            assert!(
                status != 422 || message.starts_with("Step 2 ("),
                "{message}"
            );
        });
    }
    while let Some(done) = asks.join_next().await {
        done.unwrap();
    }
    assert_eq!(shots(&client, "session-0").await.len(), 3);
    assert_eq!(private.seen(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_is_printed_as_pdf_on_the_paper_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data).start();
    let client = server.client();
    let private = Site::start("127.0.0.2:0", |_| "secret".to_owned()).await;
    let site = site(&private).await;
    // A4 lies on its side: 842 by 595 points.
    for (paper, is_landscape, page) in [
        (None, false, "595.9"),
        (Some("a4"), true, "841.9"),
        (Some("letter"), false, "612"),
    ] {
        let mut body = json!({ "url": site.url("/"), "format": "pdf", "landscape": is_landscape });
        if let Some(paper) = paper {
            body["paper"] = paper.into();
        }
        let answer = post(&client, "main", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let key = answer.body["pictures"][0]["key"].as_str().unwrap();
        assert!(key.ends_with("/page.pdf"), "{key}");
        let document = std::fs::read(data.join("pictures").join(key)).unwrap();
        assert!(document.starts_with(b"%PDF-"));
        let text = String::from_utf8_lossy(&document).into_owned();
        let boxed = text.split("/MediaBox [").nth(1).unwrap();
        let width = boxed.split_whitespace().nth(2).unwrap();
        assert!(width.starts_with(page), "{paper:?}: {}", &boxed[..40]);
        assert_eq!(
            client.get(&format!("/pictures/{key}")).await.headers["content-type"],
            "application/pdf"
        );
    }
    // A page that is not there is no document either.
    let leave = json!({ "url": site.url("/out"), "format": "pdf" });
    assert_eq!(post(&client, "main", &leave).await.status, 403);
}
