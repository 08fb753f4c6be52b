//! What is gathered, sent, repeated and refused, with an upstream that follows a script and a clock that the test moves.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{sync::Arc, time::Duration};

use abide::{
    Body, Fetching, Host, Outbound, Request, Response, clock::TestClock, http::StatusCode,
    prelude::*, server::LocalHost,
};
use abide_harness::in_time;
use batcher::{Batcher, BatcherError, MAX_WAITING, Queue, Upstream, options, router};
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

const WINDOW: Duration = Duration::from_secs(10);

/// A request that has arrived upstream, and the way to answer it.
struct Arrived {
    key: String,
    body: String,
    answer: oneshot::Sender<StatusCode>,
}

/// Hands each request to the test.
struct Script(mpsc::UnboundedSender<Arrived>);

impl Outbound for Script {
    fn fetch(&self, request: Request) -> Fetching {
        let arrivals = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let (answer, answered) = oneshot::channel();
            let arrived = Arrived {
                key: parts.headers["idempotency-key"]
                    .to_str()
                    .unwrap()
                    .to_owned(),
                body: String::from_utf8(bytes.to_vec()).unwrap(),
                answer,
            };
            arrivals.send(arrived).unwrap();
            let status = answered
                .await
                .map_err(|_| Error::new("the connection broke"))?;
            Ok(Response::builder().status(status).body(Body::empty())?)
        })
    }
}

struct World {
    host: LocalHost,
    clock: TestClock,
    arrivals: mpsc::UnboundedReceiver<Arrived>,
}

impl World {
    async fn new() -> Self {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let clock = TestClock::new();
        let host = Host::open_in_memory()
            .object_with::<Batcher>(options(Duration::from_secs(2)))
            .with(Upstream {
                url: "https://upstream.example/batches".parse().unwrap(),
                window: WINDOW,
            })
            .outbound(Arc::new(Script(sender)))
            .clock(Arc::new(clock.clone()))
            .router(router)
            .start_local()
            .await
            .unwrap();
        Self {
            host,
            clock,
            arrivals,
        }
    }

    fn batcher(&self) -> Stub<Batcher> {
        self.host.env().object::<Batcher>().get_by_name("b")
    }

    async fn post(&self, body: &str) -> i64 {
        self.batcher().post(body.to_owned()).await.unwrap().id
    }

    async fn queue(&self) -> Queue {
        self.batcher().queue().await.unwrap()
    }

    /// Waits until what the handler does after an answer is done.
    async fn until(&self, so: impl Fn(&Queue) -> bool) -> Queue {
        loop {
            let queue = self.queue().await;
            if so(&queue) {
                return queue;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next request, which must come at the present time.
    async fn arrival(&mut self) -> Arrived {
        in_time("a request", self.arrivals.recv()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_sent_in_one_request_ten_seconds_after_its_first_post() {
    let mut world = World::new().await;
    assert_eq!(world.post(r#"{"n":1}"#).await, 1);
    world.clock.advance(Duration::from_secs(9));
    assert_eq!(world.post("\"two\"").await, 2);
    assert_eq!(world.queue().await.waiting, 2);
    assert!(world.arrivals.try_recv().is_err(), "not before its time");
    world.clock.advance(Duration::from_secs(1));
    let batch = world.arrival().await;
    assert_eq!(batch.body, r#"[{"n":1},"two"]"#);
    batch.answer.send(StatusCode::OK).unwrap();
    let queue = world.until(|queue| queue.waiting == 0).await;
    assert_eq!((queue.due, queue.batch), (None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_not_taken_is_sent_again_as_it_was_under_the_same_key() {
    let mut world = World::new().await;
    world.post("1").await;
    world.clock.advance(WINDOW);
    let first = world.arrival().await;
    // What comes meanwhile waits for its turn.
    world.post("2").await;
    drop(first.answer);
    for wait in [2, 4] {
        world
            .until(|queue| queue.due.is_some() && queue.batch.is_some())
            .await;
        world.clock.advance(Duration::from_secs(wait * 5 + 10));
        let again = world.arrival().await;
        assert_eq!((&again.body, &again.key), (&first.body, &first.key));
        again.answer.send(StatusCode::BAD_GATEWAY).unwrap();
    }
    world
        .until(|queue| queue.due.is_some() && queue.batch.is_some())
        .await;
    world.clock.advance(Duration::from_mins(2));
    let taken = world.arrival().await;
    assert_eq!(taken.key, first.key);
    taken.answer.send(StatusCode::NO_CONTENT).unwrap();
    // The second post has waited for longer than its window: it follows at once.
    let next = world.arrival().await;
    assert_eq!(next.body, "[2]");
    assert_ne!(next.key, first.key);
    next.answer.send(StatusCode::OK).unwrap();
    world.until(|queue| queue.waiting == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_never_recovers_loses_nothing() {
    let mut world = World::new().await;
    world.post("1").await;
    world.clock.advance(WINDOW);
    for _ in 0..20 {
        let arrived = world.arrival().await;
        arrived
            .answer
            .send(StatusCode::INTERNAL_SERVER_ERROR)
            .unwrap();
        world.until(|queue| queue.due.is_some()).await;
        world.clock.advance(Duration::from_mins(2));
    }
    assert_eq!(world.queue().await.waiting, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_full_refuses_posts_and_keeps_those_it_has() {
    let world = World::new().await;
    let batcher = world.batcher();
    let posts: Vec<_> = (0..MAX_WAITING)
        .map(|_| batcher.post("0".to_owned()))
        .collect();
    for post in posts {
        post.await.unwrap();
    }
    let refused = batcher.post("0".to_owned()).await;
    assert!(matches!(refused, Err(BatcherError::Full)));
    assert_eq!(world.queue().await.waiting, MAX_WAITING);
}

/// As the tutorials' batcher: the answer says how many wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_says_how_many_posts_wait() {
    let mut world = World::new().await;
    let post = async |world: &World| {
        let request = axum::http::Request::post("/batches/b")
            .header("content-type", "application/json")
            .body(axum::body::Body::from("{}"))
            .unwrap();
        let answer = world.host.router().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        serde_json::from_slice::<serde_json::Value>(&body.unwrap()).unwrap()
    };
    for queued in 1..=3 {
        let answer = post(&world).await;
        assert_eq!(
            answer,
            serde_json::json!({ "id": queued, "queued": queued })
        );
    }
    world.clock.advance(WINDOW);
    let batch = world.arrival().await;
    batch.answer.send(StatusCode::OK).unwrap();
    world.until(|queue| queue.waiting == 0).await;
    let answer = post(&world).await;
    assert_eq!(answer, serde_json::json!({ "id": 4, "queued": 1 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_text_is_a_post_and_json_stays_json() {
    let mut world = World::new().await;
    let form = "application/x-www-form-urlencoded";
    for (kind, body, expected) in [
        (form, r#"{"n":1}"#, 202),
        (form, "name=ada", 202),
        ("application/json", "[2]", 202),
        ("application/json", "name=ada", 400),
        ("text/plain", "42", 202),
        ("", "say \"hi\"\n", 202),
    ] {
        let request = axum::http::Request::post("/batches/b")
            .header("content-type", kind)
            .body(axum::body::Body::from(body))
            .unwrap();
        let answer = world.host.router().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{kind} {body}");
    }
    world.clock.advance(WINDOW);
    let batch = world.arrival().await;
    assert_eq!(
        batch.body,
        r#"[{"n":1},"name=ada",[2],"42","say \"hi\"\n"]"#
    );
    batch.answer.send(StatusCode::OK).unwrap();
}
