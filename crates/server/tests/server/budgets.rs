//! What clients may store and make: bounds of bytes and of new objects, as they meet them over HTTP.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, time::Duration};

use crate::support::{Answer, ask, code, request, send};
use abide::{
    prelude::*,
    server::{
        Config, Host, JsonBody, ListenAddress, RunningHost,
        access::{Access, AccessPolicy, Need, NewToken, Role},
        object_router,
    },
};
use abide_harness::until;
use axum::{Router, routing::post};
use http::{Method, Request as HttpRequest, StatusCode};

/// Keeps what is posted, says how much there is, removes what is deleted, and counts in its alarm.
#[durable_object]
struct Notes {
    ctx: Ctx,
    env: Env,
}

impl DurableObject for Notes {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec(
            "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
            (),
        )?;
        sql.exec(
            "CREATE TABLE IF NOT EXISTS ends (at INTEGER, body BLOB)",
            (),
        )?;
        Ok(Self { ctx, env })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let storage = self.ctx.storage();
        let sql = storage.sql();
        match *request.method() {
            Method::POST => {
                sql.exec("INSERT INTO notes (body) VALUES (zeroblob(20000))", ())?;
            }
            Method::PUT => storage.set_alarm(Duration::ZERO)?,
            Method::HEAD => drop(storage.bookmark()?),
            // Makes another object.
            Method::PATCH => {
                let other = self.env.object::<Self>().get_by_name("made by another");
                let request = http::Request::post("/").body(Body::empty())?;
                return other.fetch(request).await;
            }
            Method::DELETE => {
                sql.exec("DELETE FROM notes WHERE id % 2 = 0", ())?;
            }
            _ => {}
        }
        let notes: i64 = sql.exec("SELECT count(*) FROM notes", ())?.one()?;
        let ends: i64 = sql.exec("SELECT count(*) FROM ends", ())?.one()?;
        Ok(Response::new(Body::from(format!("{notes} {ends}"))))
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec("INSERT INTO ends VALUES (1, zeroblob(9000))", ())?;
        Ok(())
    }
}

async fn host(dir: &Path, configure: impl FnOnce(&mut Config)) -> RunningHost {
    Host::builder(dir)
        .object::<Notes>()
        .router(|env| {
            let protected = Router::new().route("/protected/{name}", {
                let env = env.clone();
                post(
                    async move |axum::extract::Path(name): axum::extract::Path<String>| {
                        let stub = env.object::<Notes>().get_by_name(&name);
                        let request = http::Request::post("/").body(Body::empty()).unwrap();
                        stub.fetch(request)
                            .await
                            .map_err(abide::server::ApiError::from)
                    },
                )
            });
            let protected = Access::of(&env).protect(protected, |route| {
                Need::by_method(route.method).object("Notes", route.param("name"))
            });
            protected.merge(
                Router::new()
                    .route("/json", post(async |_: JsonBody<u8>| "taken"))
                    .nest("/notes", object_router::<Notes>(&env)),
            )
        })
        .configure(|c| {
            c.server.listen = ListenAddress::any_port();
            c.admin.listen = Some(ListenAddress::any_port());
            c.admin.access = AccessPolicy::Open;
            configure(c);
        })
        .start()
        .await
        .unwrap()
}

async fn metric(host: &RunningHost, name: &str) -> f64 {
    let metrics = ask(host.admin_addr().unwrap(), Method::GET, "/metrics").await;
    let mut lines = metrics.body.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

async fn fill(host: &RunningHost, path: &str) -> (u32, Answer) {
    for count in 0..1_000 {
        let answer = ask(host.addr(), Method::POST, path).await;
        if answer.status != StatusCode::OK {
            return (count, answer);
        }
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn a_full_object_is_read_deletes_rows_and_takes_more() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), |c| c.storage.max_object_bytes = 512 << 10).await;
    let (kept, refused) = fill(&host, "/notes/a").await;
    assert_eq!(
        refused.status,
        StatusCode::INSUFFICIENT_STORAGE,
        "{refused:?}"
    );
    assert_eq!(code(&refused), "storage_full");
    assert!(
        refused.body.contains("storage.max_object_bytes"),
        "{refused:?}"
    );
    assert!((10..30).contains(&kept), "{kept}");
    let read = async || ask(host.addr(), Method::GET, "/notes/a").await.body;
    assert_eq!(
        read().await,
        format!("{kept} 0"),
        "the object was not reset"
    );
    // The object's own work continues: its alarm writes its own rows.
    for ends in 1..=3 {
        ask(host.addr(), Method::PUT, "/notes/a").await;
        until("the alarm", async || {
            (read().await == format!("{kept} {ends}")).then_some(())
        })
        .await;
    }
    let another = ask(host.addr(), Method::POST, "/notes/b").await;
    assert_eq!(another.status, StatusCode::OK, "another object has room");
    ask(host.addr(), Method::DELETE, "/notes/a").await;
    let (more, _) = fill(&host, "/notes/a").await;
    assert!(more + 3 >= kept / 2, "{more} after {kept}");
    assert!(metric(&host, "abide_full_objects_refusals_total").await >= 2.0);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_full_store_refuses_new_objects_and_rows_and_serves_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let bound = |c: &mut Config| c.storage.max_bytes = Some(1 << 20);
    let first = host(dir.path(), bound).await;
    let mut rooms = 0;
    let refused = loop {
        let answer = ask(first.addr(), Method::POST, &format!("/notes/{rooms}")).await;
        if answer.status != StatusCode::OK {
            break answer;
        }
        rooms += 1;
        assert!(rooms < 100, "nothing was refused");
    };
    assert_eq!(
        refused.status,
        StatusCode::INSUFFICIENT_STORAGE,
        "{refused:?}"
    );
    assert!(refused.body.contains("storage.max_bytes"), "{refused:?}");
    assert!((10..30).contains(&rooms), "{rooms}");
    let stored = metric(&first, "abide_stored_bytes").await;
    assert!((f64::from(1 << 19)..=f64::from(1 << 20)).contains(&stored));
    let (_, refused) = fill(&first, "/notes/0").await;
    assert_eq!(
        refused.status,
        StatusCode::INSUFFICIENT_STORAGE,
        "{refused:?}"
    );
    let read = ask(first.addr(), Method::GET, "/notes/absent").await;
    assert_eq!((read.status, read.body.as_str()), (StatusCode::OK, "0 0"));
    first.shutdown().await.unwrap();
    // The next process counts again.
    let second = host(dir.path(), bound).await;
    let refused = ask(second.addr(), Method::POST, "/notes/new").await;
    assert_eq!(
        refused.status,
        StatusCode::INSUFFICIENT_STORAGE,
        "{refused:?}"
    );
    second.shutdown().await.unwrap();
    let wider = host(dir.path(), |c| c.storage.max_bytes = Some(8 << 20)).await;
    let taken = ask(wider.addr(), Method::POST, "/notes/new").await;
    assert_eq!(taken.status, StatusCode::OK);
    wider.shutdown().await.unwrap();
}

