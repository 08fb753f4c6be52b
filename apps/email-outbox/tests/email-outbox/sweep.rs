//! All mails that were given up, redriven at once.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use abide::Host;
use abide::{
    outbox::handlers::Email,
    outbox::{Deliver, Delivery, Failure, OutboxOptions, Pace, Registry, Submitted},
};
use abide_harness::until;
use axum::body::Body;
use email_outbox::{Author, Mailing, Mails, router};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// More than one call takes.
const MAILS: usize = 2_500;

/// Takes no mail, ever.
struct Never(Arc<AtomicUsize>);

impl Deliver for Never {
    type Payload = Email;
    const KIND: &'static str = "email";

    async fn submit(&self, _: &Delivery, _: &Email) -> Result<Submitted, Failure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(Failure::permanent("the test wants it"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_that_fail_again_at_once_are_redriven_once() {
    let tried = Arc::new(AtomicUsize::new(0));
    let host = Host::open_in_memory()
        .object::<Mails>()
        .with(
            Registry::new()
                .with(Never(Arc::clone(&tried)))
                .with_fan_out(Mailing),
        )
        .with(OutboxOptions::default().pace(Pace::unlimited(256)))
        .with(Author::parse("outbox@example.com").unwrap())
        .router(router)
        .start_local()
        .await
        .unwrap();
    let ask = async |method: &str, path: &str, body: &Value| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = host.router().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, body)
    };
    let all_have_failed = async || {
        until("all to fail", async || {
            let (_, overview) = ask("GET", "/api/overview", &Value::Null).await;
            let overview: Value = serde_json::from_slice(&overview).unwrap();
            (overview["counts"]["failed"] == MAILS).then_some(())
        })
        .await;
    };
    let to: Vec<String> = (0..MAILS)
        .map(|number| format!("member{number}@example.com"))
        .collect();
    let draft = json!({ "to": to, "subject": "News", "text": "t" });
    assert_eq!(
        ask("POST", "/api/mails", &draft).await.0,
        StatusCode::ACCEPTED
    );
    all_have_failed().await;
    assert_eq!(tried.load(Ordering::SeqCst), MAILS);
    let (status, _) = ask("POST", "/failed/redrive", &Value::Null).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    all_have_failed().await;
    assert_eq!(tried.load(Ordering::SeqCst), 2 * MAILS);
    host.shutdown().await.unwrap();
}
