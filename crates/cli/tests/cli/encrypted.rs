//! A node whose copies are encrypted, and the commands that read them.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use abide_harness::{Program, refused};

use crate::backup::{World, copied, files, get, put};

const KEY: &str = "8f1e5a0c6b7d4923a1c0ffee00bada550123456789abcdef0fedcba987654321";

fn key_file(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.dir.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A place, the file with its key, and one with another.
fn encrypted() -> (World, PathBuf, PathBuf) {
    let world = World::new();
    let key = key_file(&world, "key", &format!("{KEY}\n"));
    let other = key_file(&world, "other", &KEY.replace('8', "9"));
    (world, key, other)
}

fn program(world: &World, name: &str, key: &Path) -> Program {
    let program = world.program(name);
    program.env("ABIDE__ARCHIVE__KEY_FILE", key.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_copy_is_listed_checked_and_restored_with_its_key() {
    let (world, key, other) = encrypted();
    let log = world.dir.path().join("log");
    let server = program(&world, "0", &key).log_to(&log).start();
    for value in 0..40 {
        put(&server, value, value).await;
    }
    copied(&server).await;
    server.kill();
    let files_before = files(&world.dir.path().join("copies"));
    assert!(files_before.len() > 2);
    for file in &files_before {
        let bytes = fs::read(file).unwrap();
        assert!(bytes.starts_with(b"abidciph"), "{}", file.display());
    }
    let key = key.to_str().unwrap();
    let data = world.data("1");
    let data = data.to_str().unwrap();
    let from = ["--from", world.url()];
    let restore = ["restore", "--data", data, "--take-over"];
    for command in [&["history"][..], &["verify"], &restore] {
        let run = async |how: &[&str]| world.abide(&[command, &from, how].concat()).await;
        let told = run(&[]).await.unwrap_err();
        assert!(
            told.contains("is encrypted") && told.contains("--key-file"),
            "{told}"
        );
        let told = run(&["--key-file", other.to_str().unwrap()])
            .await
            .unwrap_err();
        assert!(told.contains("another key"), "{told}");
        let told = run(&["--key-file", "/no/file"]).await.unwrap_err();
        assert!(told.contains("/no/file cannot be read"), "{told}");
        for said in [told, fs::read_to_string(&log).unwrap()] {
            assert!(!said.to_lowercase().contains(&KEY[..16]), "{said}");
        }
    }
    assert_eq!(files(&world.dir.path().join("copies")), files_before);
    for (command, says) in [
        (&["history"][..], "\twhole\n"),
        (&["verify"], "each as it was written"),
        (&restore, "restored 7 objects"),
    ] {
        let how = ["--key-file", key];
        let said = world.abide(&[command, &from, &how].concat()).await.unwrap();
        assert!(said.contains(says), "{said}");
    }
    let server = program(&world, "1", Path::new(key)).start();
    for value in 0..40 {
        assert_eq!(get(&server, value).await, Some(value));
    }
    put(&server, 1, 41).await;
    copied(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_not_start_with_another_key_or_without_one() {
    let (world, key, other) = encrypted();
    let server = program(&world, "0", &key).start();
    put(&server, 1, 11).await;
    copied(&server).await;
    assert!(server.stop().success());
    let copies = files(&world.dir.path().join("copies"));
    let short = key_file(&world, "short", &KEY[..40]);
    let missing = world.dir.path().join("missing");
    for (program, says) in [
        (program(&world, "0", &other), "another key"),
        (world.program("0"), "is encrypted: give the file"),
        (program(&world, "0", &missing), "missing cannot be read"),
        (program(&world, "0", &short), "64 hex digits"),
    ] {
        let (_, said) = refused(program.command());
        assert!(said.contains(says), "{said}");
        assert!(!said.contains(&KEY[..16]), "{said}");
    }
    assert_eq!(files(&world.dir.path().join("copies")), copies);
    let server = program(&world, "0", &key).start();
    assert_eq!(get(&server, 1).await, Some(11));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_is_not_encrypted_is_refused_with_a_key() {
    let (world, key, _) = encrypted();
    let server = world.program("0").start();
    put(&server, 1, 11).await;
    copied(&server).await;
    assert!(server.stop().success());
    let (_, said) = refused(program(&world, "0", &key).command());
    assert!(
        said.contains("is not encrypted") && said.contains("new place"),
        "{said}"
    );
    let server = world.program("0").start();
    assert_eq!(get(&server, 1).await, Some(11));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_everyone_can_read_is_warned_of() {
    let (world, key, _) = encrypted();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let log = world.dir.path().join("log");
    let server = program(&world, "0", &key).log_to(&log).start();
    put(&server, 1, 11).await;
    copied(&server).await;
    drop(server);
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("can read the key file"), "{said}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command
        .args(["history", "--from", world.url(), "--key-file"])
        .arg(&key)
        .current_dir(world.dir.path());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("warning: every user").count(), 1, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_of_an_encrypted_copy_is_promoted_with_its_key() {
    let (world, key, other) = encrypted();
    let server = program(&world, "0", &key).start();
    put(&server, 1, 11).await;
    copied(&server).await;
    let data = world.data("1");
    let args = |command: &'static str, key: &Path| {
        [
            command.to_owned(),
            "--from".to_owned(),
            world.url().to_owned(),
            "--data".to_owned(),
            data.display().to_string(),
            "--key-file".to_owned(),
            key.display().to_string(),
        ]
    };
    // Waiting for another key is no use.
    let (_, said) = refused({
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command.args(args("standby", &other));
        command
    });
    assert!(said.contains("another key"), "{said}");
    let mut standby = Command::new(env!("CARGO_BIN_EXE_abide"))
        .args(args("standby", &key))
        .spawn()
        .unwrap();
    abide_harness::until("the standby to have runs", async || {
        let archive = fs::read_dir(data.join("archive"));
        let mut archive = archive.into_iter().flatten();
        archive
            .any(|file| {
                file.unwrap()
                    .path()
                    .extension()
                    .is_some_and(|of| of == "run")
            })
            .then_some(())
    })
    .await;
    put(&server, 2, 22).await;
    copied(&server).await;
    server.kill();
    let promote = args("promote", &key);
    let promote: Vec<&str> = promote.iter().map(String::as_str).collect();
    let said = world.abide(&promote).await.unwrap();
    assert!(said.contains("ready to be served"), "{said}");
    assert!(standby.wait().unwrap().success());
    let server = program(&world, "1", &key).start();
    assert_eq!(get(&server, 1).await, Some(11));
    assert_eq!(get(&server, 2).await, Some(22));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_of_the_guide_checks_an_encrypted_copy() {
    let (world, key, _) = encrypted();
    let server = program(&world, "0", &key).start();
    put(&server, 1, 11).await;
    copied(&server).await;
    assert!(server.stop().success());
    let guide = include_str!("../../../../docs/backup.md");
    let (_, section) = guide.split_once("## Encryption\n").unwrap();
    let mut lines = section.lines();
    let line = lines.find(|line| line.starts_with("abide ")).unwrap();
    let line = line
        .replace("s3://backups/shop", world.url())
        .replace("/run/secrets/shop-backup.key", key.to_str().unwrap());
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let said = world.abide(&words).await.unwrap();
    assert!(said.contains("each as it was written"), "{said}");
}
