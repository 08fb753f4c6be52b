//! A node that ships its log: what was shipped, or acknowledged with `archive.sync`, survives the loss of its machine.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use abide_harness::{Client, Program, Random, Server, refused, setting, until};
use http::{Method, StatusCode};
use serde_json::json;

use crate::backup::{World, copied, get, put};

/// How many write at once.
const WRITERS: usize = 8;

/// Longer than a node that was replaced takes to end.
const ENOUGH: Duration = Duration::from_secs(20);

/// A node whose log is not archived while it runs: what the store has of it was shipped.
fn program(world: &World, name: &str) -> Program {
    world
        .program(name)
        .env("ABIDE__STORAGE__CHECKPOINT_INTERVAL", "1h")
        .env("ABIDE__ARCHIVE__SHIP_INTERVAL", "20ms")
}

pub(crate) fn in_sync(world: &World, name: &str) -> Program {
    program(world, name).env("ABIDE__ARCHIVE__SYNC", "true")
}

/// Clients of one node, each of which writes the numbers from 1 on under its own key.
pub(crate) struct Writers {
    acknowledged: Vec<Arc<AtomicU32>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    pub(crate) fn start(server: &Server, from: &[u32]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged: Vec<_> = from
            .iter()
            .map(|from| Arc::new(AtomicU32::new(*from)))
            .collect();
        let tasks = acknowledged
            .iter()
            .enumerate()
            .map(|(writer, acknowledged)| {
                let write = write(
                    server.client(),
                    writer,
                    Arc::clone(acknowledged),
                    Arc::clone(&stop),
                );
                tokio::spawn(write)
            });
        Self {
            tasks: tasks.collect(),
            acknowledged,
            stop,
        }
    }

    pub(crate) fn written(&self) -> Vec<u32> {
        self.acknowledged.iter().map(|of| of.load(SeqCst)).collect()
    }

    /// Stops them, and returns what each was told to be written. A request to a node that is gone may never end.
    pub(crate) async fn stop(mut self) -> Vec<u32> {
        self.stop.store(true, SeqCst);
        for task in &mut self.tasks {
            if tokio::time::timeout(ENOUGH, &mut *task).await.is_err() {
                task.abort();
            }
        }
        self.written()
    }
}

async fn write(client: Client, writer: usize, acknowledged: Arc<AtomicU32>, stop: Arc<AtomicBool>) {
    let path = format!("/kv/writer{writer}/value/number");
    while !stop.load(SeqCst) {
        let next = acknowledged.load(SeqCst) + 1;
        let answer = client.try_ask(Method::PUT, &path, &next.to_string()).await;
        match answer {
            Ok(answer) if answer.status.is_success() => acknowledged.store(next, SeqCst),
            // It is gone.
            _ => return,
        }
    }
}

pub(crate) async fn read(server: &Server) -> Vec<u32> {
    let mut values = Vec::new();
    for writer in 0..WRITERS {
        let path = format!("/kv/writer{writer}/value/number");
        let answer = server.client().get(&path).await;
        values.push(match answer.status {
            StatusCode::NOT_FOUND => 0,
            _ => u32::try_from(answer.body.as_u64().unwrap()).unwrap(),
        });
    }
    values
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_shipped_survives_the_loss_of_the_machine() {
    let world = World::new();
    let mut server = program(&world, "0").start();
    for round in 0..3_u32 {
        for key in 0..20 {
            put(&server, key, key + 100 * round).await;
        }
        copied(&server).await;
        server.kill();
        fs::remove_dir_all(world.data(&round.to_string())).unwrap();
        let next = (round + 1).to_string();
        let said = world.restore(&next, &["--take-over"]).await.unwrap();
        assert!(said.contains("commits are from the shipped log"), "{said}");
        server = program(&world, &next).start();
        for key in 0..20 {
            assert_eq!(get(&server, key).await, Some(key + 100 * round));
        }
    }
    assert!(server.stop().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sync_no_acknowledged_write_is_lost_with_the_machine() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 2);
    let world = World::new();
    let mut random = Random::new(11);
    let mut server = in_sync(&world, "0").start();
    let mut values = vec![0; WRITERS];
    for round in 0..rounds {
        let writers = Writers::start(&server, &values);
        let enough = 3 + random.below(30);
        let begun: u32 = values.iter().sum();
        until("writes", async || {
            let written: u32 = writers.written().iter().sum();
            (written > begun + 8 * enough).then_some(())
        })
        .await;
        server.kill();
        let written = writers.stop().await;
        fs::remove_dir_all(world.data(&round.to_string())).unwrap();
        let next = (round + 1).to_string();
        world.restore(&next, &["--take-over"]).await.unwrap();
        server = in_sync(&world, &next).start();
        let there = read(&server).await;
        for writer in 0..WRITERS {
            // The next one was on its way.
            let may_be = written[writer]..=written[writer] + 1;
            assert!(may_be.contains(&there[writer]), "{written:?} {there:?}");
        }
        values = there;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sync_an_owner_that_was_replaced_acknowledges_nothing_more() {
    let world = World::new();
    let server = in_sync(&world, "0").start();
    let writers = Writers::start(&server, &[0; WRITERS]);
    until("writes", async || {
        let is_busy = writers.written().iter().all(|written| *written > 20);
        is_busy.then_some(())
    })
    .await;
    world.restore("1", &["--take-over"]).await.unwrap();
    let written = writers.stop().await;
    drop(server);
    let other = in_sync(&world, "1").start();
    let there = read(&other).await;
    for writer in 0..WRITERS {
        let may_be = written[writer]..=written[writer] + 1;
        assert!(may_be.contains(&there[writer]), "{written:?} {there:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sync_answers_wait_while_the_store_is_away() {
    let world = World::new();
    let server = in_sync(&world, "0").start();
    put(&server, 1, 11).await;
    let (copies, aside) = (
        world.dir.path().join("copies"),
        world.dir.path().join("aside"),
    );
    fs::rename(&copies, &aside).unwrap();
    fs::write(&copies, "not a directory").unwrap();
    let client = server.client();
    let mut written = tokio::spawn(async move { client.put("/kv/ada2/value2", &json!(22)).await });
    let admin = server.admin_client();
    until("the node to say it", async || {
        let ready = admin.try_ask(Method::GET, "/readyz", "").await.ok()?;
        ready
            .body
            .to_string()
            .contains("copies_stalled")
            .then_some(())
    })
    .await;
    assert!(!written.is_finished());
    fs::remove_file(&copies).unwrap();
    fs::rename(&aside, &copies).unwrap();
    let answer = tokio::time::timeout(Duration::from_mins(1), &mut written).await;
    assert!(answer.unwrap().unwrap().status.is_success());
    assert_eq!(get(&server, 1).await, Some(11));
}

#[test]
fn sync_needs_a_store_to_wait_for() {
    let world = World::new();
    let without = world
        .program("0")
        .env("ABIDE__ARCHIVE__SYNC", "true")
        .env("ABIDE__ARCHIVE__URL", "off");
    let (_, said) = refused(without.command());
    assert!(said.contains("archive.sync needs archive.url"), "{said}");
    let off = in_sync(&world, "0").env("ABIDE__ARCHIVE__SHIP_INTERVAL", "off");
    let (_, said) = refused(off.command());
    assert!(said.contains("archive.ship_interval is off"), "{said}");
}
