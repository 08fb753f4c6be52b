//! The objects alone, with a clock that the test moves: no test here waits for a time to come.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    ClassOptions, Node, Stub,
    clock::TestClock,
    storage::{SimDisk, Store, StoreOptions},
};
use abide::{
    outbox::handlers::{HttpCall, HttpDelivery},
    outbox::{Deliver, Delivery, Failure, Registry, Submitted},
};
use abide_harness::until;
use request_scheduler::{Definition, Phase, Put, RequestIndex, Room, ScheduledRequest};
use tokio::sync::Notify;

const HOUR: i64 = 3_600_000;

/// What was sent: the URL and the time.
type Sent = Arc<Mutex<Vec<(String, i64)>>>;

/// A handler that sends nothing and notes everything.
struct Recorder {
    sent: Sent,
    /// Lets a request to `/slow` continue.
    go_on: Arc<Notify>,
}

impl Deliver for Recorder {
    type Payload = HttpCall;

    const KIND: &'static str = HttpDelivery::KIND;

    async fn submit(&self, delivery: &Delivery, call: &HttpCall) -> Result<Submitted, Failure> {
        self.sent
            .lock()
            .unwrap()
            .push((call.url.clone(), delivery.now()));
        if call.url.ends_with("/slow") {
            self.go_on.notified().await;
            return Err(Failure::refused("too late"));
        }
        if call.url.ends_with("/refuse") {
            return Err(Failure::refused("not today"));
        }
        Ok(Submitted::Done)
    }
}

struct World {
    clock: TestClock,
    node: Node,
    sent: Sent,
    go_on: Arc<Notify>,
}

impl World {
    /// A node whose clock shows a time in milliseconds since 1970.
    fn at(time: &str) -> Self {
        let clock = TestClock::new();
        let now = i64::try_from(abide::clock::Clock::unix_millis(&clock)).unwrap();
        clock.set_wall(millis(time) - now);
        let (sent, go_on) = (Sent::default(), Arc::new(Notify::new()));
        let disk = Arc::new(SimDisk::new());
        let store = Store::open(disk, Path::new("/data"), StoreOptions::small()).unwrap();
        let node = Node::builder(store)
            .class::<ScheduledRequest>(ClassOptions::default())
            .class::<RequestIndex>(ClassOptions::default())
            .with(Registry::new().with(Recorder {
                sent: Arc::clone(&sent),
                go_on: Arc::clone(&go_on),
            }))
            .clock(Arc::new(clock.clone()))
            .start()
            .unwrap();
        Self {
            clock,
            node,
            sent,
            go_on,
        }
    }

    fn request(&self, id: &str) -> Stub<ScheduledRequest> {
        self.node.env().object::<ScheduledRequest>().get_by_name(id)
    }

    async fn put(&self, id: &str, definition: &str) -> Put {
        let definition: Definition = serde_json::from_str(definition).unwrap();
        let put = self.request(id).put(id.to_owned(), definition, Room::Free);
        put.await.unwrap()
    }

    /// Moves the clock to a time, once nothing is happening, and waits until what was due has been sent.
    async fn go_to(&self, time: &str, sent: usize) {
        // A handler must not run while hours pass: it would exceed its time limit.
        self.node.settle().await.unwrap();
        self.go_on_to(time, sent).await;
    }

    /// Moves the clock to a time at once, and waits until what was due has been sent.
    async fn go_on_to(&self, time: &str, sent: usize) {
        let now = i64::try_from(abide::clock::Clock::unix_millis(&self.clock)).unwrap();
        let ahead = u64::try_from(millis(time) - now).unwrap();
        self.clock.advance(Duration::from_millis(ahead));
        until(&format!("{sent} runs by {time}"), async || {
            (self.times().len() >= sent).then_some(())
        })
        .await;
        assert_eq!(self.times().len(), sent, "{:?}", self.times());
    }

    fn times(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        let time =
            |(_, at): &(String, i64)| jiff::Timestamp::from_millisecond(*at).unwrap().to_string();
        sent.iter().map(time).collect()
    }

    async fn next(&self, id: &str) -> Option<String> {
        let shown = self.request(id).show().await.unwrap();
        let next = shown.entry.next_at?;
        Some(jiff::Timestamp::from_millisecond(next).unwrap().to_string())
    }

    async fn end(self) {
        self.node.shutdown(Duration::from_secs(5)).await.unwrap();
        self.node.store().close().unwrap();
    }
}

