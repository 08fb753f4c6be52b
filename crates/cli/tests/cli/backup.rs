//! A node whose history is copied: its machine is lost, and another continues from the copy.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use abide_harness::{Program, Random, Server, printed, refused, setting, until};
use http::StatusCode;
use serde_json::json;
use tempfile::TempDir;

/// Nodes that copy to one place.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    url: String,
    /// How the place is reached, as variables of the environment.
    reached: Vec<(&'static str, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let copies = dir.path().join("copies");
        fs::create_dir(&copies).unwrap();
        let url = format!("file://{}", copies.display());
        let reached = Vec::new();
        Self { dir, url, reached }
    }

    /// Nodes that copy to this prefix of the bucket `copies` of a service that speaks S3.
    pub(crate) fn in_bucket(endpoint: &str, prefix: &str) -> Self {
        let variables = [
            ("AWS_ENDPOINT", endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "AKEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "SKEXAMPLE"),
        ];
        Self {
            dir: tempfile::tempdir().unwrap(),
            url: format!("s3://copies/{prefix}"),
            reached: variables
                .map(|(name, value)| (name, value.to_owned()))
                .into(),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn program(&self, name: &str) -> Program {
        let program = Program::new(env!("CARGO_BIN_EXE_abide"), self.data(name))
            .env("ABIDE__ARCHIVE__URL", &self.url)
            .env("ABIDE__ARCHIVE__UPLOAD_INTERVAL", "100ms")
            .env("ABIDE__STORAGE__CHECKPOINT_INTERVAL", "100ms");
        let reached = self.reached.iter();
        reached.fold(program, |program, (name, value)| program.env(name, value))
    }

    /// Runs the command, and returns what it printed, or said if it failed.
    pub(crate) async fn abide(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command.args(args).current_dir(self.dir.path());
        command.envs(self.reached.iter().map(|(name, value)| (name, value)));
        printed(command).await
    }

    pub(crate) async fn restore(&self, name: &str, how: &[&str]) -> Result<String, String> {
        let data = self.data(name);
        let args = [
            "restore",
            "--from",
            &self.url,
            "--data",
            data.to_str().unwrap(),
        ];
        self.abide(&[&args, how].concat()).await
    }
}

pub(crate) async fn put(server: &Server, key: u32, value: u32) {
    let path = format!("/kv/ada{}/value{key}", key % 7);
    let put = server.client().put(&path, &json!(value)).await;
    assert!(put.status.is_success(), "{put:?}");
}

pub(crate) async fn get(server: &Server, key: u32) -> Option<u32> {
    let path = format!("/kv/ada{}/value{key}", key % 7);
    let answer = server.client().get(&path).await;
    match answer.status {
        StatusCode::NOT_FOUND => None,
        StatusCode::OK => Some(u32::try_from(answer.body.as_u64().unwrap()).unwrap()),
        _ => panic!("{answer:?}"),
    }
}

/// Waits until what has been written is in a copy.
pub(crate) async fn copied(server: &Server) {
    let admin = server.admin_client();
    admin
        .until_shown(&["\nabide_history_unsaved_seconds 0\n"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_machine_is_replaced_by_another_from_the_copy() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 2).min(4);
    is_replaced(&World::new(), rounds).await;
}

/// Machines are lost, one after the other, and each is replaced from the copy.
pub(crate) async fn is_replaced(world: &World, rounds: u64) {
    let mut random = Random::new(7);
    let mut values = [None; 40];
    let mut server = world.program("0").start();
    for round in 0..rounds {
        for _ in 0..60 {
            let (key, value) = (random.below(40), random.below(1_000_000));
            put(&server, key, value).await;
            values[key as usize] = Some(value);
        }
        copied(&server).await;
        server.kill();
        fs::remove_dir_all(world.data(&round.to_string())).unwrap();
        let next = (round + 1).to_string();
        let said = world.restore(&next, &["--take-over"]).await.unwrap();
        assert!(said.contains("restored 7 objects"), "{said}");
        server = world.program(&next).start();
        for key in 0..40 {
            assert_eq!(get(&server, key).await, values[key as usize], "{key}");
        }
    }
    let checked = world
        .abide(&["verify", "--from", &world.url])
        .await
        .unwrap();
    assert!(checked.contains("each as it was written"), "{checked}");
    let listed = world
        .abide(&["history", "--from", &world.url])
        .await
        .unwrap();
    assert!(listed.contains("\twhole\n"), "{listed}");
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_leaves_nothing_behind() {
    let world = World::new();
    let server = world
        .program("0")
        .env("ABIDE__STORAGE__CHECKPOINT_INTERVAL", "1h")
        .start();
    put(&server, 1, 11).await;
    assert!(server.stop().success());
    fs::remove_dir_all(world.data("0")).unwrap();
    world.restore("1", &["--take-over"]).await.unwrap();
    let server = world.program("1").start();
    assert_eq!(get(&server, 1).await, Some(11));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_history_is_taken_over_stops() {
    is_taken_over(&World::new()).await;
}

/// A node stops once another one has taken its history over.
pub(crate) async fn is_taken_over(world: &World) {
    let log = world.dir.path().join("log");
    let server = world.program("0").log_to(&log).start();
    put(&server, 1, 11).await;
    copied(&server).await;
    let told = world.restore("1", &[]).await.unwrap_err();
    assert!(
        told.contains("--take-over") && told.contains("--inspect"),
        "{told}"
    );
    world.restore("1", &["--take-over"]).await.unwrap();
    let other = world.program("1").start();
    put(&other, 1, 22).await;
    copied(&other).await;
    // It notices with its next copy, at the latest.
    until("the node to stop", async || {
        let written = server
            .client()
            .try_ask(http::Method::PUT, "/kv/bob/value", "1")
            .await;
        written.is_err().then_some(())
    })
    .await;
    drop(server);
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("was taken over"), "{said}");
    assert_eq!(get(&other, 1).await, Some(22));
    // Nor does it start again.
    let (_, refused) = refused(world.program("0").command());
    assert!(
        refused.contains("was taken over from this directory"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_for_inspection_is_read_and_never_served() {
    let world = World::new();
    let server = world.program("0").start();
    put(&server, 1, 11).await;
    copied(&server).await;
    let said = world.restore("1", &["--inspect"]).await.unwrap();
    assert!(said.contains("for inspection"), "{said}");
    let data = world.data("1");
    let data = data.to_str().unwrap();
    let listed = world
        .abide(&["objects", "list", "--data", data])
        .await
        .unwrap();
    assert!(listed.contains("ada1"), "{listed}");
    let audited = world.abide(&["audit", "--data", data]).await.unwrap();
    assert!(
        audited.contains("restore") && audited.contains(&world.url),
        "{audited}"
    );
    let (_, refused) = refused(world.program("1").command());
    assert!(refused.contains("inspection"), "{refused}");
    let told = world.restore("1", &["--take-over"]).await.unwrap_err();
    assert!(told.contains("choose an empty one"), "{told}");
    // The node has noticed nothing.
    put(&server, 1, 22).await;
    assert_eq!(get(&server, 1).await, Some(22));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_is_restored_and_continues() {
    let world = World::new();
    // Without shipping, what is copied is in a manifest.
    let first = world.program("0");
    let server = first.env("ABIDE__ARCHIVE__SHIP_INTERVAL", "off").start();
    put(&server, 1, 11).await;
    copied(&server).await;
    let listed = world
        .abide(&["history", "--from", &world.url])
        .await
        .unwrap();
    let older = listed.lines().nth(1).unwrap().split('\t').next().unwrap();
    put(&server, 1, 22).await;
    put(&server, 2, 22).await;
    copied(&server).await;
    assert!(server.stop().success());
    let how = ["--manifest", older, "--take-over"];
    world.restore("1", &how).await.unwrap();
    let server = world.program("1").start();
    assert_eq!(get(&server, 1).await, Some(11));
    assert_eq!(get(&server, 2).await, None);
    put(&server, 3, 33).await;
    copied(&server).await;
    assert!(server.stop().success());
    world.restore("2", &["--take-over"]).await.unwrap();
    let server = world.program("2").start();
    assert_eq!(get(&server, 1).await, Some(11));
    assert_eq!(get(&server, 2).await, None);
    assert_eq!(get(&server, 3).await, Some(33));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_lacks_an_object_is_restored_only_if_that_is_said() {
    let world = World::new();
    let data = world.data("0");
    let server = Program::new(env!("CARGO_BIN_EXE_abide"), &data)
        .env("ABIDE__ARCHIVE__ENABLED", "false")
        .start();
    put(&server, 1, 11).await;
    put(&server, 2, 22).await;
    assert!(server.stop().success());
    // It cannot get into the archive.
    let file = files(&data.join("objects")).pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[0] ^= 1;
    fs::write(&file, bytes).unwrap();
    let server = world.program("0").start();
    let admin = server.admin_client();
    admin
        .until_shown(&["\nabide_archive_missing_objects 1\n"])
        .await;
    copied(&server).await;
    assert!(server.stop().success());
    let listed = world
        .abide(&["history", "--from", &world.url])
        .await
        .unwrap();
    assert!(
        listed.lines().nth(1).unwrap().ends_with("\tincomplete"),
        "{listed}"
    );
    let told = world.restore("1", &["--take-over"]).await.unwrap_err();
    assert!(told.contains("--incomplete"), "{told}");
    assert!(!world.data("1").join("MANIFEST").exists());
    let how = ["--take-over", "--incomplete"];
    let said = world.restore("1", &how).await.unwrap();
    assert!(said.contains("restored 1 objects"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flipped_byte_of_a_copy_is_found() {
    let world = World::new();
    let server = world.program("0").start();
    put(&server, 1, 11).await;
    copied(&server).await;
    assert!(server.stop().success());
    let run = files(&world.dir.path().join("copies/runs")).pop().unwrap();
    let mut bytes = fs::read(&run).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&run, bytes).unwrap();
    let name = run.file_name().unwrap().to_str().unwrap();
    let told = world
        .abide(&["verify", "--from", &world.url])
        .await
        .unwrap_err();
    assert!(told.contains(name) && told.contains("damaged"), "{told}");
    let told = world.restore("1", &["--take-over"]).await.unwrap_err();
    assert!(told.contains(name) && told.contains("damaged"), "{told}");
    assert!(!world.data("1").join("MANIFEST").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_guide_work() {
    let world = World::new();
    let server = world.program("0").start();
    put(&server, 1, 11).await;
    copied(&server).await;
    assert!(server.stop().success());
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/backup.md"));
    let guide = guide.unwrap();
    // Encrypted copies have their own test.
    let (before, rest) = guide.split_once("## Encryption\n").unwrap();
    let (_, after) = rest.split_once("\n## ").unwrap();
    let guide = [before, after].concat();
    let blocks = guide.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    let (mut run, mut standby) = (0, None);
    for line in lines.filter(|line| !line.starts_with("abide serve")) {
        let dirs = ["shop", "look"].map(|name| world.data(name));
        let line = line
            .replace("file:///mnt/backup/shop", &world.url)
            .replace("/var/lib/shop", dirs[0].to_str().unwrap())
            .replace("/tmp/look", dirs[1].to_str().unwrap());
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "abide", "{line}");
        if ["restore", "standby"].contains(&words[1]) {
            // Each into an empty directory.
            let named = |dir: &&PathBuf| line.contains(dir.to_str().unwrap());
            let _ = fs::remove_dir_all(dirs.iter().find(named).unwrap());
        }
        run += 1;
        if words[1] == "standby" {
            // Until the next command ends it.
            let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
            standby = Some(command.args(&words[1..]).spawn().unwrap());
            let lock = dirs[0].join("archive/standby.lock");
            until("the standby", async || lock.exists().then_some(())).await;
            continue;
        }
        let said = world.abide(&words[1..]).await;
        assert!(said.is_ok(), "{line}: {said:?}");
        if let Some(mut standby) = standby.take() {
            assert!(standby.wait().unwrap().success());
        }
    }
    assert_eq!(run, 10);
}

/// The files below a directory, by path.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    };
    let mut found: Vec<_> = entries.flat_map(of).collect();
    found.sort();
    found
}
