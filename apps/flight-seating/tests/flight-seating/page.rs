//! The page in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{occupant, program};
use abide_harness::{Browser, Client, axe};
use http::Method;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_clicked_seat_is_assigned_to_the_passenger_who_clicked() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let flight = "/flights/BA117/2026-12-01";
    client
        .put(flight, &json!({ "rows": 4, "columns": "ABC" }))
        .await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    axe(&page, "cabin-front").await;
    page.go(&client.url(flight)).await;
    page.until("document.querySelectorAll('button.chair').length === 12")
        .await;
    page.click("button.chair[aria-label*='2B']").await;
    page.until("document.querySelector('dialog').open").await;
    axe(&page, "cabin-dialog").await;
    page.fill("dialog input", "ada").await;
    page.click("dialog button.do").await;
    page.until("document.querySelector('button.chair.mine')")
        .await;
    axe(&page, "cabin").await;
    assert_eq!(occupant(&client.get(flight).await, "2B"), Some("ada"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn the_page_shows_others_changes_after_a_crash_and_a_closed_flight() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let address = server.address().to_owned();
    let client = server.client();
    let flight = "/flights/BA117/2020-12-01";
    client
        .put(flight, &json!({ "rows": 4, "columns": "ABC" }))
        .await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url(flight)).await;
    page.until("document.querySelectorAll('button.chair').length === 12")
        .await;
    let taken =
        |count: u32| format!("document.querySelectorAll('button.chair.taken').length === {count}");
    let take = async |client: &Client, seat: &str| {
        let path = format!("{flight}/seats/{seat}");
        client.post(&path, &json!({ "occupant": seat })).await
    };
    take(&client, "2B").await;
    page.until(&taken(1)).await;
    // It asks for the cabin once, and is told the rest.
    let asked =
        "performance.getEntriesByType('resource').filter(e => e.initiatorType === 'fetch').length";
    assert_eq!(page.eval(asked).await, 1);

    drop(client);
    server.kill();
    let server = program(&data).listen(&address).start();
    let client = server.client();
    take(&client, "3C").await;
    page.until(&taken(2)).await;
    let closed = client
        .ask(Method::POST, &format!("{flight}/close"), "")
        .await;
    assert_eq!(closed.status, 200, "{closed:?}");
    let told = "document.querySelector('#note').textContent.startsWith('This flight was closed')";
    page.until(told).await;
    page.until("document.querySelectorAll('button.chair:disabled').length === 12")
        .await;
    axe(&page, "cabin-closed").await;
    page.go(&client.url(flight)).await;
    page.until(told).await;
    page.until(&taken(2)).await;
}
