//! The page of an outbox in a real browser.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Browser, Program, Receiver, ReceiverAct, until};
use http::StatusCode;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_shows_messages_as_they_change_while_their_outbox_leaves_memory() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.script([ReceiverAct::status(404)]);
    let server = Program::new(env!("CARGO_BIN_EXE_abide"), dir.path().join("data"))
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "50ms")
        .start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/outbox/orders/page")).await;
    page.until("document.querySelector('abide-live').dataset.state === 'open'")
        .await;
    page.eval("window.same = true").await;
    let admin = server.admin_client();
    for (id, status) in [(1, "failed"), (2, "sent")] {
        // The outbox has left memory since the last change, and comes back for this one.
        until("an idle outbox to leave memory", async || {
            (admin.metric("abide_objects_evicted_total").await >= id).then_some(())
        })
        .await;
        let message = json!({ "kind": "http", "payload": { "url": receiver.url("/orders") } });
        let taken = client.post("/outbox/orders/messages", &message).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
        let count = format!(
            "document.querySelector('#outbox-head').innerText.replace(/\\s+/g, ' ').includes('1 {status}')"
        );
        page.until(&count).await;
        if status == "sent" {
            page.until(&format!(
                "document.querySelector('#message-{id}')?.dataset.status === 'sent'"
            ))
            .await;
        }
    }
    assert_eq!(page.eval("window.same").await, json!(true), "no reload");
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn the_front_page_has_its_style_and_fits_wide_and_narrow_windows() {
    let dir = tempfile::tempdir().unwrap();
    let server = Program::new(env!("CARGO_BIN_EXE_abide"), dir.path().join("data")).start();
    let client = server.client();
    let message = json!({ "kind": "http", "payload": { "url": "http://127.0.0.1:9/" } });
    client.post("/outbox/orders/messages", &message).await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    let mut grounds = Vec::new();
    for (width, dark) in [(1200, false), (1200, true), (360, false), (360, true)] {
        page.look(width, 900, dark).await;
        let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(page.eval(fits).await, json!(true), "{width} {dark}");
        let ground = page
            .eval("getComputedStyle(document.body).backgroundColor")
            .await;
        grounds.push(ground);
        if let Ok(pictures) = std::env::var("ABIDE_SCREENSHOTS") {
            let file = format!("front-{width}-{}.png", if dark { "dark" } else { "light" });
            page.screenshot(&std::path::Path::new(&pictures).join(file))
                .await;
        }
    }
    assert_eq!(grounds[0], grounds[2]);
    assert_eq!(grounds[1], grounds[3]);
    assert_ne!(grounds[0], grounds[1], "the style sheet knows the dark");
    page.until("document.querySelectorAll('pre').length === 4")
        .await;
    assert!(server.stop().success(), "a clean stop");
}