fn millis(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

#[tokio::test]
async fn a_cron_expression_means_the_clocks_of_its_time_zone() {
    // On 29 March 2026 clocks in Berlin go forward.
    let world = World::at("2026-03-27T12:00:00Z");
    let daily = r#"{"url":"https://a.example/","cron":"0 9 * * *","timeZone":"Europe/Berlin"}"#;
    assert_eq!(world.put("daily", daily).await, Put::Created);
    assert_eq!(world.next("daily").await.unwrap(), "2026-03-28T08:00:00Z");
    world.go_to("2026-03-28T08:00:00Z", 1).await;
    assert_eq!(world.next("daily").await.unwrap(), "2026-03-29T07:00:00Z");
    world.go_to("2026-03-29T07:00:00Z", 2).await;
    assert_eq!(
        world.times(),
        ["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z"]
    );
    world.end().await;
}

#[tokio::test]
async fn an_interval_runs_at_once_and_then_without_drift() {
    let world = World::at("2026-01-01T00:00:00Z");
    let hourly = r#"{"url":"https://a.example/","triggerEverySeconds":3600}"#;
    world.put("hourly", hourly).await;
    world.go_to("2026-01-01T00:00:01Z", 1).await;
    for (hour, sent) in [(1, 2), (2, 3), (3, 4)] {
        world
            .go_to(&format!("2026-01-01T0{hour}:00:00Z"), sent)
            .await;
    }
    let times = world.times();
    assert_eq!(
        times[1..],
        [
            "2026-01-01T01:00:00Z",
            "2026-01-01T02:00:00Z",
            "2026-01-01T03:00:00Z"
        ]
    );
    world.end().await;
}

#[tokio::test]
async fn a_paused_interval_keeps_its_rhythm_and_leaves_out_what_it_missed() {
    let world = World::at("2026-01-01T00:00:00Z");
    let start = millis("2026-01-01T01:00:00Z");
    let hourly =
        format!(r#"{{"url":"https://a.example/","triggerAt":{start},"triggerEverySeconds":3600}}"#);
    world.put("hourly", &hourly).await;
    world.go_to("2026-01-01T01:00:00Z", 1).await;
    let shown = world.request("hourly").pause().await.unwrap();
    assert_eq!(
        (shown.entry.state, shown.entry.next_at),
        (Phase::Paused, None)
    );
    world.node.settle().await.unwrap();
    world
        .clock
        .advance(Duration::from_millis(5 * HOUR.unsigned_abs() + 60_000));
    let shown = world.request("hourly").resume().await.unwrap();
    assert_eq!(shown.entry.state, Phase::Scheduled);
    assert_eq!(world.next("hourly").await.unwrap(), "2026-01-01T07:00:00Z");
    world.go_to("2026-01-01T07:00:00Z", 2).await;
    world.end().await;
}

#[tokio::test]
async fn a_cron_request_with_an_end_is_deleted_after_its_last_run() {
    let world = World::at("2026-12-31T10:00:00Z");
    let last = r#"{"url":"https://a.example/","cron":"0 0 12 31 12 * 2026"}"#;
    world.put("last", last).await;
    world.go_to("2026-12-31T12:00:00Z", 1).await;
    until("the request to be forgotten", async || {
        world.request("last").show().await.is_err().then_some(())
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn runs_that_a_receiver_refuses_for_long_are_bounded() {
    let world = World::at("2026-01-01T00:00:00Z");
    let minutely = r#"{"url":"https://a.example/refuse","triggerEverySeconds":1,"retryAfterSeconds":[604800]}"#;
    world.put("minutely", minutely).await;
    // As many may wait, and the newest may be on its way.
    let most = request_scheduler::limits::MAX_OPEN_RUNS;
    for _ in 0..most + 20 {
        world.clock.advance(Duration::from_secs(1));
        let runs = world.request("minutely").show().await.unwrap();
        assert!(runs.open_runs <= most + 1, "{runs:?}");
        until("the alarm to have been handled", async || {
            let shown = world.request("minutely").show().await.unwrap();
            let now = i64::try_from(abide::clock::Clock::unix_millis(&world.clock)).unwrap();
            shown.entry.next_at.is_some_and(|at| at > now).then_some(())
        })
        .await;
    }
    let shown = until("the last runs to be skipped", async || {
        let shown = world.request("minutely").show().await.unwrap();
        (shown.skipped_runs > 0).then_some(shown)
    })
    .await;
    assert!((most..=most + 1).contains(&shown.open_runs), "{shown:?}");
    world.end().await;
}

#[tokio::test]
async fn a_canceled_run_is_not_retried_for_the_request_that_replaces_it() {
    for is_canceled in [true, false] {
        let world = World::at("2026-01-01T00:00:00Z");
        let slow = r#"{"url":"https://a.example/slow","retryAfterSeconds":[1,1,1]}"#;
        world.put("a", slow).await;
        // It is sent at once, and its handler waits.
        world.go_on_to("2026-01-01T00:00:01Z", 1).await;
        if is_canceled {
            world.request("a").cancel().await.unwrap();
        }
        let start = millis("2026-01-01T01:00:00Z");
        let other = format!(r#"{{"url":"https://a.example/","triggerAt":{start}}}"#);
        world.put("a", &other).await;
        world.go_on.notify_one();
        let shown = until("the first run to be over", async || {
            let shown = world.request("a").show().await.unwrap();
            (shown.open_runs == 0).then_some(shown)
        })
        .await;
        assert_eq!(
            (shown.entry.state, shown.failed_runs),
            (Phase::Scheduled, 0)
        );
        world.go_to("2026-01-01T01:00:00Z", 2).await;
        assert_eq!(world.times()[1], "2026-01-01T01:00:00Z");
        world.end().await;
    }
}
