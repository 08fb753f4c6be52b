//! A lazy restore, and a standby that is promoted.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};

use abide_harness::{refused, setting, until};

use crate::{
    backup::{World, copied, get, put},
    shipped::{Writers, in_sync, read},
};

/// A standby as a child process.
struct Standby {
    process: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Standby {
    fn start(world: &World, name: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        let data = world.data(name);
        command
            .args([
                "standby",
                "--from",
                world.url(),
                "--interval",
                "100ms",
                "--data",
            ])
            .arg(&data)
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let out = BufReader::new(process.stdout.take().unwrap());
        let tell = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in out.lines() {
                tell.lock().unwrap().push(line.unwrap());
            }
        });
        Self { process, said }
    }

    async fn until_it_says(&self, text: &str) {
        until(text, async || {
            let said = self.said.lock().unwrap();
            said.iter().any(|line| line.contains(text)).then_some(())
        })
        .await;
    }

    /// Waits for the manifest that is the newest now, or a later one.
    async fn until_it_has(&self, world: &World) {
        let listed = world
            .abide(&["history", "--from", world.url()])
            .await
            .unwrap();
        let newest = listed.lines().nth(1).unwrap().split('\t').next().unwrap();
        let newest: u64 = newest.parse().unwrap();
        let number = |line: &String| {
            let (_, rest) = line.split_once("has manifest ")?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        until("the newest manifest", async || {
            let said = self.said.lock().unwrap();
            let mut numbers = said.iter().filter_map(number);
            numbers.any(|number| number >= newest).then_some(())
        })
        .await;
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn promote(world: &World, name: &str) -> Result<String, String> {
    let data = world.data(name);
    let args = ["promote", "--from", world.url(), "--data"];
    world
        .abide(&[&args[..], &[data.to_str().unwrap()]].concat())
        .await
}

fn has_files(data: &Path) -> bool {
    fs::read_dir(data.join("objects")).is_ok_and(|mut classes| classes.next().is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazily_restored_node_serves_at_once_and_writes_its_files() {
    let world = World::new();
    // What is copied is in runs.
    let first = world.program("0");
    let server = first.env("ABIDE__ARCHIVE__SHIP_INTERVAL", "off").start();
    for key in 0..40 {
        put(&server, key, key).await;
    }
    copied(&server).await;
    drop(server);
    fs::remove_dir_all(world.data("0")).unwrap();
    let said = world
        .restore("1", &["--take-over", "--lazy"])
        .await
        .unwrap();
    assert!(said.contains("ready to be served, as of"), "{said}");
    assert!(said.contains("stay in the store"), "{said}");
    assert!(!has_files(&world.data("1")));
    for how in [&["--take-over", "--lazy", "--at", "-1s"][..], &["--lazy"]] {
        assert!(world.restore("2", how).await.is_err());
    }
    let server = world.program("1").start();
    for key in (0..40).step_by(3) {
        assert_eq!(get(&server, key).await, Some(key));
        put(&server, key, key + 1000).await;
    }
    // As after a crash in the middle.
    server.kill();
    let server = world.program("1").start();
    let admin = server.admin_client();
    admin
        .until_shown(&["\nabide_hydration_parts_left 0\n"])
        .await;
    copied(&server).await;
    drop(server);
    fs::remove_dir_all(world.data("1")).unwrap();
    world.restore("3", &["--take-over"]).await.unwrap();
    let server = world.program("3").start();
    for key in 0..40 {
        let added = if key % 3 == 0 { 1000 } else { 0 };
        assert_eq!(get(&server, key).await, Some(key + added));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_has_everything_that_was_acknowledged() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 2).min(4);
    let world = World::new();
    let mut server = in_sync(&world, "0")
        .env("ABIDE__STORAGE__CHECKPOINT_INTERVAL", "200ms")
        .start();
    let mut values = vec![0; 8];
    for round in 1..=rounds {
        let next = round.to_string();
        let writers = Writers::start(&server, &values);
        let standby = Standby::start(&world, &next);
        let begun: u32 = values.iter().sum();
        until("writes", async || {
            let written: u32 = writers.written().iter().sum();
            (written > begun + 100).then_some(())
        })
        .await;
        standby.until_it_has(&world).await;
        server.kill();
        let written = writers.stop().await;
        let lost = world.data(&(round - 1).to_string());
        fs::remove_dir_all(lost).unwrap();
        let gone = Instant::now();
        let said = promote(&world, &next).await.unwrap();
        assert!(said.contains("ready to be served"), "{said}");
        standby.until_it_says("promoted").await;
        server = in_sync(&world, &next)
            .env("ABIDE__STORAGE__CHECKPOINT_INTERVAL", "200ms")
            .start();
        values = read(&server).await;
        println!("promoted and serving after {:?}", gone.elapsed());
        for (written, found) in written.iter().zip(&values) {
            // The last one may have been written without an answer.
            assert!(
                (*written..=written + 1).contains(found),
                "{written}: {found}"
            );
        }
        let archive = world.data(&next).join("archive");
        assert!(!archive.join("standby.lock").exists());
        assert!(!archive.join("fetched.json").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_stopped_and_started_and_waits_for_a_history() {
    let world = World::new();
    let mut standby = Standby::start(&world, "1");
    standby.until_it_says("there is no history").await;
    // It has no run yet.
    let (_, said) = refused(world.program("1").command());
    assert!(said.contains("abide promote"), "{said}");
    let server = world.program("0").start();
    put(&server, 1, 1).await;
    copied(&server).await;
    standby.until_it_has(&world).await;
    let said = world.restore("1", &["--take-over"]).await.unwrap_err();
    assert!(said.contains("use `abide promote`"), "{said}");
    let data = world.data("1");
    let another = [
        "standby",
        "--from",
        world.url(),
        "--data",
        data.to_str().unwrap(),
    ];
    assert!(
        world
            .abide(&another)
            .await
            .unwrap_err()
            .contains("a standby follows")
    );
    standby.process.kill().unwrap();
    put(&server, 2, 2).await;
    copied(&server).await;
    standby = Standby::start(&world, "1");
    standby.until_it_has(&world).await;
    let (_, refused) = refused(world.program("1").command());
    assert!(refused.contains("abide promote"), "{refused}");
    drop(server);
    promote(&world, "1").await.unwrap();
    standby.until_it_says("promoted").await;
    assert!(
        promote(&world, "1")
            .await
            .unwrap_err()
            .contains("is a data directory already")
    );
    let server = world.program("1").start();
    assert_eq!(get(&server, 2).await, Some(2));
    let not = promote(&world, "2").await.unwrap_err();
    assert!(not.contains("is not the directory of a standby"), "{not}");
}

async fn until_no_runs(data: &Path) {
    let runs = || fs::read_dir(data.join("archive")).unwrap().count();
    until("the runs have left", async || (runs() == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_leaves_the_disk_once_it_is_copied_and_returns() {
    let world = World::new();
    let data = world.data("0");
    let keeps_none = || {
        let program = world.program("0");
        program.env("ABIDE__ARCHIVE__LOCAL_BYTES", "0").start()
    };
    let server = keeps_none();
    for key in 0..40 {
        put(&server, key, key).await;
    }
    copied(&server).await;
    until_no_runs(&data).await;
    // The past is read where it is, with a node and without.
    let data_dir = data.to_str().unwrap();
    let past = [
        "sql",
        "Kv/ada1",
        "SELECT count(*) FROM _abide_kv",
        "--at",
        "-0s",
        "--data",
        data_dir,
    ];
    let count = world.abide(&past).await.unwrap();
    assert!(server.stop().success());
    let refused = world.abide(&past).await.unwrap_err();
    assert!(refused.contains("set archive.url"), "{refused}");
    let settings = format!("[archive]\nurl = \"{}\"\n", world.url());
    fs::write(world.dir.path().join("abide.toml"), settings).unwrap();
    assert_eq!(world.abide(&past).await.unwrap(), count);
    // A node that is to have all of it brings it back.
    let server = world.program("0").start();
    let all_is_here = "\nabide_archive_remote_bytes 0\n";
    server.admin_client().until_shown(&[all_is_here]).await;
    assert!(server.stop().success());
    assert!(fs::read_dir(data.join("archive")).unwrap().count() > 0);
    // A store that is lost takes what it alone has, and no state of an object.
    let server = keeps_none();
    until_no_runs(&data).await;
    server.kill();
    fs::remove_dir_all(world.dir.path().join("copies")).unwrap();
    let give_up = ["history", "--give-up-remote", "--data", data_dir];
    let said = world.abide(&give_up).await.unwrap();
    assert!(
        said.starts_with("gave up ") && !said.contains(" 0 bytes"),
        "{said}"
    );
    let server = world.program("0").env("ABIDE__ARCHIVE__URL", "off").start();
    for key in 0..40 {
        assert_eq!(get(&server, key).await, Some(key));
    }
}
