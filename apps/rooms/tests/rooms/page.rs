//! The page in a real browser: three people who write in one document, one of them offline meanwhile, while the server is killed.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{Editor, program};
use abide_harness::{Browser, Page, axe};

async fn open(browser: &Browser, base: &str, name: &str) -> Page {
    let page = browser.open(&format!("{base}/d/tea")).await;
    page.fill("#me", name).await;
    saved(&page).await;
    page
}

async fn saved(page: &Page) {
    page.until("document.querySelector('#line').dataset.state === 'saved'")
        .await;
}

async fn write(page: &Page, text: &str) {
    page.fill(".cm-content", text).await;
}

async fn text(page: &Page) -> String {
    let text = page.eval("rooms.text.toString()").await;
    text.as_str().unwrap().to_owned()
}

/// Waits until what the editors show is one text, which has each of these words once.
async fn converged(pages: &[&Page], words: &[&str]) {
    for page in pages {
        for word in words {
            page.until(&format!(
                "rooms.view.state.doc.toString().includes({word:?})"
            ))
            .await;
        }
        page.until("rooms.view.state.doc.toString() === rooms.text.toString()")
            .await;
    }
    let first = text(pages[0]).await;
    for page in pages {
        assert_eq!(text(page).await, first);
    }
    for word in words {
        assert_eq!(first.matches(word).count(), 1, "{word} in {first}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn three_pages_converge_one_of_them_offline_across_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let address = server.address().to_owned();
    let base = format!("http://{address}");
    let browser = Browser::start().await;
    let home = browser.open(&base).await;
    axe(&home, "rooms-home").await;
    let ada = open(&browser, &base, "Ada").await;
    let grace = open(&browser, &base, "Grace").await;
    let mary = open(&browser, &base, "Mary").await;
    for page in [&ada, &grace, &mary] {
        page.until("document.querySelectorAll('#people li').length === 3")
            .await;
    }
    write(&ada, "# Tea for three\n\nAda brings **oolong**.\n").await;
    converged(&[&ada, &grace, &mary], &["oolong"]).await;

    // Mary is offline and continues writing; the others do, too.
    mary.eval("rooms.provider.disconnect()").await;
    ada.until("document.querySelectorAll('#people li').length === 2")
        .await;
    write(&mary, "Mary brings _cake_.\n").await;
    mary.until("document.querySelector('#line').dataset.state === 'offline'")
        .await;
    write(&grace, "Grace brings cups.\n").await;
    saved(&grace).await;
    converged(&[&ada, &grace], &["oolong", "cups"]).await;

    server.kill();
    for page in [&ada, &grace] {
        page.until("document.querySelector('#line').dataset.state === 'offline'")
            .await;
    }
    write(&ada, "Ada brings sugar, too.\n").await;
    axe(&ada, "rooms-offline").await;
    let server = program(&data).listen(&address).start();
    for page in [&ada, &grace] {
        saved(page).await;
    }
    converged(&[&ada, &grace], &["oolong", "cups", "sugar"]).await;
    mary.eval("rooms.provider.connect()").await;
    saved(&mary).await;
    let all = ["oolong", "cake", "cups", "sugar"];
    converged(&[&ada, &grace, &mary], &all).await;
    for page in [&ada, &grace, &mary] {
        page.until("document.querySelectorAll('#people li').length === 3")
            .await;
    }

    // In addition to the text, over partysocket; it has reconnected.
    grace.until("rooms.talk.readyState === 1").await;
    ada.until("rooms.talk.readyState === 1").await;
    ada.fill("#say [name=text]", "Shall we say four o’clock?")
        .await;
    ada.click("#say button").await;
    grace
        .until("document.querySelector('#talk').textContent.includes('four o’clock')")
        .await;
    grace.fill("#say [name=text]", "Four it is!").await;
    grace.click("#say button").await;
    ada.until("document.querySelector('#talk').textContent.includes('Four it is!')")
        .await;
    axe(&ada, "rooms-document").await;

    let expected = text(&ada).await;
    assert!(server.stop().success());
    let server = program(&data).listen(&address).start();
    let stored = server.client().get("/parties/main/tea/text").await;
    assert_eq!(stored.body, serde_json::Value::String(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_page_sees_who_comes_and_who_goes_and_what_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--max-document-bytes=2000")
        .start();
    let base = format!("http://{}", server.address());
    let browser = Browser::start().await;
    axe(&browser.open(&base).await, "rooms-home").await;
    let ada = open(&browser, &base, "Ada").await;
    axe(&ada, "rooms-blank").await;
    let mut grace = Editor::connect(&server, "tea", 7).await;
    let state = grace
        .client
        .state(r##"{"user":{"name":"Grace","color":"#93c47d"}}"##);
    grace.say(state).await;
    ada.until("document.querySelector('#people').textContent.includes('Grace')")
        .await;
    // Her connection breaks.
    grace.line = None;
    ada.until("!document.querySelector('#people').textContent.includes('Grace')")
        .await;

    write(&ada, &"long ".repeat(600)).await;
    ada.until("document.querySelector('#line').dataset.state === 'refused'")
        .await;
    ada.until("document.querySelector('#refused').textContent.includes('the document is full')")
        .await;
    axe(&ada, "rooms-refused").await;
    let stored = server.client().get("/parties/main/tea/text").await;
    assert_eq!(stored.body, "");
}
