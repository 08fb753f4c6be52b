//! Commits that wait too long: what `/readyz`, the metrics and the program's log say of them.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use crate::support::{Answer, ask, send};
use abide::{
    Host,
    prelude::*,
    server::{ApiError, RunningHost},
};
use abide_harness::until;
use abide_storage::{DiskOp, FaultyDisk};
use axum::{Router, extract::Path, routing::post};
use http::{Method, StatusCode};

#[durable_object]
struct Store {
    ctx: Ctx,
}

impl DurableObject for Store {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Store {
    /// Overwrites a value with bytes that do not compress.
    pub async fn fill(&self, n: u64) -> Result<()> {
        let mut x = n * 7919 + 88_172_645_463_325_252;
        let noise = std::iter::repeat_with(|| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        });
        let noise: Vec<u64> = noise.take(20_000).collect();
        self.ctx.storage().put("noise", &noise)
    }
}

async fn fill(env: Env, Path(n): Path<u64>) -> Result<(), ApiError> {
    let store = env.object::<Store>().get_by_name(&n.to_string());
    Ok(store.fill(n).await?)
}

async fn host(disk: &FaultyDisk) -> RunningHost {
    Host::open_in_memory()
        .disk(Arc::new(disk.clone()))
        .object::<Store>()
        .router(|env| Router::new().route("/fill/{n}", post(fill)).with_state(env))
        .configure(|c| {
            c.storage.segment_bytes = 512 << 10;
            c.storage.checkpoint_bytes = 1 << 20;
        })
        .start()
        .await
        .unwrap()
}

fn post_fill(addr: SocketAddr, n: u64) -> tokio::task::JoinHandle<Answer> {
    tokio::spawn(async move {
        let path = format!("/fill/{n}");
        send(addr, Method::POST, &path, Vec::new()).await
    })
}

/// Waits until `/readyz` says that commits are stalled.
async fn stalled(admin: SocketAddr) -> Answer {
    until("commits to be stalled", async || {
        let ready = ask(admin, Method::GET, "/readyz").await;
        (ready.status != StatusCode::OK).then_some(ready)
    })
    .await
}

async fn metric(admin: SocketAddr, name: &str) -> f64 {
    let metrics = ask(admin, Method::GET, "/metrics").await.body;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}"))
        .parse()
        .unwrap()
}

/// What the program's log has said so far.
#[derive(Clone, Copy)]
struct Logged;

static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Metrics and the log are the process's: one test at a time.
async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(|| Logged)
            .init();
    });
    ALONE.lock().await
}

async fn is_logged(line: &str) {
    until(line, async || {
        let log = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log).contains(line).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_disk_that_does_not_finish_a_sync_is_named_until_it_does() {
    let _alone = alone().await;
    let disk = FaultyDisk::default();
    let host = host(&disk).await;
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    assert_eq!(post_fill(addr, 1).await.unwrap().status, StatusCode::OK);
    assert!(metric(admin, "abide_log_sync_wait_seconds").await < 5.0);
    disk.hold(&[DiskOp::Sync], ".seg");
    let waiting = post_fill(addr, 2);
    let told = stalled(admin).await;
    assert!(
        told.body.contains(r#""code":"commits_stalled""#) && told.body.contains("sync of the log"),
        "{told:?}"
    );
    assert!(metric(admin, "abide_log_sync_wait_seconds").await >= 5.0);
    is_logged(r#"reason="sync""#).await;
    assert!(!waiting.is_finished());
    disk.clear();
    assert_eq!(waiting.await.unwrap().status, StatusCode::OK);
    until("the node to be ready", async || {
        let ready = ask(admin, Method::GET, "/readyz").await;
        (ready.status == StatusCode::OK).then_some(())
    })
    .await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_that_does_not_end_is_named_when_commits_wait_for_it() {
    let _alone = alone().await;
    let disk = FaultyDisk::default();
    let host = host(&disk).await;
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    disk.hold(&[DiskOp::Sync, DiskOp::BarrierWait], "/objects");
    let mut waiting = Vec::new();
    // The log may have four times what begins a checkpoint.
    for n in 0..60 {
        waiting.push(post_fill(addr, n));
    }
    let told = stalled(admin).await;
    assert!(
        told.body.contains("commits_stalled") && told.body.contains("a checkpoint"),
        "{told:?}"
    );
    assert!(metric(admin, "abide_commits_waiting").await >= 1.0);
    let bounds = ["log_bound", "overlay_bound"];
    let mut waits = (0.0, 0.0);
    for bound in bounds {
        let label = format!("{{reason=\"{bound}\"}}");
        waits.0 += metric(admin, &format!("abide_commit_waits_total{label}")).await;
        waits.1 += metric(admin, &format!("abide_commit_wait_spent_seconds{label}")).await;
    }
    assert!(waits.0 >= 1.0 && waits.1 >= 5.0, "{waits:?}");
    is_logged("commits are stalled, waiting for a checkpoint").await;
    disk.clear();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().status, StatusCode::OK);
    }
    is_logged("commits are no longer stalled").await;
    assert_eq!(
        ask(admin, Method::GET, "/readyz").await.status,
        StatusCode::OK
    );
    host.shutdown().await.unwrap();
}
