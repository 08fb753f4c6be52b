//! Bookmarks are valid after `kill -9`: a server is killed and started again while values change and bookmarks are taken;
//! then the object is brought back to each of them, in a random order, by the command, with kills in between.
//! No message of an outbox is lost either, whenever the server is killed: what was taken is delivered, in order for each
//! ordering key, and twice only where an answer was lost.
//!
//! `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the order.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::HashMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide_harness::{
    Client, Program, Random, Received, Receiver, ReceiverAct, Server, setting, until,
};
use http::StatusCode;
use serde_json::{Value, json};

const VALUE: &str = "/kv/ada/value";

fn start(data: &Path) -> Server {
    Program::new(env!("CARGO_BIN_EXE_abide"), data).start()
}

/// What the command prints.
async fn abide(data: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).args(["Kv/ada", "--data"]);
    command.arg(data);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

async fn value(server: &Server) -> Value {
    let answer = server.client().get(VALUE).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bookmark_brings_its_state_back_after_kill_9() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3).min(20);
    let seed = setting("ABIDE_CRASH_SEED", 0xB00C);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut marks: Vec<(String, Value)> = Vec::new();
    let mut next = 0;
    for _ in 0..rounds {
        let server = start(&data);
        if let Some((_, newest)) = marks.last() {
            assert_eq!(value(&server).await, *newest, "what was acknowledged");
        }
        for _ in 0..=random.below(20) {
            next += 1;
            let put = server.client().put(VALUE, &json!(next)).await;
            assert!(put.status.is_success(), "{put:?}");
        }
        marks.push((abide(&data, &["bookmark"]).await, json!(next)));
        server.kill();
    }
    assert!(
        marks.is_sorted_by(|(one, _), (other, _)| one < other),
        "bookmarks order as text: {marks:?}"
    );

    let mut server = start(&data);
    while !marks.is_empty() {
        let at = random.below(u32::try_from(marks.len()).unwrap()) as usize;
        let (bookmark, expected) = marks.swap_remove(at);
        abide(&data, &["restore", "--bookmark", &bookmark]).await;
        if random.below(2) == 0 {
            server.kill();
            server = start(&data);
        }
        assert_eq!(value(&server).await, expected, "seed {seed}, {bookmark}");
    }
    assert!(server.stop().success(), "a clean stop");
}

const OUTBOX: &str = "/outbox/orders";

/// Which message a request carries.
fn number(request: &Received) -> u32 {
    u32::try_from(request.json()["number"].as_u64().unwrap()).unwrap()
}

async fn until_idle(client: &Client) {
    until("all messages to be sent", async || {
        let counts = client.get(OUTBOX).await.body["counts"].clone();
        assert_eq!(counts["failed"], 0, "{counts}");
        (counts["queued"] == 0 && counts["sending"] == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_and_each_key_s_order_is_kept_after_kill_9() {
    const KEYS: u32 = 3;
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3);
    let seed = setting("ABIDE_CRASH_SEED", 0x0B0C);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let receiver = Receiver::start().await;
    // How often a message had its effect, and in which order messages arrived.
    let taken = Arc::new(Mutex::new(HashMap::<u32, u32>::new()));
    let (noted, mut fate) = (Arc::clone(&taken), Random::new(seed + 1));
    receiver.decide(move |request| {
        let act = match fate.below(8) {
            0 => return ReceiverAct::status(503).retry_after(0),
            1 => ReceiverAct::lost(),
            _ => ReceiverAct::status(200),
        };
        let number = number(request);
        *noted.lock().unwrap().entry(number).or_default() += 1;
        act.after(Duration::from_millis(u64::from(fate.below(20))))
    });
    let program = Program::new(env!("CARGO_BIN_EXE_abide"), &data)
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
        .env("ABIDE__OUTBOX__RETRY_BASE", "10ms")
        .env("ABIDE__OUTBOX__RETRY_MAX", "50ms")
        .env("ABIDE__OUTBOX__MAX_ATTEMPTS", "1000");

    let mut count = 0;
    for _ in 0..rounds {
        let server = program.start();
        for _ in 0..=random.below(20) {
            let body = json!({ "json": { "number": count } });
            let message = json!({
                "kind": "http",
                "payload": { "url": receiver.url("/orders"), "body": body },
                "ordering_key": (count % KEYS).to_string(),
            });
            let answer = server
                .client()
                .post(&format!("{OUTBOX}/messages"), &message)
                .await;
            assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
            count += 1;
        }
        tokio::time::sleep(Duration::from_millis(u64::from(random.below(100)))).await;
        server.kill();
    }

    let server = program.start();
    let client = server.client();
    until_idle(&client).await;
    for key in 0..KEYS {
        let arrived = receiver
            .received()
            .into_iter()
            .map(|request| number(&request));
        let mut arrived = arrived
            .filter(|number| number % KEYS == key)
            .collect::<Vec<_>>();
        assert!(arrived.is_sorted(), "seed {seed}, key {key}: {arrived:?}");
        arrived.dedup();
        let all = (0..count)
            .filter(|number| number % KEYS == key)
            .collect::<Vec<_>>();
        assert_eq!(arrived, all, "seed {seed}, key {key}: nothing is lost");
    }
    let taken = taken.lock().unwrap().clone();
    for number in 0..count {
        let shown = client
            .get(&format!("{OUTBOX}/messages/{}", number + 1))
            .await
            .body;
        let lost = shown["history"].as_array().unwrap().iter();
        let lost = lost.filter(|change| change["event"] == "unknown").count();
        let taken = taken.get(&number).copied().unwrap_or(0) as usize;
        assert!(
            (1..=lost + 1).contains(&taken),
            "seed {seed}: taken {taken} times, {shown}"
        );
    }
    assert!(server.stop().success(), "a clean stop");
}
