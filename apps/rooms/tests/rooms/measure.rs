//! How fast a room relays, and how small a document stays: figures for the machine at hand, printed.
//!
//! `cargo test --release -p rooms --test rooms measure:: -- --ignored --nocapture --test-threads 1`
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::time::{Duration, Instant};

use crate::support::{Editor, Line, connect, program, text};
use futures_util::{SinkExt, StreamExt, stream::SplitStream};
use tokio_tungstenite::tungstenite::Message;

const LISTENERS: usize = 9;
const MESSAGES: usize = 20_000;
const PINGS: usize = 2_000;
const EDITS: u32 = 10_000;

/// The given percentile of sorted times.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn print_latency(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (half, most) = (percentile(&times, 50), percentile(&times, 99));
    println!("{what}: p50 {half:.0?}, p99 {most:.0?} of {}", times.len());
}

/// Hears every message, in order.
async fn listen(mut line: SplitStream<Line>) {
    let mut next = 0;
    while next < MESSAGES {
        if let Message::Text(text) = line.next().await.unwrap().unwrap() {
            assert_eq!(text.as_str(), next.to_string());
            next += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn messages_in_a_channel() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let mut listeners = Vec::new();
    for one in 0..LISTENERS {
        let line = connect(server.address(), "channel", "busy", &format!("_pk={one}")).await;
        let (answers, line) = line.unwrap().split();
        // The sending half keeps the connection.
        listeners.push((answers, tokio::spawn(listen(line))));
    }
    let ada = connect(server.address(), "channel", "busy", "_pk=ada").await;
    let mut ada = ada.unwrap();
    let begun = Instant::now();
    for number in 0..MESSAGES {
        ada.feed(Message::text(number.to_string())).await.unwrap();
    }
    ada.flush().await.unwrap();
    for (_, listener) in &mut listeners {
        listener.await.unwrap();
    }
    let rate = MESSAGES as f64 / begun.elapsed().as_secs_f64();
    println!("channel: {rate:.0} messages/s from one to {LISTENERS}");

    let mut grace = connect(server.address(), "channel", "quiet", "_pk=grace")
        .await
        .unwrap();
    let mut mary = connect(server.address(), "channel", "quiet", "_pk=mary")
        .await
        .unwrap();
    let mut times = Vec::new();
    for _ in 0..PINGS {
        let begun = Instant::now();
        grace.send(Message::text("ping")).await.unwrap();
        assert_eq!(text(&mut mary).await, "ping");
        times.push(begun.elapsed());
    }
    print_latency("channel, from one to another", times);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn edits_of_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let mut ada = Editor::connect(&server, "pad", 1).await;
    let mut grace = Editor::connect(&server, "pad", 2).await;
    let mut times = Vec::new();
    for turn in 0..PINGS as u32 {
        let begun = Instant::now();
        assert!(ada.insert(turn, "x").await);
        while grace.client.length() <= turn {
            assert!(grace.hear().await);
        }
        times.push(begun.elapsed());
        while ada.client.updates <= turn {
            assert!(ada.hear().await);
        }
    }
    print_latency("document, from one to another, on disk", times);

    // A user types, and now and then deletes what was typed last.
    let mut sent = 0;
    let mut most = 0;
    let client = server.client();
    let mut writer = Editor::connect(&server, "novel", 1).await;
    let begun = Instant::now();
    for turn in 1..=EDITS {
        let length = writer.client.length();
        let update = if turn % 4 == 0 {
            writer.client.remove(length - 1, 1)
        } else {
            writer.client.insert(length, "w")
        };
        sent += update.len();
        assert!(writer.say(update).await);
        if turn % 100 == 0 {
            assert!(writer.settle().await);
            let status = client.get("/parties/main/novel").await.body;
            let bytes = |name: &str| status[name].as_u64().unwrap();
            most = most.max(bytes("snapshot_bytes") + bytes("update_bytes"));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let status = client.get("/parties/main/novel").await.body;
    println!(
        "document: {EDITS} edits in {seconds:.1} s, {sent} bytes sent; at most {most} bytes stored; in the end {status}"
    );
    assert!(most < sent as u64 / 2, "updates are merged");
    let reader = Editor::connect(&server, "novel", 2).await;
    assert_eq!(reader.client.text(), writer.client.text());
}
