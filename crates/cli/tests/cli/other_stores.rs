//! Copies in object stores by others, which answer as they do and not as this project's own does.
//!
//! Both look whether an object exists before they write it, so they cannot judge races of two owners.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use abide_harness::{Client, Version, until};
use http::Method;
use tokio::net::TcpStream;

use crate::backup::{World, copied, get, is_replaced, is_taken_over, put};

/// A store of others with a bucket `copies`. It ends with the test.
struct Store {
    process: Child,
    address: String,
}

impl Store {
    /// Starts one, and waits until it takes connections.
    async fn start(command: impl FnOnce(&str) -> Command) -> Self {
        // Free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut command = command(&address.port().to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut store = Self {
            process: command.spawn().unwrap(),
            address: address.to_string(),
        };
        until("the store to listen", async || {
            assert_eq!(store.process.try_wait().unwrap(), None, "it has ended");
            TcpStream::connect(address).await.ok()
        })
        .await;
        store
    }

    /// `moto[server]`, from `PyPI`.
    async fn moto() -> Self {
        let store = Self::start(|port| {
            let mut command = Command::new("moto_server");
            command.args(["-H", "127.0.0.1", "-p", port]);
            command
        })
        .await;
        let client = Client::new(&store.address, Version::Http1);
        let made = client.ask(Method::PUT, "/copies", "").await;
        assert!(made.status.is_success(), "{made:?}");
        store
    }

    /// `s3s-fs`, from crates.io, on a directory.
    async fn s3s(dir: &Path) -> Self {
        fs::create_dir(dir.join("copies")).unwrap();
        Self::start(|port| {
            let mut command = Command::new("s3s-fs");
            command.args(["--host", "127.0.0.1", "--port", port]);
            command.args(["--access-key", "AKEXAMPLE", "--secret-key", "SKEXAMPLE"]);
            command.arg(dir);
            command
        })
        .await
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a backup promises, with a store that may be any.
async fn holds_with(store: &Store) {
    let endpoint = format!("http://{}", store.address);
    is_replaced(&World::in_bucket(&endpoint, "replaced"), 3).await;
    is_taken_over(&World::in_bucket(&endpoint, "taken/over")).await;
    nothing_is_lost(&World::in_bucket(&endpoint, "sync")).await;
}

/// A machine is lost at any moment, and what it has acknowledged is there.
async fn nothing_is_lost(world: &World) {
    let program = world.program("0").env("ABIDE__ARCHIVE__SYNC", "true");
    let server = program.start();
    for key in 0..20 {
        put(&server, key, key * 3).await;
    }
    server.kill();
    fs::remove_dir_all(world.data("0")).unwrap();
    world
        .restore("1", &["--take-over", "--lazy"])
        .await
        .unwrap();
    let server = world.program("1").start();
    for key in 0..20 {
        assert_eq!(get(&server, key).await, Some(key * 3), "{key}");
    }
    copied(&server).await;
    assert!(server.stop().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs moto[server] of PyPI"]
async fn a_backup_holds_in_moto() {
    holds_with(&Store::moto().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs s3s-fs of crates.io"]
async fn a_backup_holds_in_s3s() {
    let dir = tempfile::tempdir().unwrap();
    holds_with(&Store::s3s(dir.path()).await).await;
}
