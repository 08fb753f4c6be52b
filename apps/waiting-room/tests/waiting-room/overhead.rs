//! What the waiting room costs a visitor who is inside, beside the bare origin.
//! `cargo test --release -p waiting-room --test waiting-room overhead:: -- --ignored --nocapture`
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::time::{Duration, Instant};

use crate::support::{Site, Visitor, WELCOME};
use abide_harness::{Client, Version, run};

/// Requests of each client in a measurement.
const REQUESTS: usize = 4_000;
const CLIENTS: usize = 16;
/// Measurements of each side, in turn.
const ROUNDS: usize = 5;

/// One client after the other request; how long each took.
async fn one_by_one(client: &Client, visitor: &Visitor) -> Vec<Duration> {
    let mut visitor = visitor.clone();
    let mut took = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let begun = Instant::now();
        assert_eq!(visitor.ask(client, "/").await.body, WELCOME);
        took.push(begun.elapsed());
    }
    took
}

/// Requests a second of several clients at once.
async fn throughput(client: &Client, visitor: &Visitor) -> f64 {
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let (client, mut visitor) = (client.clone(), visitor.clone());
        tokio::spawn(async move {
            for _ in 0..REQUESTS / 4 {
                assert_eq!(visitor.ask(&client, "/").await.body, WELCOME);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    (CLIENTS * REQUESTS / 4) as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

#[test]
#[ignore = "a measurement"]
fn a_visitor_who_is_inside_beside_the_bare_origin() {
    run(async {
        let site = Site::new("", "total_active_users = 10\nnew_users_per_minute = 1000").await;
        let server = site.start();
        let bare = Client::new(&site.origin.address, Version::Http1);
        let through = server.client();
        let mut visitor = Visitor::new();
        assert!(visitor.enters(&through).await);
        let (mut latencies, mut rates) = ([Vec::new(), Vec::new()], [0.0, 0.0]);
        for _ in 0..ROUNDS {
            for (side, client) in [&bare, &through].into_iter().enumerate() {
                latencies[side].extend(one_by_one(client, &visitor).await);
                rates[side] += throughput(client, &visitor).await / ROUNDS as f64;
            }
        }
        let [bare, through] = latencies.map(median);
        println!(
            "one request after the other, median: {bare:.0} µs bare, {through:.0} µs through, ratio {:.2}",
            through / bare
        );
        println!(
            "{CLIENTS} clients at once: {:.0} a second bare, {:.0} through, ratio {:.2}",
            rates[0],
            rates[1],
            rates[1] / rates[0]
        );
    });
}
