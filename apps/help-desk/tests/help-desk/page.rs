//! The page of a desk in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::path::Path;

use abide_harness::{Browser, Page, Program, axe};
use serde_json::{Value, json};

fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_help-desk"), data)
}

async fn open(browser: &Browser, url: &str) -> Page {
    let page = browser.open(url).await;
    live(&page).await;
    page
}

async fn live(page: &Page) {
    page.until("document.querySelector('#connection').dataset.state === 'live'")
        .await;
}

/// Waits until the first element that matches a selector says exactly this.
async fn says(page: &Page, selector: &str, text: &str) {
    let (selector, text) = (Value::from(selector), Value::from(text));
    page.until(&format!(
        "document.querySelector({selector})?.textContent === {text}"
    ))
    .await;
}

async fn ask_for_help(page: &Page, subject: &str, from: &str) {
    page.click("#new").await;
    page.fill("#create [name=subject]", subject).await;
    page.fill("#create [name=from]", from).await;
    page.click("#create .do").await;
    says(page, "#subject", subject).await;
}

async fn comment(page: &Page, author: &str, text: &str) {
    page.fill("#comment [name=author]", author).await;
    page.fill("#comment [name=text]", text).await;
    page.click("#comment .do").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_conversation_on_two_pages_ends_with_a_closed_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let shown = server.client().get("/desks/support").await;
    assert_eq!(shown.headers["x-content-type-options"], "nosniff");
    assert!(shown.headers.contains_key("content-security-policy"));
    let desk = server.client().url("/desks/support");
    let browser = Browser::start().await;
    let ada = open(&browser, &desk).await;
    says(&ada, "#tabs b", "0").await;
    axe(&ada, "help-desk-empty").await;
    ada.click("#new").await;
    axe(&ada, "help-desk-new").await;
    ada.click("#cancel").await;
    ask_for_help(&ada, "The printer is on <fire>", "ada@example.com").await;

    // The other page is told of the ticket and of each comment.
    let grace = open(&browser, &desk).await;
    grace.click("#t1 a").await;
    says(&grace, "#subject", "The printer is on <fire>").await;
    grace.fill("#assign [name=assignee]", "Grace").await;
    grace.click("#assign button").await;
    says(&ada, "#t1 .soft", "No. 1 from ada@example.com · Grace").await;
    comment(&grace, "Grace", "Use the extinguisher.\nThen step back.").await;
    says(
        &ada,
        "#comments li p:last-child",
        "Use the extinguisher.\nThen step back.",
    )
    .await;
    comment(&ada, "Ada", "It is out. Thank you!").await;
    says(
        &grace,
        "#comments li:nth-child(2) p:last-child",
        "It is out. Thank you!",
    )
    .await;
    axe(&grace, "help-desk-ticket").await;

    grace.click("#close").await;
    says(&ada, "#ticket .pill", "closed").await;
    ada.until("document.querySelector('#work').hidden").await;
    ask_for_help(&grace, "No more paper", "grace@example.com").await;
    grace.click("#tabs [data-only=open]").await;
    grace
        .until("[...document.querySelectorAll('#tickets li')].filter(it => it.offsetParent).map(it => it.id).join() === 't2'")
        .await;
    axe(&grace, "help-desk-open").await;
    grace.click("#back").await;
    grace
        .until("document.querySelector('#ticket').hidden")
        .await;
    axe(&grace, "help-desk-list").await;
    let stored = server.client().get("/desks/support/tickets/1").await;
    assert_eq!(stored.body["status"], "closed");
    assert_eq!(stored.body["comments"][1]["author"], "Ada");
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_page_keeps_an_unsent_comment_and_returns_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let (address, client) = (server.address().to_owned(), server.client());
    let new = json!({ "subject": "No more paper", "from": "ada@example.com" });
    client.post("/desks/support/tickets", &new).await;
    let browser = Browser::start().await;
    let page = open(&browser, &client.url("/desks/support#ticket-1")).await;
    says(&page, "#subject", "No more paper").await;
    drop(client);
    server.kill();
    page.until("document.querySelector('#connection').dataset.state === 'waiting'")
        .await;
    comment(&page, "Grace", "It is in the cellar.").await;
    page.until(
        "document.querySelector('#comment .note').textContent.includes('cannot be reached')",
    )
    .await;
    axe(&page, "help-desk-offline").await;
    let kept = page.eval("document.querySelector('#comment').text.value");
    assert_eq!(kept.await, "It is in the cellar.");

    let server = program(&data).listen(&address).start();
    live(&page).await;
    page.click("#comment .do").await;
    says(&page, "#comments li p:last-child", "It is in the cellar.").await;
    page.until("document.querySelector('#comment').text.value === ''")
        .await;
    assert!(server.stop().success(), "a clean stop");
}
