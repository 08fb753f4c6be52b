//! The front pages: what browsers, programs and strangers are told at `/`.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use std::net::SocketAddr;

use crate::support::{Answer, request};
use abide::prelude::*;
use abide_server::{
    ApiError, FrontPage, Host, HostBuilder, Hosts, RunningHost,
    access::{AccessPolicy, Caller, NewToken, Role},
};
use axum::{Router, body::Bytes, routing::get};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

#[durable_object]
struct Shelf {
    ctx: Ctx,
}

impl DurableObject for Shelf {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Shelf {
    pub async fn fill(&self) -> Result<()> {
        self.ctx.storage().put("full", &true)
    }
}

const TITLE: &str = "Shelves & <more>";

fn builder() -> HostBuilder {
    let page = FrontPage::new(TITLE, "A shelf for each name.")
        .link("/manual", "The manual")
        .try_curl("Say hello", "--header 'x: {address}'", "/hello");
    Host::open_in_memory()
        .object::<Shelf>()
        .router(|_| Router::new().route("/hello", get(async || "hello")))
        .front_page(page)
}

async fn with_tokens() -> RunningHost {
    let host = builder().configure(|config| config.server.access = AccessPolicy::Token);
    host.start().await.unwrap()
}

fn token(host: &RunningHost, change: impl FnOnce(&mut NewToken)) -> String {
    let mut new = NewToken::new(Role::Read);
    change(&mut new);
    let store = host.access().store();
    store.create_token(new).unwrap().text
}

async fn front(addr: SocketAddr, headers: &[(&str, &str)]) -> Answer {
    let mut asked = Request::get(format!("http://{addr}/"));
    for (name, value) in headers {
        asked = asked.header(*name, *value);
    }
    request(asked.body(Full::<Bytes>::default()).unwrap()).await
}

const HTML: (&str, &str) = ("accept", "text/html,*/*;q=0.8");

fn json_of(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"))
}

/// Nothing that a page shows is loaded from elsewhere, and it runs nothing.
fn assert_page(answer: &Answer) {
    let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("vary"), "accept");
    let policy = header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!answer.body.contains("<script"), "{}", answer.body);
    assert!(!answer.body.contains(" style="), "{}", answer.body);
    assert_eq!(answer.body.matches("<style>").count(), 1);
}

