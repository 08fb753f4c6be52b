//! Handlers that never return.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    ErrorKind,
    clock::{Clock, Sleep, TestClock},
    prelude::*,
    storage::SimDisk,
};

use crate::support::{Signals, World, run, signals};

#[derive(Default)]
struct Stop(AtomicBool);

#[durable_object]
struct Endless {
    env: Env,
    signals: Signals,
    stop: Arc<Stop>,
}

impl DurableObject for Endless {
    fn new(_: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            signals: signals(&env),
            stop: env.require()?,
            env,
        })
    }
}

#[rpc]
impl Endless {
    pub async fn wait_for_ever(&self) {
        self.signals.give("waiting");
        std::future::pending::<()>().await;
    }

    pub async fn spin(&self) {
        self.signals.give("spinning");
        while !self.stop.0.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }

    /// Keeps its worker's channel from ever being empty.
    pub async fn go_round(&self, name: String) {
        if !self.stop.0.load(Ordering::Relaxed) {
            drop(self.env.object::<Self>().get_by_name(&name).go_round(name));
        }
    }

    pub async fn quick(&self) {}
}

fn world(workers: usize) -> World {
    World::on(SimDisk::new(), workers, |node| {
        node.class::<Endless>(ClassOptions::default())
            .with(Stop::default())
    })
}

#[test]
fn a_handler_that_never_returns_resets_its_object_at_the_limit() {
    run(async {
        let world = world(1);
        let endless = world.env().object::<Endless>().get_by_name("a");
        let call = endless.wait_for_ever();
        world.signals.wait("waiting").await;
        world.clock.advance(Duration::from_secs(299));
        endless.quick().await.unwrap();
        world.clock.advance(Duration::from_secs(1));
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.object_reset(), "{error:?}");
        assert_eq!(
            error.message(),
            "a handler of Endless did not finish within 300 s, so the object was reset"
        );
        endless.quick().await.unwrap();
    });
}

#[test]
fn a_spinning_handler_is_reported_and_other_workers_keep_working() {
    run(async {
        let world = world(2);
        let namespace = world.env().object::<Endless>();
        // Objects of even shards, which are the first ten bits of an id, live on one of two workers, the others on the other.
        let on_worker = |odd: u8| {
            let names = (0..).map(|number| namespace.get_by_name(&format!("{number}")));
            names
                .into_iter()
                .find(|stub| stub.id().as_bytes()[1] >> 6 & 1 == odd)
                .unwrap()
        };
        let (stuck, free) = (on_worker(0), on_worker(1));
        let call = stuck.spin();
        world.signals.wait("spinning").await;
        world.clock.advance(Duration::from_secs(4));
        free.quick().await.unwrap();
        assert_eq!(world.node.stuck_workers(), 0);

        world.clock.advance(Duration::from_secs(2));
        world.until(|node| node.stuck_workers() == 1).await;
        free.quick().await.unwrap();
        let error = world.node.shutdown(Duration::ZERO);
        let error = tokio::select! {
            error = error => error.unwrap_err(),
            () = async { loop { world.clock.advance(Duration::from_secs(1)); tokio::task::yield_now().await } } => unreachable!(),
        };
        assert!(
            error
                .message()
                .contains("blocked by a handler that never awaits"),
            "{error}"
        );

        world
            .env()
            .require::<Stop>()
            .unwrap()
            .0
            .store(true, Ordering::Relaxed);
        call.await.unwrap();
    });
}

#[test]
fn a_worker_that_was_blocked_is_not_reported_any_more() {
    run(async {
        let world = world(1);
        let endless = world.env().object::<Endless>().get_by_name("a");
        let call = endless.spin();
        world.signals.wait("spinning").await;
        world.clock.advance(Duration::from_secs(6));
        world.until(|node| node.stuck_workers() == 1).await;
        world
            .env()
            .require::<Stop>()
            .unwrap()
            .0
            .store(true, Ordering::Relaxed);
        call.await.unwrap();
        world.clock.advance(Duration::from_secs(2));
        world.until(|node| node.stuck_workers() == 0).await;
    });
}

#[test]
fn a_blocked_worker_refuses_events_beyond_its_bound() {
    run(async {
        let world = world(1);
        let endless = world.env().object::<Endless>().get_by_name("a");
        let call = endless.spin();
        world.signals.wait("spinning").await;
        // The one that spins counts too.
        let waiting: Vec<_> = (1..abide::limits::MAX_QUEUED_PER_WORKER)
            .map(|_| endless.quick())
            .collect();
        let error = endless.quick().await.unwrap_err();
        assert!(error.overloaded(), "{error:?}");
        world
            .env()
            .require::<Stop>()
            .unwrap()
            .0
            .store(true, Ordering::Relaxed);
        call.await.unwrap();
        for call in waiting {
            call.await.unwrap();
        }
        endless.quick().await.unwrap();
    });
}

#[test]
fn a_time_limit_holds_though_events_never_cease() {
    run(async {
        let world = world(1);
        let namespace = world.env().object::<Endless>();
        let call = namespace.get_by_name("a").wait_for_ever();
        world.signals.wait("waiting").await;
        let busy = namespace.get_by_name("busy");
        busy.go_round("busy".to_owned()).await.unwrap();
        world.clock.advance(Duration::from_mins(5));
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Timeout);
        world
            .env()
            .require::<Stop>()
            .unwrap()
            .0
            .store(true, Ordering::Relaxed);
    });
}

/// A clock that breaks the thread of a worker when it is told to.
struct BrokenClock(TestClock, Arc<AtomicBool>);

impl Clock for BrokenClock {
    fn now(&self) -> Duration {
        let thread = std::thread::current();
        let is_worker = thread
            .name()
            .is_some_and(|name| name.starts_with("abide-worker"));
        assert!(
            !(is_worker && self.1.load(Ordering::Relaxed)),
            "the clock is broken"
        );
        self.0.now()
    }

    fn unix_millis(&self) -> u64 {
        self.0.unix_millis()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.0.sleep_until(deadline)
    }
}

#[test]
fn a_node_that_has_lost_a_worker_has_failed() {
    run(async {
        let broken = Arc::new(AtomicBool::new(false));
        let clock = Arc::new(BrokenClock(TestClock::new(), Arc::clone(&broken)));
        let world = World::on(SimDisk::new(), 2, |node| {
            node.class::<Endless>(ClassOptions::default())
                .with(Stop::default())
                .clock(clock)
        });
        let endless = world.env().object::<Endless>().get_by_name("a");
        endless.quick().await.unwrap();
        assert!(!world.node.failed());
        broken.store(true, Ordering::Relaxed);
        endless.quick().await.unwrap_err();
        world.node.wait_failed().await;
        assert!(world.node.failed());
        world.node.shutdown(Duration::ZERO).await.unwrap();
    });
}
