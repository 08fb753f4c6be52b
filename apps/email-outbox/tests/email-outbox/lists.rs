//! Lists whose mails cannot be made: shown until the user dismisses them.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide::{Error, Host, Result, Storage, server::LocalHost};
use abide::{
    outbox::handlers::SmtpDelivery,
    outbox::{Batch, FanOut, OutboxOptions, Registry},
};
use abide_harness::until;
use email_outbox::{Author, Mailing, Mails, router};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A list that fails.
struct Broken;

impl FanOut for Broken {
    type Command = Value;
    const NAME: &'static str = Mailing::NAME;

    fn batch(&self, _: &Storage, _: &Value, _: Option<&str>, _: usize) -> Result<Batch> {
        Err(Error::new("the <test> wants it"))
    }
}

async fn host() -> LocalHost {
    let registry = Registry::new()
        .with(SmtpDelivery::new("smtp://127.0.0.1:1").unwrap())
        .with_fan_out(Broken);
    Host::open_in_memory()
        .object::<Mails>()
        .with(registry)
        .with(OutboxOptions::default())
        .with(Author::parse("outbox@example.com").unwrap())
        .router(router)
        .start_local()
        .await
        .unwrap()
}

async fn ask(host: &LocalHost, method: &str, path: &str, body: &Value) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_null() {
        request = request.header("content-type", "application/json");
    }
    let request = request
        .body(axum::body::Body::from(body.to_string()))
        .unwrap();
    let answer = host.router().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Composes a list, and waits until it has failed; its id.
async fn fail(host: &LocalHost, subject: &str) -> i64 {
    let to = ["ada@example.com", "grace@example.com"];
    let draft = json!({ "to": to, "subject": subject, "text": "t" });
    let (status, taken) = ask(host, "POST", "/api/mails", &draft).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{taken}");
    let taken: Value = serde_json::from_str(&taken).unwrap();
    until("the list to fail", async || {
        let (_, overview) = ask(host, "GET", "/api/overview", &Value::Null).await;
        let overview: Value = serde_json::from_str(&overview).unwrap();
        let newest = &overview["lists"][0];
        (newest["id"] == taken["list"] && newest["status"] == "failed").then_some(())
    })
    .await;
    taken["list"].as_i64().unwrap()
}

async fn page(host: &LocalHost) -> String {
    let (status, page) = ask(host, "GET", "/", &Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    page
}

async fn dismiss(host: &LocalHost, id: i64) {
    let path = format!("/lists/{id}/cancel");
    let (status, told) = ask(host, "POST", &path, &Value::Null).await;
    assert_eq!(status, StatusCode::SEE_OTHER, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_failed_says_why_until_it_is_dismissed() {
    let host = host().await;
    let id = fail(&host, "News").await;
    let shown = page(&host).await;
    assert!(
        shown.contains("the &lt;test&gt; wants it") && shown.contains("Dismiss"),
        "{shown}"
    );
    assert!(!shown.contains("Stop"), "it does not run: {shown}");
    dismiss(&host, id).await;
    let shown = page(&host).await;
    assert!(
        !shown.contains("News") && !shown.contains("Dismiss"),
        "{shown}"
    );
    let (status, _) = ask(&host, "POST", "/lists/99/cancel", &Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_failed_is_not_hidden_by_newer_ones() {
    let host = host().await;
    fail(&host, "The oldest").await;
    for number in 0..4 {
        let id = fail(&host, &format!("Newer {number}")).await;
        dismiss(&host, id).await;
    }
    let shown = page(&host).await;
    assert!(shown.contains("The oldest"), "{shown}");
    host.shutdown().await.unwrap();
}