#[tokio::test]
async fn a_browser_gets_a_page_and_others_get_json() {
    let host = builder().start().await.unwrap();
    for name in ["a", "b"] {
        let shelf = host.env().object::<Shelf>().get_by_name(name);
        shelf.fill().await.unwrap();
    }
    let page = front(host.addr(), &[HTML]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_page(&page);
    let address = format!("http://{}", host.addr());
    for part in [
        "<h1>Shelves &amp; &lt;more&gt;</h1>".to_owned(),
        "A shelf for each name.".to_owned(),
        "<td>Shelf</td><td><code>Shelf</code></td><td class=\"num\">2</td>".to_owned(),
        "<a href=\"/manual\">The manual</a>".to_owned(),
        format!("<code>curl --header 'x: {address}' {address}/hello</code>"),
        format!("<a href=\"http://{}/metrics\">", host.admin_addr().unwrap()),
    ] {
        assert!(page.body.contains(&part), "{part} in {}", page.body);
    }
    for accept in [None, Some("*/*"), Some("application/json")] {
        let headers: Vec<_> = accept.iter().map(|accept| ("accept", *accept)).collect();
        let told = front(host.addr(), &headers).await;
        assert_eq!(told.status, StatusCode::OK);
        assert_eq!(told.headers[header::CONTENT_TYPE], "application/json");
        let told = json_of(&told);
        assert_eq!(told["title"], TITLE);
        assert_eq!(told["status"], "ready");
        let shelves = json!([{ "class": "Shelf", "binding": "Shelf", "objects": 2 }]);
        assert_eq!(told["classes"], shelves);
    }
    let hello = Request::get(format!("{address}/hello"));
    let hello = request(hello.body(Full::default()).unwrap()).await;
    assert_eq!(hello.body, "hello", "the program's routes are still there");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_stranger_is_told_how_to_log_in_and_nothing_of_the_node() {
    let host = with_tokens().await;
    for headers in [
        &[][..],
        &[HTML],
        &[HTML, ("authorization", "Bearer abide_1_2")],
    ] {
        let refused = front(host.addr(), headers).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        let logins = refused.headers.get_all(header::WWW_AUTHENTICATE);
        assert_eq!(logins.iter().count(), 2);
        for secret in [
            "Shel",
            "Shelf",
            "manual",
            "hello",
            env!("CARGO_PKG_VERSION"),
        ] {
            assert!(
                !refused.body.contains(secret),
                "{secret} in {}",
                refused.body
            );
        }
        let admin = host.admin_addr().unwrap().to_string();
        assert!(!refused.body.contains(&admin));
        if headers.contains(&HTML) {
            assert_page(&refused);
            assert!(refused.body.contains("Authorization: Bearer $ABIDE_TOKEN"));
        } else {
            assert_eq!(support::code(&refused), "token_missing");
        }
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_token_shows_the_page_with_commands_that_send_one() {
    let host = with_tokens().await;
    let bearer = format!("Bearer {}", token(&host, |_| {}));
    let page = front(host.addr(), &[HTML, ("authorization", &bearer)]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_page(&page);
    let command = "curl -H \"Authorization: Bearer $ABIDE_TOKEN\" --header";
    let command = command.replace('"', "&quot;");
    assert!(page.body.contains(&command), "{}", page.body);
    let elsewhere = token(&host, |new| new.object_prefix = Some("Other/".to_owned()));
    let bearer = format!("Bearer {elsewhere}");
    let refused = front(host.addr(), &[HTML, ("authorization", &bearer)]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_page(&refused);
    assert!(!refused.body.contains("Shel"), "{}", refused.body);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_that_knows_its_users_decides_who_sees_the_page() {
    let host = builder()
        .configure(|config| config.server.access = AccessPolicy::Token)
        .authorize(|request, _| {
            if request.headers.contains_key("cookie") {
                return Ok(Caller::new("ada", Role::Read));
            }
            Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "login",
                "Log in first.",
            ))
        });
    let host = host.start().await.unwrap();
    let seen = front(host.addr(), &[HTML, ("cookie", "user=ada")]).await;
    assert_eq!(seen.status, StatusCode::OK);
    let refused = front(host.addr(), &[HTML]).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.body.contains("Log in first.") && !refused.body.contains("ABIDE_TOKEN"));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_front_page_alone_asks_for_no_token_at_the_start() {
    let host = builder().configure(|config| config.server.hosts = Hosts::Any);
    let host = host.start().await.unwrap();
    assert_eq!(
        front(host.addr(), &[]).await.status,
        StatusCode::UNAUTHORIZED
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_host_without_listeners_has_the_page_too() {
    let host = builder().start_local().await.unwrap();
    let asked = Request::get("/").body(axum::body::Body::empty()).unwrap();
    let answer = host.router().oneshot(asked).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let told: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(told["title"], TITLE);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_admin_listener_s_page_needs_a_token_and_names_what_needs_none() {
    let host = builder().start().await.unwrap();
    let admin = host.admin_addr().unwrap();
    let refused = front(admin, &[HTML]).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_page(&refused);
    assert!(
        refused.body.contains("<a href=\"/metrics\">"),
        "{}",
        refused.body
    );
    assert!(!refused.body.contains("Shel"), "{}", refused.body);
    let bearer = format!("Bearer {}", token(&host, |_| {}));
    let login = ("authorization", &*bearer);
    let page = front(admin, &[HTML, login]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_page(&page);
    assert!(page.body.contains("<td>Shelf</td>"), "{}", page.body);
    let command = format!("curl http://{admin}/readyz");
    assert!(page.body.contains(&command), "{}", page.body);
    let told = json_of(&front(admin, &[login]).await);
    assert_eq!(told["classes"][0]["class"], "Shelf");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_host_that_asks_for_no_page_has_none() {
    let host = Host::open_in_memory().object::<Shelf>();
    let host = host.start().await.unwrap();
    let answer = front(host.addr(), &[HTML]).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    host.shutdown().await.unwrap();
}
