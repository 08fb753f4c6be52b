//! The ticks of `--classic`, counted at the mail service, on a clock that stands still between two looks.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    Body, Host, Response,
    clock::Clock as _,
    http::{Method, StatusCode, header},
    testing::{Received, Servers, TestClock},
};
use axum::response::IntoResponse;
use email_outbox::{Author, Mails, Sender, classic, registry, router};
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

/// The time between two ticks, in seconds.
const TICK: u64 = 10;

/// A mail service that accepts each mail, and has sent it at the second poll.
#[derive(Clone)]
struct Service {
    clock: TestClock,
    /// The pause that it asks for, in seconds.
    retry_after: Option<u64>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// The attempts and polls of each tick.
    ticks: Vec<(usize, usize)>,
    /// When each mail was requested and polled, in seconds, by its operation.
    times: HashMap<String, Vec<u64>>,
}

impl Service {
    fn answer(&self, request: &Received) -> Response {
        let now = (self.clock.unix_millis() - TestClock::START_UNIX_MILLIS) / 1_000;
        let is_poll = request.method == Method::GET;
        let id = if is_poll {
            request.uri.path().rsplit('/').next().unwrap().to_owned()
        } else {
            request.headers["operation-id"].to_str().unwrap().to_owned()
        };
        let mut seen = self.seen.lock().unwrap();
        let tick = usize::try_from(now / TICK).unwrap();
        if seen.ticks.len() <= tick {
            seen.ticks.resize(tick + 1, (0, 0));
        }
        let (sends, polls) = &mut seen.ticks[tick];
        *(if is_poll { polls } else { sends }) += 1;
        let times = seen.times.entry(id).or_default();
        times.push(now);
        let (status, says) = match (is_poll, times.len()) {
            (false, _) => (StatusCode::ACCEPTED, "Running"),
            (true, ..3) => (StatusCode::OK, "Running"),
            (true, _) => (StatusCode::OK, "Succeeded"),
        };
        let mut answer = (status, axum::Json(json!({ "status": says }))).into_response();
        if let Some(seconds) = self.retry_after {
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        answer.map(Body::new)
    }
}

/// Sends this many mails for a minute; what the service has seen.
async fn minute(mails: usize, retry_after: Option<u64>) -> Seen {
    let clock = TestClock::new();
    let service = Service {
        clock: clock.clone(),
        retry_after,
        seen: Arc::default(),
    };
    let answering = service.clone();
    let servers = Servers::answering(move |request| Ok(answering.answer(request)));
    let sender = Sender::Acs {
        endpoint: "https://mails.communication.azure.com".to_owned(),
        key: "a2V5".to_owned(),
    };
    let host = Host::open_in_memory()
        .object::<Mails>()
        .with(registry(&sender).unwrap())
        .with(classic())
        .with(Author::parse("outbox@example.com").unwrap())
        .clock(Arc::new(clock.clone()))
        .outbound(Arc::new(servers))
        .router(router)
        .start_local()
        .await
        .unwrap();
    let to: Vec<String> = (0..mails)
        .map(|number| format!("member{number}@example.com"))
        .collect();
    let draft = json!({ "to": to, "subject": "News", "text": "t" });
    let request = http::Request::post("/api/mails")
        .header(header::CONTENT_TYPE, "application/json")
        .body(axum::body::Body::from(draft.to_string()))
        .unwrap();
    let answer = host.router().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(status, StatusCode::ACCEPTED, "{body:?}");
    host.settle().await.unwrap();
    for _ in 0..60 {
        clock.advance(Duration::from_secs(1));
        host.settle().await.unwrap();
    }
    host.shutdown().await.unwrap();
    std::mem::take(&mut *service.seen.lock().unwrap())
}

#[tokio::test]
async fn a_tick_sends_fifteen_mails_and_polls_twenty_with_its_own_first() {
    let seen = minute(40, None).await;
    assert_eq!(seen.ticks, [(15, 15), (15, 20), (10, 20), (0, 20), (0, 5)]);
    for times in seen.times.values() {
        assert_eq!(times.len(), 3);
        assert_eq!(times[0], times[1], "polled in the tick that has sent it");
        assert_eq!(times[0] % TICK, 0);
    }
}

#[tokio::test]
async fn a_pause_that_the_service_asks_for_is_kept_within_the_tick() {
    let seen = minute(40, Some(2)).await;
    assert_eq!(seen.ticks, [(15, 20), (15, 20), (10, 20), (0, 20)]);
    for times in seen.times.values() {
        assert_eq!(times.len(), 3);
        assert_eq!(times[1] - times[0], 2);
    }
}
