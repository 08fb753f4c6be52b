//! `settle`: everything that is due has run, and the node is idle until the clock moves.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    ErrorKind, Host,
    clock::{Clock as _, TestClock, time_limit},
    outbox::{
        self, Deliver, Delivery, Failure, Outbox, Registry, Submitted,
        handlers::{HttpCall, HttpDelivery},
    },
    prelude::*,
    schedule::{self, Schedule, Spec},
    server::{HostBuilder, LocalHost},
};
use axum::{Router, routing::post};
use tokio::sync::{Notify, Semaphore};

/// Alarms, background work and calls, as tests tell it.
#[durable_object]
struct Sleeper {
    ctx: Ctx,
}

impl DurableObject for Sleeper {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    /// Goes off again at once, as often as it is to.
    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        let storage = self.ctx.storage();
        let left = storage.get::<u64>("left")?.unwrap_or(0);
        storage.put("rung", &(storage.get::<u64>("rung")?.unwrap_or(0) + 1))?;
        if left > 0 {
            storage.put("left", &(left - 1))?;
            storage.set_alarm(Duration::ZERO)?;
        }
        Ok(())
    }
}

#[rpc]
impl Sleeper {
    pub async fn ring(&self, times: u64) -> Result<()> {
        let storage = self.ctx.storage();
        storage.put("left", &(times - 1))?;
        storage.set_alarm(Duration::from_mins(1))
    }

    pub async fn value(&self, key: String) -> Result<u64> {
        Ok(self.ctx.storage().get(&key)?.unwrap_or(0))
    }

    /// Waits for the clock.
    pub async fn nap(&self, seconds: u64) -> Result<()> {
        let clock = Arc::clone(self.ctx.env().clock());
        clock
            .sleep_until(clock.now() + Duration::from_secs(seconds))
            .await;
        self.ctx.storage().put("napped", &1_u64)
    }

    /// Calls another object in the background, which takes its time.
    pub async fn wait_for(&self, other: String, seconds: u64) -> Result<()> {
        let (ctx, env) = (self.ctx.clone(), self.ctx.env().clone());
        self.ctx.spawn(async move {
            let other = env.object::<Self>().get_by_name(&other);
            other.nap(seconds).await.unwrap();
            ctx.storage().put("answered", &1_u64).unwrap();
        })
    }

    /// Waits in the background for something that the runtime cannot see, within a time limit.
    pub async fn wait_for_news(&self) -> Result<()> {
        let ctx = self.ctx.clone();
        let news = ctx.env().require::<Arc<Notify>>()?;
        self.ctx.spawn(async move {
            let late = time_limit(&**ctx.env().clock(), Duration::from_secs(5));
            tokio::select! {
                () = news.notified() => ctx.storage().put("heard", &1_u64).unwrap(),
                () = late => {}
            }
        })
    }

    /// Naps in the background.
    pub async fn nap_in_background(&self, seconds: u64) -> Result<()> {
        let clock = Arc::clone(self.ctx.env().clock());
        let end = clock.now() + Duration::from_secs(seconds);
        self.ctx.spawn(async move { clock.sleep_until(end).await })
    }

    pub async fn block(&self, seconds: u64) -> Result<()> {
        let clock = Arc::clone(self.ctx.env().clock());
        let late = clock.sleep_until(clock.now() + Duration::from_secs(seconds));
        self.ctx
            .block_concurrency_while(async move {
                late.await;
                Ok(())
            })
            .await
    }
}

/// Delivers through a channel that the runtime cannot see.
struct Whisper;

impl Deliver for Whisper {
    type Payload = String;

    const KIND: &'static str = "whisper";

    fn destination(&self, _: &String) -> String {
        "ear".to_owned()
    }

    async fn submit(&self, delivery: &Delivery, _: &String) -> Result<Submitted, Failure> {
        let news = delivery.env().require::<Arc<Notify>>()?;
        news.notified().await;
        Ok(Submitted::Done)
    }
}

/// With an outbox and a schedule.
#[durable_object]
struct Desk {
    outbox: Outbox,
    schedule: Schedule,
}

impl DurableObject for Desk {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, outbox::OutboxOptions::default())?;
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let storage = ctx.storage().clone();
        schedule.on_firing(move |firing| storage.put("fired", &firing.due_at))?;
        Ok(Self { outbox, schedule })
    }
}

