//! The page in a real browser: two people who chat while their room leaves memory, and while the server goes away.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{Guest, asleep, program};
use abide_harness::{Browser, Page, axe};

async fn enter(browser: &Browser, base: &str, name: &str) -> Page {
    let page = browser.open(base).await;
    page.fill("#enter [name=name]", name).await;
    page.click("#enter .do").await;
    connected(&page).await;
    page
}

async fn connected(page: &Page) {
    page.until("document.querySelector('#line').dataset.state === 'open'")
        .await;
}

async fn say(page: &Page, text: &str) {
    page.fill("#say textarea", text).await;
    page.click("#say .do").await;
}

async fn sees(page: &Page, texts: &[&str]) {
    let wanted = serde_json::to_string(texts).unwrap();
    page.until(&format!(
        "JSON.stringify([...document.querySelectorAll('.said:not(.unsent) .text')].map(t => t.textContent)) === {}",
        serde_json::to_string(&wanted).unwrap()
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn two_pages_chat_through_a_room_that_hibernates() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "50ms")
        .start();
    let (base, admin) = (server.client().url("/"), server.admin_client());
    let browser = Browser::start().await;
    axe(&browser.open(&base).await, "chat-enter").await;
    let ada = enter(&browser, &base, "ada").await;
    let grace = enter(&browser, &base, "grace").await;
    ada.until("document.querySelectorAll('#people li').length === 2")
        .await;

    let mut all: Vec<&str> = Vec::new();
    for (page, text) in [
        (&ada, "hello grace"),
        (&grace, "hello ada"),
        (&ada, "is this on disk?"),
        (&grace, "you would not see it otherwise"),
    ] {
        say(page, text).await;
        all.push(text);
        sees(&ada, &all).await;
        sees(&grace, &all).await;
        asleep(&admin).await;
    }
    axe(&ada, "chat").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_reconnecting_page_says_so_and_then_sends_pending_messages() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let address = server.address().to_owned();
    let base = server.client().url("/");
    let browser = Browser::start().await;
    let ada = enter(&browser, &base, "ada").await;
    say(&ada, "before").await;
    sees(&ada, &["before"]).await;

    server.kill();
    ada.until(
        "document.querySelector('#line').textContent.startsWith('Disconnected. Next try in')",
    )
    .await;
    say(&ada, "meanwhile").await;
    ada.until("document.querySelectorAll('.said.unsent').length === 1")
        .await;
    ada.until("/attempt [2-9]/.test(document.querySelector('#line').textContent)")
        .await;
    axe(&ada, "chat-reconnecting").await;

    let _server = program(&data).listen(&address).start();
    connected(&ada).await;
    sees(&ada, &["before", "meanwhile"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_that_was_away_for_long_is_shown_everything_that_it_missed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).arg("--burst=1000000").start();
    let base = server.client().url("/");
    let browser = Browser::start().await;
    let ada = enter(&browser, &base, "ada").await;
    say(&ada, "0").await;
    sees(&ada, &["0"]).await;
    // The page is cut off; the room continues without it.
    ada.eval("socket.close(); clearInterval(retry); retry = null; line('waiting', 'away')")
        .await;
    let mut grace = Guest::enter(&server, "lobby", "grace", 0).await;
    let all: Vec<String> = (0..=250).map(|number| number.to_string()).collect();
    for text in &all[1..] {
        grace.say(text, text).await.unwrap();
        grace.said().await;
    }
    ada.eval("clearInterval(retry), connect()").await;
    let texts: Vec<&str> = all.iter().map(String::as_str).collect();
    sees(&ada, &texts).await;
}
