//! Bookmarks are valid after `kill -9`: a server is killed and started again while values change and bookmarks are taken;
//! then the object is brought back to each of them, in a random order, by the command, with kills in between.
//! `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the order.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command};

use abide_harness::{Program, Random, Server, setting};
use http::StatusCode;
use serde_json::{Value, json};

const VALUE: &str = "/kv/ada/value";

fn start(data: &Path) -> Server {
    Program::new(env!("CARGO_BIN_EXE_abide"), data).start()
}

/// What the command prints.
async fn abide(server: &Server, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    let admin = format!("http://{}", server.admin());
    command
        .args(args)
        .args(["--object", "Kv/ada", "--admin", &admin]);
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
        marks.push((abide(&server, &["bookmark"]).await, json!(next)));
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
        abide(&server, &["restore", "--bookmark", &bookmark]).await;
        if random.below(2) == 0 {
            server.kill();
            server = start(&data);
        }
        assert_eq!(value(&server).await, expected, "seed {seed}, {bookmark}");
    }
    assert!(server.stop().success(), "a clean stop");
}
