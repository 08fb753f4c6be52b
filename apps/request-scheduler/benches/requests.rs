//! Very many scheduled requests: how fast they are made, what a waiting one costs, how late they fire.
//!
//! `cargo bench -p request-scheduler --bench requests -- --requests 100000 --spread 60` makes that many requests that run once, due evenly over
//! a minute that begins when all are made, and waits until the receiver has had each of them. Lateness is from `triggerAt` to
//! the arrival at the receiver, in the same machine. The program runs as a child process.
#![allow(clippy::unwrap_used, reason = "a bench ends where it fails")]

use std::{
    collections::HashMap,
    path::Path,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use abide_harness::{Client, Program, Receiver, ReceiverAct};
use clap::Parser;
use serde_json::json;

/// Measures very many scheduled requests
#[derive(Clone, Parser)]
struct Args {
    /// Scheduled requests
    #[arg(long, default_value_t = 20_000)]
    requests: i64,
    /// Clients that make them at a time
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Seconds over which their times are spread
    #[arg(long, default_value_t = 60)]
    spread: u64,
    /// Seconds that making them may take: their times begin behind it
    #[arg(long, default_value_t = 60)]
    ahead: u64,
    /// Only make them: none fires
    #[arg(long)]
    make_only: bool,
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let receiver = Receiver::start().await;
    let arrived: Arc<Mutex<HashMap<String, i64>>> = Arc::default();
    let noted = Arc::clone(&arrived);
    receiver.decide(move |request| {
        noted
            .lock()
            .unwrap()
            .entry(request.path().to_owned())
            .or_insert_with(now);
        ReceiverAct::status(200)
    });
    let server = Program::new(env!("CARGO_BIN_EXE_request-scheduler"), &data)
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
        .arg(&format!("--max-requests={}", args.requests + 1))
        .start();
    let empty = server.peak_memory();

    let begun = Instant::now();
    let ahead = if args.make_only {
        24 * 3_600
    } else {
        args.ahead
    };
    let first = now() + i64::try_from(ahead * 1_000).unwrap();
    let refused = make_all(&server.client(), &receiver.url(""), &args, first).await;
    let making = begun.elapsed();
    report("requests", args.requests);
    report(
        "made per second",
        args.requests * 1_000 / i64::try_from(making.as_millis()).unwrap(),
    );
    report("refused as overload, and repeated", refused);

    let client = server.client();
    let listing = Instant::now();
    wait_for_index(&client, args.requests).await;
    report(
        "ms until the index had the last",
        listing.elapsed().as_millis(),
    );
    report(
        "ms for a page of 50",
        time_of(&client, "/api/requests").await,
    );
    report(
        "bytes on disk for each",
        size(&data) / args.requests.unsigned_abs(),
    );
    report(
        "bytes of memory for each, at most",
        (server.peak_memory() - empty) / args.requests.unsigned_abs(),
    );
    report("MiB of memory, at most", server.peak_memory() >> 20);
    if args.make_only {
        return ExitCode::SUCCESS;
    }
    if now() > first {
        println!("making them took longer than --ahead: lateness below includes that");
    }

    while i64::try_from(arrived.lock().unwrap().len()).unwrap() < args.requests {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let span = (now() - first).max(1);
    report("fired per second", args.requests * 1_000 / span);
    let arrived = arrived.lock().unwrap();
    let mut late: Vec<i64> = (0..args.requests)
        .map(|number| arrived[&format!("/{number}")] - (first + offset(&args, number)))
        .collect();
    late.sort_unstable();
    for (name, share) in [("p50", 500), ("p99", 990), ("p99.9", 999), ("max", 1_000)] {
        let place = (late.len() * share / 1_000).clamp(1, late.len()) - 1;
        report(&format!("ms late, {name}"), late[place]);
    }
    let early = late.iter().filter(|late| **late < 0).count();
    report("too early", early);
    report("requests received", receiver.received().len());
    report("MiB of memory, at most", server.peak_memory() >> 20);
    if early > 0 {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// How long after the first a request is due.
fn offset(args: &Args, number: i64) -> i64 {
    let spread = i64::try_from(args.spread * 1_000).unwrap();
    number * spread / args.requests
}

/// Makes all; how often the server had too much to do.
async fn make_all(client: &Client, receiver: &str, args: &Args, first: i64) -> usize {
    let (next, refused) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(0)));
    let makers: Vec<_> = (0..args.clients)
        .map(|_| {
            let (client, next, receiver) = (client.clone(), Arc::clone(&next), receiver.to_owned());
            let refused = Arc::clone(&refused);
            let args = args.clone();
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.requests {
                        return;
                    }
                    let at = first + offset(&args, number);
                    let definition =
                        json!({ "url": format!("{receiver}/{number}"), "triggerAt": at });
                    // A server that has too much to do says so, and its clients come again.
                    while client.post("/", &definition).await.status != 201 {
                        refused.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            })
        })
        .collect();
    for maker in makers {
        maker.await.unwrap();
    }
    refused.load(Ordering::Relaxed)
}

async fn wait_for_index(client: &Client, requests: i64) {
    loop {
        let counts = client.get("/api/counts").await.body;
        let all: u64 = counts
            .as_object()
            .unwrap()
            .values()
            .filter_map(serde_json::Value::as_u64)
            .sum();
        if all >= requests.unsigned_abs() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn time_of(client: &Client, path: &str) -> u128 {
    let begun = Instant::now();
    assert_eq!(client.get(path).await.status, 200);
    begun.elapsed().as_millis()
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Bytes that a directory takes on disk.
fn size(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entry) = path.symlink_metadata() else {
        return 0;
    };
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
    let inside: u64 = inside.map(|entry| size(&entry.path())).sum();
    entry.blocks() * 512 + inside
}

fn report(name: &str, value: impl std::fmt::Display) {
    println!("{name:<36} {value:>12}");
}
