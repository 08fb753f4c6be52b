//! The pages in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use std::path::Path;

use abide_harness::{Browser, Page, run};
use support::{Site, Visitor, rush};

/// Pictures for people to look at, if they ask for them.
async fn pictures(page: &Page, name: &str) {
    if let Ok(pictures) = std::env::var("ABIDE_SCREENSHOTS") {
        for (looks, width, height, dark) in [
            ("wide", 1_280, 800, false),
            ("wide-dark", 1_280, 800, true),
            ("phone", 390, 844, false),
            ("phone-dark", 390, 844, true),
        ] {
            page.look(width, height, dark).await;
            page.screenshot(&Path::new(&pictures).join(format!("{name}-{looks}.png")))
                .await;
        }
        page.look(1_280, 800, false).await;
    }
}

#[test]
#[ignore = "needs Chromium"]
fn a_waiting_page_enters_when_there_is_a_slot() {
    run(async {
        let room = "total_active_users = 1\nnew_users_per_minute = 1000\nsession_duration = \"1s\"";
        let site = Site::new("minute = \"1s\"\nrefresh = \"2s\"", room).await;
        let server = site.start();
        let client = server.client();
        assert!(Visitor::new().enters(&client).await);
        let browser = Browser::start().await;
        let page = browser.open(&client.url("/")).await;
        page.until("document.title === 'You are in the queue'")
            .await;
        page.until("document.body?.innerText === 'welcome to the application'")
            .await;
    });
}

#[test]
#[ignore = "needs Chromium"]
fn the_queue_page_and_the_dashboard_show_the_room() {
    run(async {
        let room = "total_active_users = 40\nnew_users_per_minute = 1000";
        let site = Site::new("data_centre_header = \"x-data-centre\"", room)
            .await
            .arg("--data-centres=3")
            .arg("--delay=80ms");
        let server = site.start();
        let client = server.client();
        rush(&client, 60).await;
        for number in 0..60 {
            Visitor::new()
                .with("x-data-centre", &format!("dc-{}", number % 3 + 1))
                .enters(&client)
                .await;
        }
        let browser = Browser::start().await;
        let page = browser.open(&client.url("/")).await;
        page.until("document.title === 'You are in the queue'")
            .await;
        page.until("Number(document.querySelector('dd')?.textContent) >= 80")
            .await;
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        page.look(390, 844, false).await;
        page.until(fits).await;
        pictures(&page, "queue").await;
        page.go(&client.url("/.waiting-room")).await;
        page.until("document.querySelectorAll('tbody tr').length === 3")
            .await;
        page.until("document.querySelector('.numbers dd')?.textContent.startsWith('40 of 40')")
            .await;
        page.look(390, 844, false).await;
        page.until(fits).await;
        pictures(&page, "dashboard").await;
    });
}
