//! What `abide::testing` offers to tests of programs.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{cell::Cell, sync::Arc, time::Duration};

use abide::{
    ErrorKind, Host,
    http::StatusCode,
    outbox::{
        self, Deliver as _, Failure, Outbox, Registry,
        handlers::{HttpCall, HttpDelivery},
    },
    prelude::*,
    server::{HostBuilder, LocalHost},
    testing::{Inbox, Servers, TestClock},
};

/// Counts in memory, and stores the count when it leaves.
#[durable_object]
struct Meter {
    ctx: Ctx,
    count: Cell<u64>,
    outbox: Outbox,
}

impl DurableObject for Meter {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let count = Cell::new(ctx.storage().get("count")?.unwrap_or(0));
        let outbox = Outbox::open(&ctx, outbox::OutboxOptions::default())?;
        Ok(Self { ctx, count, outbox })
    }

    fn leaving(&self) -> Result<()> {
        self.ctx.storage().put("count", &self.count.get())
    }
}

#[rpc]
impl Meter {
    pub fn add(&self) -> u64 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    pub async fn nap(&self) {
        let clock = self.ctx.env().clock();
        clock
            .sleep_until(clock.now() + Duration::from_mins(1))
            .await;
    }

    pub fn report(&self) -> Result<()> {
        let call = HttpCall::post("https://example.com/meters").json(&self.count.get())?;
        HttpDelivery::enqueue(&self.outbox, &call)?;
        Ok(())
    }

    pub async fn ask(&self, url: String) -> Result<u16> {
        let request = Request::post(url).body(Body::from("{\"ask\":1}"))?;
        Ok(self.ctx.env().fetch(request).await?.status().as_u16())
    }
}

async fn host(clock: &TestClock, change: impl FnOnce(HostBuilder) -> HostBuilder) -> LocalHost {
    let host = Host::open_in_memory()
        .clock(Arc::new(clock.clone()))
        .object::<Meter>();
    change(host).start_local().await.unwrap()
}

fn meter(host: &LocalHost) -> Stub<Meter> {
    host.env().object::<Meter>().get_by_name("m")
}

#[tokio::test]
async fn a_function_sees_a_live_object_and_is_one_transaction() {
    let host = host(&TestClock::new(), |host| host.with(Registry::new())).await;
    let (node, meter) = (host.node(), meter(&host));
    meter.add().await.unwrap();
    let seen = node.run_in(&meter, |meter, ctx| {
        ctx.storage().put("note", "kept")?;
        Ok((meter.count.get(), meter.ctx.name()))
    });
    assert_eq!(seen.await.unwrap(), (1, Some("m".to_owned())));

    let failed = node.run_in(&meter, |_, ctx| {
        ctx.storage().put("note", "undone")?;
        Err::<(), _>(Error::new("no"))
    });
    assert_eq!(failed.await.unwrap_err().message(), "no");
    let read = || node.run_in(&meter, |_, ctx| ctx.storage().get::<String>("note"));
    assert_eq!(read().await.unwrap().as_deref(), Some("kept"));

    // As in any handler, a panic resets the object.
    let panicked = node.run_in(&meter, |_, ctx| -> Result<()> {
        ctx.storage().put("note", "undone")?;
        panic!("a test that panics")
    });
    assert_eq!(panicked.await.unwrap_err().kind(), ErrorKind::Reset);
    assert_eq!(read().await.unwrap().as_deref(), Some("kept"));
    assert_eq!(meter.add().await.unwrap(), 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_evicted_object_is_told_and_constructed_anew() {
    let host = host(&TestClock::new(), |host| host.with(Registry::new())).await;
    let (node, meter) = (host.node(), meter(&host));
    // It is not in memory.
    node.evict(meter.untyped()).await.unwrap();
    for count in 1..=3 {
        assert_eq!(meter.add().await.unwrap(), count);
        node.evict(meter.untyped()).await.unwrap();
        assert_eq!(node.stats().resident, 0);
    }
    let stored = node.run_in(&meter, |meter, ctx| {
        Ok((meter.count.get(), ctx.storage().get::<u64>("count")?))
    });
    assert_eq!(stored.await.unwrap(), (3, Some(3)));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_that_is_busy_is_not_evicted() {
    let clock = TestClock::new();
    let host = host(&clock, |host| host.with(Registry::new())).await;
    let (node, meter) = (host.node(), meter(&host));
    let nap = tokio::spawn(meter.nap());
    host.settle().await.unwrap();
    let (evicted, ()) = tokio::join!(node.evict(meter.untyped()), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        // It still naps.
        assert_eq!(node.stats().resident, 1);
        clock.advance(Duration::from_mins(1));
    });
    evicted.unwrap();
    nap.await.unwrap().unwrap();
    assert_eq!(node.stats().resident, 0);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn other_servers_answer_as_the_test_says() {
    let servers = Servers::answering(|received| match received.uri.path() {
        "/lost" => Err(Error::new("the connection broke")),
        _ => Ok(Response::new(Body::empty())),
    });
    servers.next(StatusCode::IM_A_TEAPOT);
    let outbound = servers.clone();
    let host = host(&TestClock::new(), |host| {
        host.with(Registry::new()).outbound(Arc::new(outbound))
    })
    .await;
    let meter = meter(&host);
    let url = |path: &str| format!("https://example.com/{path}");
    assert_eq!(meter.ask(url("a")).await.unwrap(), 418);
    assert_eq!(meter.ask(url("a")).await.unwrap(), 200);
    let lost = meter.ask(url("lost")).await.unwrap_err();
    assert!(lost.message().contains("the connection broke"), "{lost}");
    let received = servers.received();
    let paths: Vec<_> = received.iter().map(|one| one.uri.path()).collect();
    assert_eq!(paths, ["/a", "/a", "/lost"]);
    let body: serde_json::Value = received[2].json().unwrap();
    assert_eq!(body, serde_json::json!({ "ask": 1 }));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_inbox_keeps_what_an_outbox_delivers() {
    let clock = TestClock::new();
    let inbox = Inbox::of(HttpDelivery::new());
    inbox.fail_next(Failure::temporary("the response was lost"));
    let registry = Registry::new().with(inbox.clone());
    let host = host(&clock, |host| host.with(registry)).await;
    let meter = meter(&host);
    meter.add().await.unwrap();
    meter.report().await.unwrap();
    host.settle().await.unwrap();
    assert_eq!((inbox.attempts().len(), inbox.delivered().len()), (1, 0));
    clock.advance(Duration::from_hours(1));
    host.settle().await.unwrap();

    let attempts = inbox.attempts();
    let [lost, again] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!(
        lost.failure.as_ref().map(Failure::message),
        Some("the response was lost")
    );
    assert_eq!((&again.failure, again.delivery.attempt()), (&None, 2));
    let key = lost.delivery.idempotency_key();
    assert_eq!(again.delivery.idempotency_key(), key);
    assert_eq!(inbox.delivered()[0].url, "https://example.com/meters");
    host.shutdown().await.unwrap();
}
