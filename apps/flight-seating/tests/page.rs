//! The page in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use abide_harness::Browser;
use serde_json::json;
use support::{occupant, program};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_seat_that_is_clicked_belongs_to_whoever_clicked_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let flight = "/flights/BA117/2026-12-01";
    client
        .put(flight, &json!({ "rows": 4, "columns": "ABC" }))
        .await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url(flight)).await;
    page.until("document.querySelectorAll('button.chair').length === 12")
        .await;
    page.click("button.chair[aria-label*='2B']").await;
    page.until("document.querySelector('dialog').open").await;
    page.fill("dialog input", "ada").await;
    page.click("dialog button.do").await;
    page.until("document.querySelector('button.chair.mine')")
        .await;
    assert_eq!(occupant(&client.get(flight).await, "2B"), Some("ada"));
}
