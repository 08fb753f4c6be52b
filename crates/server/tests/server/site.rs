//! What other sites' pages make browsers send is refused, on every listener and every route.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{fmt::Write as _, net::SocketAddr};

use crate::support::{connect, read_to_end};
use abide::{
    prelude::*,
    server::{Host, Hosts, Origins, RequestHost, RunningHost, access::AccessPolicy, object_router},
};
use axum::{Router, routing::get};
use tokio::io::AsyncReadExt;

/// Counts what it is asked.
#[durable_object]
struct Counter {
    ctx: Ctx,
}

impl DurableObject for Counter {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        if request.headers().contains_key("upgrade") {
            let (_, response) = self.ctx.accept_websocket(&[])?;
            return Ok(response);
        }
        Ok(Response::new(Body::from(self.count()?.to_string())))
    }
}

impl Counter {
    fn count(&self) -> Result<u64> {
        let count: u64 = self.ctx.storage().get("count")?.unwrap_or(0) + 1;
        self.ctx.storage().put("count", &count)?;
        Ok(count)
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Counter {
    pub async fn add(&self) -> Result<u64> {
        self.count()
    }
}

/// The host that a program learns.
async fn told_host(host: Option<RequestHost>) -> String {
    host.map_or_else(|| "none".to_owned(), |host| host.to_string())
}

async fn host(hosts: &[&str], origins: &[&str]) -> RunningHost {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let (hosts, origins) = (Hosts::Named(words(hosts)), Origins::Named(words(origins)));
    Host::open_in_memory()
        .object::<Counter>()
        .json_rpc()
        .router(|env| {
            Router::new()
                .route("/hello", get(async || "hello"))
                .route("/host", get(told_host))
                .nest("/counter", object_router::<Counter>(&env))
        })
        .configure(|c| {
            c.server.hosts = hosts;
            c.server.origins = origins;
            c.server.access = AccessPolicy::Open;
        })
        .start()
        .await
        .unwrap()
}

/// Sends a request with these headers and no others, and returns its status and the rest of the answer.
async fn answer(addr: SocketAddr, route: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut request = format!("{route} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n");
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    let mut stream = connect(addr, &(request + "\r\n")).await;
    let mut answer = vec![0; 4096];
    let bytes = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..bytes]).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

const ROUTES: [&str; 5] = [
    "GET /hello",
    "GET /counter/one/",
    "POST /counter/one/",
    "POST /rpc/Counter/one/add",
    "GET /nowhere",
];

const ADMIN_ROUTES: [&str; 11] = [
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /alarms",
    "GET /quarantined",
    "GET /dormant",
    "POST /objects/Counter/one/restore",
    "POST /objects/Counter/one/repair",
    "POST /objects/Counter/one/import",
    "POST /cuts",
    "GET /nowhere",
];

#[tokio::test]
async fn rebound_names_and_other_sites_pages_reach_no_route() {
    let host = host(&[], &[]).await;
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    let own = addr.to_string();
    let public = ROUTES.map(|route| (addr, route));
    let admin = ADMIN_ROUTES.map(|route| (admin, route));
    for (addr, route) in public.into_iter().chain(admin) {
        let rebound = [("host", "evil.example:8080")];
        let (status, told) = answer(addr, route, &rebound).await;
        assert!(
            status == 403 && told.contains("unknown_host"),
            "{route}: {told}"
        );
        // The page's own origin, as a browser sees it after the name leads here.
        let same = [("host", "evil.example"), ("origin", "http://evil.example")];
        assert_eq!(answer(addr, route, &same).await.0, 403, "{route}");
        let foreign = [("host", &*own), ("origin", "https://evil.example")];
        let (status, told) = answer(addr, route, &foreign).await;
        assert!(
            status == 403 && told.contains("cross_origin"),
            "{route}: {told}"
        );
        let two = [("host", &*own), ("host", "evil.example")];
        assert_eq!(answer(addr, route, &two).await.0, 400, "{route}");
    }
    let one = host.env().object::<Counter>().get_by_name("one");
    assert_eq!(one.add().await.unwrap(), 1, "it was reached");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_socket_opens_for_the_own_page_and_for_programs_only() {
    let host = host(&[], &[]).await;
    let (addr, own) = (host.addr(), host.addr().to_string());
    let page = format!("http://{own}");
    let upgrade = [
        ("host", &*own),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (from, expected) in [
        (None, 101),
        (Some(("origin", &*page)), 101),
        (Some(("origin", "https://evil.example")), 403),
        (Some(("origin", "null")), 403),
        (Some(("sec-fetch-site", "cross-site")), 403),
    ] {
        let headers: Vec<_> = upgrade.into_iter().chain(from).collect();
        let (status, told) = answer(addr, "GET /counter/one/socket", &headers).await;
        assert_eq!(status, expected, "{from:?}: {told}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn names_and_origins_that_are_named_are_answered() {
    let host = host(
        &["abide.example.com", "*.tenants.example"],
        &["https://app.example"],
    )
    .await;
    let addr = host.addr();
    for (name, origin, expected) in [
        ("abide.example.com", None, 200),
        ("a.tenants.example:443", None, 200),
        ("evil.example", None, 403),
        ("abide.example.com", Some("https://app.example"), 200),
        ("abide.example.com", Some("https://abide.example.com"), 200),
        ("abide.example.com", Some("https://evil.example"), 403),
    ] {
        let mut headers = vec![("host", name)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let (status, told) = answer(addr, "POST /counter/one/", &headers).await;
        assert_eq!(status, expected, "{name} {origin:?}: {told}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_request_without_one_valid_host_is_refused_by_every_listener() {
    let host = host(&["a.example"], &[]).await;
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    let valid = "host: a.example\r\n";
    for (target, headers, code) in [
        ("/", String::new(), "host_missing"),
        ("http://a.example/", String::new(), "host_missing"),
        ("/", "host:\r\n".to_owned(), "invalid_host"),
        ("/", "host: a.example:x\r\n".to_owned(), "invalid_host"),
        ("/", "host: a.example:-1\r\n".to_owned(), "invalid_host"),
        ("/", "host: a .example\r\n".to_owned(), "invalid_host"),
        ("/", "host: me@a.example\r\n".to_owned(), "invalid_host"),
        ("/", "host: a.example/b\r\n".to_owned(), "invalid_host"),
        ("/", "host: \u{e4}.example\r\n".to_owned(), "invalid_host"),
        ("http://me@a.example/", valid.to_owned(), "invalid_host"),
        ("http://b.example/", valid.to_owned(), "several_hosts"),
        ("/", valid.repeat(2), "several_hosts"),
    ] {
        for addr in [addr, admin] {
            let request = format!("GET {target} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
            let told = read_to_end(connect(addr, &request).await).await;
            let refused = told.starts_with("HTTP/1.1 400 ") && told.contains(code);
            assert!(refused, "{request:?}: {told}");
        }
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_learns_the_normalised_host() {
    let host = host(&["a.example"], &[]).await;
    for (start, expected) in [
        ("GET /host HTTP/1.1\r\nhost: A.Example.:080", "a.example:80"),
        ("GET /host HTTP/1.1\r\nHOST:  a.example", "a.example"),
        (
            "GET http://A.example/host HTTP/1.1\r\nhost: a.example",
            "a.example",
        ),
        ("GET /host HTTP/1.0\r\nhost: a.example", "a.example"),
        ("GET /host HTTP/1.0", "none"),
    ] {
        let request = format!("{start}\r\nconnection: close\r\n\r\n");
        let told = read_to_end(connect(host.addr(), &request).await).await;
        assert!(
            told.ends_with(&format!("\r\n\r\n{expected}")),
            "{start}: {told}"
        );
    }
    let client =
        abide_harness::Client::new(&host.addr().to_string(), abide_harness::Version::Http2);
    let told = client.get("/host").await;
    assert_eq!(told.body, host.addr().to_string().as_str());
    host.shutdown().await.unwrap();
}
