//! The pages in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{from_now, is_listed, program, put, show};
use abide_harness::{Browser, Receiver, ReceiverAct, axe};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn the_page_s_buttons_pause_resume_and_cancel_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.decide(|request| {
        ReceiverAct::status(if request.path() == "/broken" {
            404
        } else {
            200
        })
    });
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let day = 24 * 3_600_000;
    let message = json!({ "method": "POST", "headers": { "Authorization": "Bearer x" }, "body": "{\"report\":\"daily\"}" });
    let cron = json!({
        "url": receiver.url("/reports/daily?shop=7"), "cron": "0 9 * * MON-FRI", "timeZone": "Europe/Berlin",
    });
    put(&client, "daily-report", &cron).await;
    let later = json!({ "url": receiver.url("/reminders/4711"), "triggerAt": from_now(3 * day), "requestInit": message });
    put(&client, "reminder-4711", &later).await;
    put(
        &client,
        "broken",
        &json!({ "url": receiver.url("/broken") }),
    )
    .await;
    let often = json!({ "url": receiver.url("/heartbeat"), "triggerEverySeconds": 1 });
    put(&client, "heartbeat", &often).await;
    is_listed(&client, "broken", "failed").await;

    let browser = Browser::start().await;
    let page = browser.open(&client.url("/requests")).await;
    page.until("document.querySelectorAll('.list tbody tr').length === 4")
        .await;
    page.until("document.querySelector('[data-id=heartbeat] .outcome[data-status=sent]')")
        .await;
    axe(&page, "request-scheduler-list").await;

    page.click("[data-id=heartbeat] .what a").await;
    page.until("document.querySelectorAll('.runs li[data-status=sent]').length >= 3")
        .await;
    axe(&page, "request-scheduler-request").await;
    page.click(".buttons form[action$=pause] button").await;
    page.until("document.querySelector('.pill')?.textContent === 'paused'")
        .await;
    assert_eq!(show(&client, "heartbeat").await.body["state"], "paused");
    page.click(".buttons form[action$=resume] button").await;
    page.until("document.querySelector('.pill')?.textContent === 'scheduled'")
        .await;

    page.go(&client.url("/requests/broken")).await;
    page.until("document.querySelector('.runs .error')?.textContent.includes('404')")
        .await;
    axe(&page, "request-scheduler-failed").await;
    page.eval("window.confirm = () => true").await;
    page.click(".buttons form[action$=cancel] button").await;
    page.until("document.querySelectorAll('.list tbody tr').length === 3")
        .await;
    assert_eq!(show(&client, "broken").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn the_list_shows_what_is_scheduled_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/requests")).await;
    page.until("document.body.innerText.includes('Nothing is scheduled.')")
        .await;
    axe(&page, "request-scheduler-empty").await;
    page.go(&client.url("/requests/absent")).await;
    axe(&page, "request-scheduler-error").await;
    page.go(&client.url("/requests")).await;
    let later = json!({ "url": "https://example.com/", "triggerAt": from_now(3_600_000) });
    put(&client, "later", &later).await;
    page.until("document.querySelector('[data-id=later]')")
        .await;
    assert_eq!(
        page.eval("document.querySelector('.tabs [data-state=scheduled] b').textContent")
            .await,
        "1"
    );
}