fn limited(c: &mut Config) {
    c.server.new_objects_per_client = Some(1);
    c.server.access = AccessPolicy::Open;
    c.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
}

/// As a client whose proxy is on this machine.
async fn as_client(host: &RunningHost, client: &str, method: Method, path: &str) -> Answer {
    let request = HttpRequest::builder()
        .method(method)
        .header("x-forwarded-for", client)
        .uri(format!("http://{}{path}", host.addr()));
    request_of(request).await
}

async fn request_of(request_: http::request::Builder) -> Answer {
    request(request_.body(http_body_util::Full::default()).unwrap()).await
}

#[tokio::test]
async fn a_client_makes_no_more_objects_than_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), limited).await;
    for room in 0..30 {
        let read = as_client(&host, "192.0.2.1", Method::GET, &format!("/notes/{room}")).await;
        assert_eq!(read.status, StatusCode::OK, "reading makes nothing");
    }
    let mut made = 0;
    let refused = loop {
        let path = format!("/notes/{made}");
        let answer = as_client(&host, "192.0.2.1", Method::POST, &path).await;
        if answer.status != StatusCode::OK {
            break answer;
        }
        made += 1;
        assert!(made < 100, "nothing was refused");
    };
    assert_eq!(made, 10, "what ten minutes allow");
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{refused:?}");
    assert_eq!(code(&refused), "too_many_new_objects");
    assert!(refused.body.contains("server.new_objects_per_client"));
    let wait: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((50..=61).contains(&wait), "{wait}");
    let bookmark = as_client(&host, "192.0.2.1", Method::HEAD, "/notes/11").await;
    assert_eq!(
        bookmark.status,
        StatusCode::TOO_MANY_REQUESTS,
        "a bookmark is of a stored object"
    );
    // Those that are there take more, and nothing of the one that was refused is left.
    let again = as_client(&host, "192.0.2.1", Method::POST, "/notes/3").await;
    assert_eq!(again.body, "2 0");
    let left = as_client(&host, "192.0.2.1", Method::GET, "/notes/10").await;
    assert_eq!(left.body, "0 0");
    // An object that makes another does it on the client's behalf.
    let nested = as_client(&host, "192.0.2.1", Method::PATCH, "/notes/3").await;
    assert_eq!(nested.status, StatusCode::TOO_MANY_REQUESTS, "{nested:?}");
    let other = as_client(&host, "198.51.100.7", Method::POST, "/notes/10").await;
    assert_eq!(other.status, StatusCode::OK, "another client's");
    assert!(metric(&host, "abide_new_objects_refused_total").await >= 2.0);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_token_makes_no_more_objects_and_sends_no_more_requests_than_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let store = abide::server::access::AccessStore::open(dir.path()).unwrap();
    let tokens: Vec<_> = (0..3)
        .map(|_| {
            store
                .create_token(NewToken::new(Role::Operate))
                .unwrap()
                .text
        })
        .collect();
    let host = host(dir.path(), |c| {
        c.server.access = AccessPolicy::Token;
        c.server.new_objects_per_token = Some(1);
        c.server.requests_per_token = Some(2);
    })
    .await;
    let write = async |token: &str, room: u32| {
        let request = HttpRequest::post(format!("http://{}/protected/{room}", host.addr()))
            .header("authorization", format!("Bearer {token}"));
        request_of(request).await
    };
    for room in 0..10 {
        assert_eq!(write(&tokens[0], room).await.status, StatusCode::OK);
    }
    let refused = write(&tokens[0], 10).await;
    assert_eq!(code(&refused), "too_many_new_objects");
    assert!(refused.body.contains("server.new_objects_per_token"));
    assert_eq!(write(&tokens[1], 10).await.status, StatusCode::OK);
    // Twenty at once, and two a second.
    let mut answers = Vec::new();
    for _ in 0..60 {
        answers.push(write(&tokens[2], 3).await);
    }
    let refused = answers
        .iter()
        .find(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS)
        .unwrap();
    assert_eq!(code(refused), "too_many_requests");
    assert!(refused.body.contains("server.requests_per_token"));
    assert!(refused.headers.contains_key("retry-after"));
    assert!(answers[..20].iter().all(|a| a.status == StatusCode::OK));
    assert_eq!(write(&tokens[1], 3).await.status, StatusCode::OK);
    let body = send(host.addr(), Method::POST, "/json", b"1".to_vec()).await;
    assert_eq!(body.status, StatusCode::OK, "a public route");
    host.shutdown().await.unwrap();
}