#[rpc]
impl Desk {
    pub async fn send(&self, url: String) -> Result<()> {
        let call = HttpCall::post(url);
        HttpDelivery::enqueue(&self.outbox, &call)?;
        Ok(())
    }

    /// One message for now, and one for later.
    pub async fn whisper(&self, now: i64) -> Result<()> {
        let message = || Whisper::message(&"psst".to_owned());
        self.outbox.enqueue(&message()?)?;
        let later = message()?.not_before(now + 30_000);
        self.outbox.enqueue(&later)?;
        Ok(())
    }

    pub async fn sent(&self) -> Result<i64> {
        Ok(self.outbox.counts()?.sent)
    }

    pub async fn ring_at(&self, time: i64) -> Result<()> {
        let set = self.schedule.upsert("bell", &Spec::once("bell", time));
        set.map(drop).map_err(Error::from)
    }

    pub async fn waiting(&self) -> Result<bool> {
        let timer = self.schedule.get("bell")?;
        Ok(timer.is_some_and(|timer| timer.due_at.is_some()))
    }
}

async fn host(clock: &TestClock, change: impl FnOnce(HostBuilder) -> HostBuilder) -> LocalHost {
    let host = Host::open_in_memory()
        .clock(Arc::new(clock.clone()))
        .with(Registry::new().with(HttpDelivery::new()).with(Whisper))
        .configure(|config| {
            config.outbound.allow_private = "127.0.0.1".parse().unwrap();
            config.objects.workers = Some(2);
        })
        .object::<Sleeper>()
        .object::<Desk>();
    change(host).start_local().await.unwrap()
}

fn sleeper(host: &LocalHost, name: &str) -> Stub<Sleeper> {
    host.env().object::<Sleeper>().get_by_name(name)
}

async fn value(sleeper: &Stub<Sleeper>, key: &str) -> u64 {
    sleeper.value(key.to_owned()).await.unwrap()
}

