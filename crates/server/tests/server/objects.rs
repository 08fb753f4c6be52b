//! Objects behind the gateway: what reaches them, and what their trouble looks like from outside.

use crate::support;
use std::{sync::Arc, time::Duration};

use crate::support::{Answer, answered, ask, code, connect, send};
use abide::{
    prelude::*,
    server::{Host, HostBuilder, HostError, object_router},
    storage::SimDisk,
};
use abide_harness::until;
use abide_storage::{
    Disk as _, DiskOp, FaultyDisk, OpenMode, RestoreOptions, StoreOptions,
    errno::{EMFILE, ENFILE, ENOMEM},
    restore_directory,
};
use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use http::{Method, StatusCode};
use tokio::sync::Notify;

/// What the slow handlers wait for.
#[derive(Default)]
struct Leave(Notify);

#[durable_object]
struct Notes {
    ctx: Ctx,
}

impl DurableObject for Notes {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let name = self.ctx.name().unwrap_or_default();
        Ok(Response::new(Body::from(format!(
            "{} {} at {name}",
            request.method(),
            request.uri()
        ))))
    }
}

#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
#[rpc]
impl Notes {
    pub async fn add(&self, text: String) -> Result<i64> {
        let sql = self.ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT)", ())?;
        sql.exec("INSERT INTO notes VALUES (?)", (text,))?;
        sql.exec("SELECT count(*) FROM notes", ())?.one()
    }

    pub async fn count(&self) -> Result<i64> {
        self.ctx.sql().exec("SELECT count(*) FROM notes", ())?.one()
    }

    /// Reads all of the text.
    pub async fn read(&self) -> Result<i64> {
        let sql = self.ctx.sql();
        sql.exec("SELECT sum(length(replace(text, 'y', 'z'))) FROM notes", ())?
            .one()
    }

    /// Writes without reading the text.
    pub async fn touch(&self) -> Result<i64> {
        let storage = self.ctx.storage();
        let touched: i64 = storage.get("touched")?.unwrap_or(0);
        storage.put("touched", &(touched + 1))?;
        self.count().await
    }

    pub async fn add_slowly(&self, text: String) -> Result<i64> {
        let env = self.ctx.env();
        env.require::<Notify>()?.notify_one();
        env.require::<Leave>()?.0.notified().await;
        let count = self.add(text).await;
        env.require::<Notify>()?.notify_one();
        count
    }

    /// Waits until the caller is gone.
    pub async fn watch(&self) -> Result<i64> {
        let entered = self.ctx.env().require::<Notify>()?;
        entered.notify_one();
        self.ctx.caller_gone().await;
        entered.notify_one();
        Ok(0)
    }

    pub async fn panic(&self) -> Result<i64> {
        panic!("a test's panic")
    }

    pub async fn wait(&self) -> Result<i64> {
        if let Some(entered) = self.ctx.env().get::<Notify>() {
            entered.notify_one();
        }
        std::future::pending().await
    }
}

async fn call(
    env: Env,
    Path((name, method)): Path<(String, String)>,
    body: String,
) -> Result<String> {
    let notes = env.object::<Notes>().get_by_name(&name);
    let answer = match method.as_str() {
        "add" => notes.add(body).await?,
        "add_slowly" => notes.add_slowly(body).await?,
        "count" => notes.count().await?,
        "read" => notes.read().await?,
        "touch" => notes.touch().await?,
        "watch" => notes.watch().await?,
        "panic" => notes.panic().await?,
        _ => notes.wait().await?,
    };
    Ok(answer.to_string())
}

fn router(env: Env) -> Router {
    let notes = object_router::<Notes>(&env);
    Router::new()
        .route("/call/{name}/{method}", post(call))
        .route("/alive", get(async || "yes"))
        .with_state(env)
        .nest("/notes", notes)
}

fn host(disk: &Arc<SimDisk>) -> HostBuilder {
    Host::open_in_memory()
        .disk(Arc::<SimDisk>::clone(disk))
        .object::<Notes>()
        .with(Notify::new())
        .with(Leave::default())
        .router(router)
        .configure(|c| {
            c.storage.segment_bytes = 1 << 20;
            c.storage.checkpoint_bytes = 4 << 20;
        })
}

fn told(answer: &Answer) -> (u16, String) {
    (answer.status.as_u16(), code(answer))
}

