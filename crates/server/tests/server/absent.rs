//! Reading what was never written leaves nothing, and names have a bound.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use std::{path::Path, time::Duration};

use crate::support::{ask, code, send};
use abide::{
    prelude::*,
    server::{Host, RunningHost, access::AccessPolicy, object_router},
};
use abide_harness::until;
use http::{Method, StatusCode};

/// A room as most classes are: its constructor makes its tables.
#[durable_object]
struct Room {
    ctx: Ctx,
}

impl DurableObject for Room {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS said (text TEXT NOT NULL)", ())?;
        sql.exec("CREATE INDEX IF NOT EXISTS said_text ON said (text)", ())?;
        Ok(Self { ctx })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let sql = self.ctx.sql();
        if request.method() == Method::POST {
            sql.exec("INSERT INTO said VALUES ('hello')", ())?;
        }
        let count: u64 = sql.exec("SELECT count(*) FROM said", ())?.one()?;
        Ok(Response::new(Body::from(count.to_string())))
    }
}

async fn host(dir: &Path) -> RunningHost {
    Host::builder(dir)
        .object::<Room>()
        .json_rpc()
        .router(|env| object_router::<Room>(&env))
        .configure(|c| {
            c.server.listen = abide::server::ListenAddress::any_port();
            c.admin.listen = Some(abide::server::ListenAddress::any_port());
            c.admin.access = AccessPolicy::Open;
            c.objects.idle_timeout = Duration::from_millis(10);
        })
        .start()
        .await
        .unwrap()
}

/// The number of files below a directory.
pub(crate) fn files(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { files(&path) } else { 1 })
        .sum()
}

async fn metric(host: &RunningHost, name: &str) -> u64 {
    let metrics = ask(host.admin_addr().unwrap(), Method::GET, "/metrics").await;
    let mut lines = metrics.body.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_thousand_reads_of_absent_rooms_leave_no_file_no_row_and_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let host_ = host(dir.path()).await;
    let appended = metric(&host_, "abide_log_appended_lsn").await;
    for room in 0..1_000 {
        let answer = ask(host_.addr(), Method::GET, &format!("/{room}")).await;
        assert_eq!(answer.body, "0");
    }
    until("the rooms to leave memory", async || {
        (metric(&host_, "abide_objects_resident").await == 0).then_some(())
    })
    .await;
    assert_eq!(metric(&host_, "abide_log_appended_lsn").await, appended);
    assert_eq!(metric(&host_, "abide_objects_live").await, 0);
    let written = host_.env().object::<Room>().untyped().written().unwrap();
    assert_eq!(written, []);
    for count in ["1", "2"] {
        let answer = send(host_.addr(), Method::POST, "/7", Vec::new()).await;
        assert_eq!(answer.body, count);
    }
    host_.shutdown().await.unwrap();
    assert_eq!(files(&dir.path().join("objects")), 1);

    let host_ = host(dir.path()).await;
    let answer = ask(host_.addr(), Method::GET, "/7").await;
    assert_eq!(answer.body, "2");
    host_.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_name_has_a_bound_and_is_not_empty_wherever_it_enters() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path()).await;
    let longest = "n".repeat(2_048);
    let answer = ask(host.addr(), Method::GET, &format!("/{longest}")).await;
    assert_eq!((answer.status, &*answer.body), (StatusCode::OK, "0"));
    let long = format!("{longest}n");
    let rooms = host.env().object::<Room>();
    for name in ["", &long] {
        for (addr, path) in [
            (host.addr(), format!("/{name}/x")),
            (host.addr(), format!("/rpc/Room/{name}/say")),
        ] {
            let answer = send(addr, Method::POST, &path, b"[]".to_vec()).await;
            assert!(
                [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND].contains(&answer.status),
                "{path}: {answer:?}"
            );
            if !name.is_empty() {
                assert_eq!(code(&answer), "limit_exceeded");
            }
        }
        let error = rooms.get_by_name(name).fetch(Request::default()).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("name"), "{error}");
    }
    let path = format!("/objects/Room/{long}/bookmark");
    let answer = ask(host.admin_addr().unwrap(), Method::GET, &path).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
    let path = "/objects/Room/7/fork";
    for name in ["", &long] {
        let body = format!(r#"{{"time":0,"name":"{name}"}}"#);
        let answer = support::change_to(host.admin_addr().unwrap(), path, body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
        assert!(answer.body.contains("name"), "{answer:?}");
    }
    host.shutdown().await.unwrap();
}
