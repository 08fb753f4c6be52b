//! The pages in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::support::{Site, Visitor, rush};
use abide_harness::{Browser, axe, run};

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
#[ignore = "needs Chromium and npm"]
fn the_pages_of_a_full_room_and_of_the_example_are_accessible() {
    run(async {
        let room =
            "total_active_users = 1\nnew_users_per_minute = 1000\nqueueing_method = \"reject\"";
        let site = Site::new("", room).await;
        let server = site.start();
        let client = server.client();
        assert!(Visitor::new().enters(&client).await);
        let browser = Browser::start().await;
        let page = browser.open(&client.url("/")).await;
        page.until("document.title === 'We are full at the moment'")
            .await;
        axe(&page, "waiting-room-full").await;
        let mut origin = Command::new(env!("CARGO_BIN_EXE_waiting-room"))
            .args(["demo-origin", "--listen=127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = origin.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let (_, address) = line.trim().split_once("with: ").unwrap();
        page.go(address).await;
        axe(&page, "waiting-room-origin").await;
        origin.kill().unwrap();
        origin.wait().unwrap();
    });
}

#[test]
#[ignore = "needs Chromium and npm"]
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
        axe(&page, "waiting-room-queue").await;
        page.go(&client.url("/.waiting-room")).await;
        page.until("document.querySelectorAll('tbody tr').length === 3")
            .await;
        page.until("document.querySelector('.numbers dd')?.textContent.startsWith('40 of 40')")
            .await;
        axe(&page, "waiting-room-dashboard").await;
    });
}