#[tokio::test]
async fn a_request_below_an_object_s_name_reaches_its_fetch() {
    let host = host(&Arc::new(SimDisk::new())).start().await.unwrap();
    for (path, seen) in [
        ("/notes/ada", "GET / at ada"),
        ("/notes/ada/", "GET / at ada"),
        ("/notes/ada/a/b?c=%20d", "GET /a/b?c=%20d at ada"),
        ("/notes/a%2Fb/x", "GET /x at a/b"),
    ] {
        assert_eq!(ask(host.addr(), Method::GET, path).await.body, seen);
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_s_trouble_has_a_status_and_a_code() {
    let host = host(&Arc::new(SimDisk::new())).start().await.unwrap();
    let call = async |what: &str| {
        send(
            host.addr(),
            Method::POST,
            &format!("/call/ada/{what}"),
            b"x".to_vec(),
        )
        .await
    };
    assert_eq!(
        told(&call("count").await),
        (500, "object_error".to_owned()),
        "there is no such table"
    );
    let panicked = call("panic").await;
    assert_eq!(told(&panicked), (503, "object_reset".to_owned()));
    assert!(!panicked.body.contains("a test's panic"), "{panicked:?}");
    assert_eq!(call("add").await.body, "1", "a reset object answers again");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_without_descriptors_to_open_is_503_and_opens_later() {
    let disk = FaultyDisk::new(SimDisk::new());
    let host = host(&Arc::new(SimDisk::new())).disk(Arc::new(disk.clone()));
    let host = host.start().await.unwrap();
    let add = async |name: &str| {
        let path = format!("/call/{name}/add");
        send(host.addr(), Method::POST, &path, b"x".to_vec()).await
    };
    for errno in [EMFILE, ENFILE, ENOMEM] {
        disk.fail(&[DiskOp::Open], "/objects/", errno);
        let refused = add("ada").await;
        assert_eq!(told(&refused), (503, "overloaded".to_owned()));
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        disk.clear();
        assert_eq!(add(&format!("ada-{errno}")).await.body, "1");
    }
    assert_eq!(add("ada").await.body, "1");
    host.shutdown().await.unwrap();
}

/// A directory that is restored lazily from another's archive.
fn restored_lazily(lost: &SimDisk, dir: &std::path::Path) -> SimDisk {
    let read = |path: &std::path::Path| {
        let file = lost.open(path, OpenMode::Existing).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let (disk, archive) = (SimDisk::new(), dir.join("archive"));
    disk.create_dir_all(&archive).unwrap();
    for name in lost.list(&archive).unwrap() {
        let path = archive.join(name);
        let copy = disk.open(&path, OpenMode::Create).unwrap();
        copy.write_at(&read(&path), 0).unwrap();
    }
    let made = restore_directory(
        Arc::new(disk.clone()),
        dir,
        &read(&dir.join("MANIFEST")),
        RestoreOptions::default().lazy(true),
        &StoreOptions::small(),
        &|_| {},
    );
    made.unwrap();
    disk
}

#[tokio::test]
async fn an_object_that_is_hydrated_does_not_delay_others() {
    let disk = SimDisk::new();
    let lost = host(&Arc::new(disk.clone())).start().await.unwrap();
    for name in ["ada", "bob"] {
        let path = format!("/call/{name}/add");
        send(lost.addr(), Method::POST, &path, b"x".to_vec()).await;
    }
    lost.shutdown().await.unwrap();
    let disk = FaultyDisk::new(restored_lazily(&disk, std::path::Path::new("data")));
    disk.hold(&[DiskOp::Write], ".hydrating");
    let host = host(&Arc::new(SimDisk::new()))
        .disk(Arc::new(disk.clone()))
        .configure(|c| c.objects.workers = Some(1));
    let host = host.start().await.unwrap();
    let addr = host.addr();
    let add = async move |name: &str| {
        let path = format!("/call/{name}/add");
        send(addr, Method::POST, &path, b"x".to_vec()).await.body
    };
    let waiting = ["ada", "bob"].map(|name| tokio::spawn(async move { add(name).await }));
    disk.wait_until_held();
    for number in 1..=20 {
        assert_eq!(add("new").await, number.to_string());
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    disk.clear();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), "2");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_without_descriptors_is_503_and_its_object_survives() {
    let disk = FaultyDisk::new(SimDisk::new());
    let host = host(&Arc::new(SimDisk::new()))
        .disk(Arc::new(disk.clone()))
        .configure(|c| {
            // What is below does not fit the page cache.
            c.storage.cache_bytes = 16 << 10;
            c.storage.checkpoint_interval = Duration::from_millis(10);
        });
    let host = host.start().await.unwrap();
    let call = async |method: &str, bytes: usize| {
        let path = format!("/call/ada/{method}");
        send(host.addr(), Method::POST, &path, vec![b'x'; bytes]).await
    };
    for n in 1..=3 {
        assert_eq!(call("add", 100_000).await.body, n.to_string());
    }
    for errno in [EMFILE, ENFILE, ENOMEM] {
        let refused = until("a read that needs the file", async || {
            call("touch", 0).await;
            // A checkpoint that finds no descriptor has the object's file closed, which is only kept open.
            disk.fail(&[DiskOp::Open], "", EMFILE);
            tokio::time::sleep(Duration::from_millis(30)).await;
            disk.clear();
            disk.fail(&[DiskOp::Open], ".sqlite", errno);
            let answer = call("read", 0).await;
            disk.clear();
            (answer.status != StatusCode::OK).then_some(answer)
        })
        .await;
        assert_eq!(told(&refused), (503, "overloaded".to_owned()));
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        assert_eq!(call("read", 0).await.body, "300000");
        assert_eq!(call("touch", 0).await.body, "3");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_that_asks_learns_that_the_http_client_is_gone() {
    let host = host(&Arc::new(SimDisk::new())).start().await.unwrap();
    let signal = host.env().get::<Notify>().unwrap();
    let request = "POST /call/ada/watch HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx";
    let client = connect(host.addr(), request).await;
    signal.notified().await;
    support::reset(client);
    signal.notified().await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_runs_to_its_end_although_the_http_client_is_gone() {
    let host = host(&Arc::new(SimDisk::new())).start().await.unwrap();
    let (addr, env) = (host.addr(), host.env().clone());
    let signal = env.get::<Notify>().unwrap();
    let request = "POST /call/ada/add_slowly HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx";
    let client = connect(addr, request).await;
    signal.notified().await;
    support::reset(client);
    // The gateway has noticed that the client is gone when it serves no client any more.
    while !ask(host.admin_addr().unwrap(), Method::GET, "/metrics")
        .await
        .body
        .contains("abide_http_requests_in_flight 0")
    {
        tokio::task::yield_now().await;
    }
    env.get::<Leave>().unwrap().0.notify_one();
    signal.notified().await;
    let counted = send(addr, Method::POST, "/call/ada/count", Vec::new()).await;
    assert_eq!(counted.body, "1");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_overloaded_object_is_503_with_a_time_to_come_back() {
    let options = ClassOptions::default().max_queued(0).max_running(1);
    let host = Host::open_in_memory()
        .object_with::<Notes>(options)
        .with(Notify::new())
        .router(router)
        .configure(|c| c.server.shutdown_grace = Duration::from_millis(50));
    let host = host.start().await.unwrap();
    let addr = host.addr();
    let busy = tokio::spawn(send(addr, Method::POST, "/call/ada/wait", Vec::new()));
    host.env().get::<Notify>().unwrap().notified().await;
    let refused = send(addr, Method::POST, "/call/ada/add", Vec::new()).await;
    assert_eq!(told(&refused), (503, "overloaded".to_owned()));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(
        send(addr, Method::POST, "/call/grace/add", Vec::new())
            .await
            .status,
        StatusCode::OK
    );
    busy.abort();
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let disk = Arc::new(SimDisk::new());
    let host = host(&disk).start().await.unwrap();
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    let add =
        async |bytes: usize| send(addr, Method::POST, "/call/ada/add", vec![b'x'; bytes]).await;
    let mut kept = 0;
    assert_eq!(add(1).await.status, StatusCode::OK);
    kept += 1;
    disk.set_capacity(Some(disk.used()));
    let refused = loop {
        let answer = add(200_000).await;
        if answer.status != StatusCode::OK {
            break answer;
        }
        kept += 1;
    };
    assert_eq!(told(&refused), (507, "no_space".to_owned()));
    let not_ready = ask(admin, Method::GET, "/readyz").await;
    assert!(
        not_ready.status == StatusCode::SERVICE_UNAVAILABLE && not_ready.body.contains("no_space"),
        "{not_ready:?}"
    );
    assert_eq!(
        send(addr, Method::POST, "/call/ada/count", Vec::new())
            .await
            .body,
        kept.to_string()
    );
    disk.set_capacity(None);
    while ask(admin, Method::GET, "/readyz").await.status != StatusCode::OK {
        let _ = add(1).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(add(1).await.status, StatusCode::OK);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_failed_log_is_an_error_to_clients_and_ends_the_host() {
    let disk = Arc::new(SimDisk::new());
    let host = host(&disk).configure(|c| {
        // The test must know the address before the host tells it.
        c.admin.listen = None;
    });
    let (send_addr, addr) = tokio::sync::oneshot::channel();
    let host = host.configure(|c| {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let sources = abide::server::Sources {
            listen: Some(free.to_string()),
            ..Default::default()
        };
        c.server.listen = abide::server::Config::load(&sources).unwrap().server.listen;
        send_addr.send(free).unwrap();
    });
    let addr = addr.await.unwrap();
    let serving = tokio::spawn(host.serve());
    while tokio::net::TcpStream::connect(addr).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        send(addr, Method::POST, "/call/ada/add", Vec::new())
            .await
            .status,
        StatusCode::OK
    );
    disk.fail_syncs(true);
    let add = http::Request::post(format!("http://{addr}/call/ada/add"))
        .header("content-type", "application/json")
        .body(http_body_util::Full::default())
        .unwrap();
    // The host may end before it has read the request.
    if let Some(lost) = answered(add).await {
        assert_eq!(told(&lost), (503, "unavailable".to_owned()));
    }
    let ended = serving.await.unwrap().unwrap_err();
    assert!(matches!(ended, HostError::LogFailed), "{ended}");
    assert!(ended.to_string().contains("restart to recover"));
}