#[tokio::test]
async fn alarms_that_set_alarms_which_are_due_have_all_gone_off() {
    let clock = TestClock::new();
    let host = host(&clock, |host| host).await;
    let names: Vec<_> = (0..8).map(|n| n.to_string()).collect();
    for name in &names {
        sleeper(&host, name).ring(20).await.unwrap();
    }
    host.settle().await.unwrap();
    assert_eq!(value(&sleeper(&host, "0"), "rung").await, 0);
    clock.advance(Duration::from_mins(1));
    host.settle().await.unwrap();
    for name in &names {
        assert_eq!(value(&sleeper(&host, name), "rung").await, 20, "{name}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_request_of_an_outbox_has_been_answered() {
    let (arrived, answer) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let count = Arc::new(AtomicUsize::new(0));
    let receiver = {
        let (arrived, answer, count) = (arrived.clone(), answer.clone(), count.clone());
        Router::new().route(
            "/",
            post(async move || {
                arrived.notify_one();
                answer.acquire().await.unwrap().forget();
                count.fetch_add(1, Ordering::SeqCst);
            }),
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(axum::serve(listener, receiver).into_future());

    let clock = TestClock::new();
    let host = host(&clock, |host| host).await;
    let desk = host.env().object::<Desk>().get_by_name("ada");
    desk.send(url).await.unwrap();
    let let_it_answer = async {
        arrived.notified().await;
        assert_eq!(count.load(Ordering::SeqCst), 0);
        answer.add_permits(1);
    };
    let (settled, ()) = tokio::join!(host.settle(), let_it_answer);
    settled.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(desk.sent().await.unwrap(), 1);
    host.shutdown().await.unwrap();
    serving.abort();
}

#[tokio::test]
async fn a_delivery_beside_a_wait_for_the_clock_is_waited_for() {
    let (clock, news) = (TestClock::new(), Arc::new(Notify::new()));
    let host = host(&clock, |host| host.with(Arc::clone(&news))).await;
    let desk = host.env().object::<Desk>().get_by_name("ada");
    let now = clock.unix_millis().cast_signed();
    desk.whisper(now).await.unwrap();
    let (settled, ()) = tokio::join!(host.settle(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        news.notify_one();
    });
    settled.unwrap();
    assert_eq!(desk.sent().await.unwrap(), 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_ends_although_work_waits_for_the_clock() {
    let (clock, news) = (TestClock::new(), Arc::new(Notify::new()));
    let host = host(&clock, |host| host.with(Arc::clone(&news))).await;
    let ada = sleeper(&host, "ada");
    ada.nap_in_background(60).await.unwrap();
    sleeper(&host, "grace").wait_for_news().await.unwrap();
    // Something outside ends in the meantime.
    let ending = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        news.notify_one();
    };
    let ended = tokio::time::timeout(Duration::from_secs(10), host.shutdown());
    let (ended, ()) = tokio::join!(ended, ending);
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn timers_that_are_due_have_fired() {
    let clock = TestClock::new();
    let host = host(&clock, |host| host).await;
    let desk = host.env().object::<Desk>().get_by_name("ada");
    let at = clock.unix_millis().cast_signed() + 60_000;
    desk.ring_at(at).await.unwrap();
    clock.advance(Duration::from_secs(59));
    host.settle().await.unwrap();
    assert!(desk.waiting().await.unwrap());
    clock.advance(Duration::from_secs(1));
    host.settle().await.unwrap();
    assert!(!desk.waiting().await.unwrap());
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn calls_between_objects_are_answered_unless_they_wait_for_the_clock() {
    let clock = TestClock::new();
    let host = host(&clock, |host| host).await;
    let (ada, grace) = (sleeper(&host, "ada"), sleeper(&host, "grace"));
    ada.wait_for("grace".into(), 0).await.unwrap();
    host.settle().await.unwrap();
    assert_eq!(value(&ada, "answered").await, 1);

    let (eve, mallory) = (sleeper(&host, "eve"), sleeper(&host, "mallory"));
    eve.wait_for("mallory".into(), 9).await.unwrap();
    host.settle().await.unwrap();
    assert_eq!(value(&mallory, "napped").await, 0);
    clock.advance(Duration::from_secs(9));
    host.settle().await.unwrap();
    assert_eq!(value(&eve, "answered").await, 1);
    assert_eq!(value(&grace, "napped").await, 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_behind_a_gate_that_waits_for_the_clock_wait_for_it_too() {
    let clock = TestClock::new();
    let host = host(&clock, |host| host).await;
    let ada = sleeper(&host, "ada");
    let blocked = tokio::spawn(ada.block(5));
    let behind = tokio::spawn(ada.nap(0));
    host.settle().await.unwrap();
    assert!(!blocked.is_finished() && !behind.is_finished());
    clock.advance(Duration::from_secs(5));
    host.settle().await.unwrap();
    blocked.await.unwrap().unwrap();
    behind.await.unwrap().unwrap();
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn work_under_a_time_limit_is_waited_for() {
    let (clock, news) = (TestClock::new(), Arc::new(Notify::new()));
    let host = host(&clock, |host| host.with(Arc::clone(&news))).await;
    let ada = sleeper(&host, "ada");
    ada.wait_for_news().await.unwrap();
    let (settled, ()) = tokio::join!(host.settle(), async { news.notify_one() });
    settled.unwrap();
    assert_eq!(value(&ada, "heard").await, 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn objects_that_never_rest_are_named() {
    let (clock, news) = (TestClock::new(), Arc::new(Notify::new()));
    let ringing = host(&clock, |host| host).await;
    let waiting = host(&clock, |host| host.with(Arc::clone(&news))).await;
    sleeper(&ringing, "ada").ring(u64::MAX).await.unwrap();
    clock.advance(Duration::from_mins(1));
    sleeper(&waiting, "grace").wait_for_news().await.unwrap();
    let (ringing_error, waiting_error) = tokio::join!(ringing.settle(), waiting.settle());
    let ringing_error = ringing_error.unwrap_err();
    assert_eq!(ringing_error.kind(), ErrorKind::Timeout);
    let said = ringing_error.message();
    assert!(
        said.contains("the objects do not rest within") && said.contains("Sleeper/ada"),
        "{said}"
    );
    let waiting_error = waiting_error.unwrap_err();
    let said = waiting_error.message();
    assert!(
        said.contains("Sleeper/grace: background work runs"),
        "{said}"
    );
    // It is past its time limit.
    clock.advance(Duration::from_secs(5));
    waiting.settle().await.unwrap();
    ringing.shutdown().await.unwrap();
    waiting.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_running_clock_is_refused() {
    let host = Host::open_in_memory()
        .object::<Sleeper>()
        .start_local()
        .await
        .unwrap();
    let error = host.settle().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.message().contains("TestClock"), "{error}");
    host.shutdown().await.unwrap();
}
