//! A post that was answered 202 arrives upstream, in order, whatever `kill -9` comes between.
//!
//! Posts go to several names while the process is killed and started again. The upstream notes what it is sent; it
//! refuses some batches and loses the answers to others. At the end each name's posts have all arrived in the order in
//! which they were taken; what arrived twice came in a batch with a key that was seen before.
//! `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the sequence of moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use abide_harness::{Program, Random, setting, until};
use axum::{Router, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use http::Method;
use serde_json::Value;
use tokio::sync::watch;

const NAMES: u32 = 3;
const MOST_POSTS: u32 = 60;

/// What has arrived: each batch by its key, in the order of first arrival.
#[derive(Default)]
struct Arrived {
    order: Vec<String>,
    batches: BTreeMap<String, Vec<Value>>,
    requests: u32,
}

type Shared = Arc<(Mutex<Arrived>, watch::Sender<usize>)>;

async fn take(State(shared): State<Shared>, headers: HeaderMap, body: String) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let posts: Vec<Value> = serde_json::from_str(&body).unwrap();
    let (status, count) = {
        let mut arrived = shared.0.lock().unwrap();
        arrived.requests += 1;
        if arrived.requests % 5 == 0 {
            // Refused: nothing of it counts.
            (StatusCode::SERVICE_UNAVAILABLE, None)
        } else {
            if let Some(before) = arrived.batches.get(&key) {
                assert_eq!(*before, posts, "a repeat is the same batch");
            } else {
                arrived.order.push(key.clone());
                arrived.batches.insert(key, posts);
            }
            let count = arrived.batches.values().map(Vec::len).sum::<usize>();
            // Sometimes it is taken and the answer says otherwise.
            let status = if arrived.requests % 7 == 0 {
                StatusCode::GATEWAY_TIMEOUT
            } else {
                StatusCode::OK
            };
            (status, Some(count))
        }
    };
    if let Some(count) = count {
        shared.1.send_replace(count);
    }
    status
}

fn program(data: &Path, upstream: &str) -> Program {
    Program::new(env!("CARGO_BIN_EXE_batcher"), data)
        .arg(&format!("--upstream={upstream}"))
        .arg("--window-ms=30")
        .arg("--retry-ms=20")
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_post_that_was_accepted_arrives_in_order_across_kill_9() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 4);
    let seed = setting("ABIDE_CRASH_SEED", 0xBA7C);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let shared: Shared = Arc::new((Mutex::default(), watch::channel(0).0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/", post(take))
        .with_state(Arc::clone(&shared));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });

    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // The posts of each name that were accepted, by the id that each was given.
    let mut accepted: BTreeMap<u32, BTreeMap<i64, u32>> = BTreeMap::new();
    let next = Arc::new(AtomicU32::new(0));
    for _ in 0..rounds {
        let server = program(&data, &upstream).start();
        let count = Arc::new(watch::channel(0_u32).0);
        let mut writers = Vec::new();
        for name in 0..NAMES {
            let (client, next, count) = (server.client(), Arc::clone(&next), Arc::clone(&count));
            writers.push(tokio::spawn(async move {
                let mut taken = BTreeMap::new();
                loop {
                    let value = next.fetch_add(1, Ordering::Relaxed);
                    let path = format!("/batches/n{name}");
                    let body = format!("[{name},{value}]");
                    match client.try_ask(Method::POST, &path, &body).await {
                        Ok(answer) => {
                            assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
                            taken.insert(answer.body["id"].as_i64().unwrap(), value);
                            count.send_modify(|count| *count += 1);
                        }
                        Err(_killed) => return (name, taken),
                    }
                }
            }));
        }
        let moment = 1 + random.below(MOST_POSTS);
        let mut counted = count.subscribe();
        counted.wait_for(|count| *count >= moment).await.unwrap();
        server.kill();
        for writer in writers {
            let (name, taken) = writer.await.unwrap();
            accepted.entry(name).or_default().extend(taken);
        }
    }

    let server = program(&data, &upstream).start();
    for name in 0..NAMES {
        let path = format!("/batches/n{name}");
        until("everything to be delivered", async || {
            (server.client().get(&path).await.body["waiting"] == 0).then_some(())
        })
        .await;
    }
    assert!(server.stop().success(), "a clean stop");
    serving.abort();

    let arrived = shared.0.lock().unwrap();
    let mut by_name: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for key in &arrived.order {
        for post in &arrived.batches[key] {
            let number = |at: usize| u32::try_from(post[at].as_u64().unwrap()).unwrap();
            by_name.entry(number(0)).or_default().push(number(1));
        }
    }
    let mut total = 0;
    for (name, accepted) in &accepted {
        // Posts whose answer was lost may be there, too; the others are, in the order of their ids.
        let arrived = &by_name[name];
        let expected: Vec<u32> = accepted.values().copied().collect();
        let found: Vec<u32> = arrived
            .iter()
            .copied()
            .filter(|value| expected.contains(value))
            .collect();
        assert_eq!(found, expected, "name {name}, seed {seed}");
        total += expected.len();
    }
    println!(
        "{total} posts in {} batches, {} requests",
        arrived.order.len(),
        arrived.requests
    );
}
