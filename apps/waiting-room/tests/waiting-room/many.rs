//! Ten thousand visitors in the queue at once, with figures. `cargo test --release -p waiting-room --test waiting-room many:: -- --ignored --nocapture`
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{Site, Visitor, status, until_status};
use abide_harness::{Client, run};
use tokio::sync::Semaphore;

const VISITORS: usize = 10_000;
const INSIDE: usize = 500;
/// Requests that are under way at once.
const AT_ONCE: usize = 256;

/// All visitors ask once. Those who enter, and how long each answer took, sorted.
async fn round(client: &Client, visitors: &mut Vec<Visitor>) -> (usize, Vec<Duration>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let asking = visitors.drain(..).map(|mut visitor| {
        let (client, places) = (client.clone(), Arc::clone(&places));
        tokio::spawn(async move {
            let _place = places.acquire().await.unwrap();
            let begun = Instant::now();
            let enters = visitor.enters(&client).await;
            (visitor, enters, begun.elapsed())
        })
    });
    let asking = asking.collect::<Vec<_>>();
    let (mut entered, mut took) = (0, Vec::new());
    for asking in asking {
        let (visitor, enters, time) = asking.await.unwrap();
        entered += usize::from(enters);
        took.push(time);
        visitors.push(visitor);
    }
    took.sort();
    (entered, took)
}

fn say(what: &str, begun: Instant, took: &[Duration]) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what}: {:.0} a second; median {:.1} ms, 99 % {:.1} ms, at most {:.1} ms",
        took.len() as f64 / seconds,
        took[took.len() / 2].as_secs_f64() * 1e3,
        took[took.len() * 99 / 100].as_secs_f64() * 1e3,
        took[took.len() - 1].as_secs_f64() * 1e3,
    );
}

#[test]
#[ignore = "takes a minute"]
fn ten_thousand_visitors_wait_at_once() {
    run(async {
        let room = format!(
            "total_active_users = {INSIDE}\nnew_users_per_minute = 100000\nsession_duration = \"1h\""
        );
        let site = Site::new("refresh = \"60s\"", &room).await;
        let server = site
            .program()
            .env("ABIDE__SERVER__MAX_CONNECTIONS_PER_CLIENT", "10000")
            .start();
        let client = server.client();
        let mut visitors = vec![Visitor::new(); VISITORS + INSIDE];
        let begun = Instant::now();
        let (entered, took) = round(&client, &mut visitors).await;
        say("come", begun, &took);
        assert_eq!(entered, INSIDE);
        until_status(&client, "queued", VISITORS as u64).await;
        let begun = Instant::now();
        let (inside, took) = round(&client, &mut visitors).await;
        say("look again", begun, &took);
        assert_eq!(inside, INSIDE, "visitors inside stay, and no others enter");
        assert_eq!(status(&client).await["queued"], VISITORS);
        println!(
            "peak memory of the server: {} MiB",
            server.peak_memory() >> 20
        );
    });
}
