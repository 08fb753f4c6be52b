//! The page of an outbox in a real browser.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::process::Command;

use abide_harness::{Browser, Program, Receiver, ReceiverAct, axe, until};
use http::StatusCode;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
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
    axe(&page, "outbox").await;
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn the_front_page_has_its_style_and_fits_wide_and_narrow_windows() {
    let dir = tempfile::tempdir().unwrap();
    let server = Program::new(env!("CARGO_BIN_EXE_abide"), dir.path().join("data")).start();
    let client = server.client();
    let message = json!({ "kind": "http", "payload": { "url": "http://127.0.0.1:9/" } });
    client.post("/outbox/orders/messages", &message).await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    axe(&page, "front").await;
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = page.eval(ground).await;
    page.look(1_280, 860, true).await;
    assert_ne!(
        page.eval(ground).await,
        light,
        "the style sheet knows the dark"
    );
    page.until("document.querySelectorAll('pre').length === 4")
        .await;
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn the_admin_page_and_its_refusal_fit_wide_and_narrow_windows() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_abide"), dir.path().join("data"));
    let server = program.start();
    let message = json!({ "kind": "http", "payload": { "url": "http://127.0.0.1:9/" } });
    let client = server.client();
    client.post("/outbox/orders/messages", &message).await;
    let token = Command::new(env!("CARGO_BIN_EXE_abide"))
        .args(["token", "create", "--role", "read", "--data"])
        .arg(program.data())
        .output()
        .unwrap();
    let token = String::from_utf8(token.stdout).unwrap();
    let login = format!("http://any:{}@{}/", token.trim(), server.admin());
    let browser = Browser::start().await;
    let page = browser.open(&login).await;
    page.until("document.querySelector('h1')?.textContent === 'abide admin'")
        .await;
    axe(&page, "admin").await;

    // A browser asks for a token, and shows this page only when that is refused.
    let refusal = Command::new("curl")
        .args(["--silent", "--header", "accept: text/html"])
        .arg(format!("http://{}/", server.admin()))
        .output()
        .unwrap();
    let refusal = Value::from(String::from_utf8(refusal.stdout).unwrap());
    page.go("about:blank#refusal").await;
    page.eval(&format!("document.write({refusal}), document.close()"))
        .await;
    page.until("document.body.innerText.includes('A token is needed')")
        .await;
    axe(&page, "admin-refusal").await;
    assert!(server.stop().success(), "a clean stop");
}
