//! Every queue is bounded, and callers get an error when it is full.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use abide::{ErrorKind, clock::TestClock, limits::MAX_QUEUE_TIME, prelude::*, storage::SimDisk};

use crate::support::{Signals, World, is_answered, run, signals};

#[derive(Default)]
struct Released(AtomicBool);

#[durable_object]
struct Slow {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Slow {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }
}

#[rpc]
impl Slow {
    pub async fn block(&self) -> Result<()> {
        let signals = self.signals.clone();
        let blocked = self.ctx.block_concurrency_while(async move {
            signals.give("closed");
            signals.wait("open").await;
            Ok(())
        });
        blocked.await
    }

    /// Closes the gate for a moment, this many times.
    pub async fn block_often(&self, times: u32) -> Result<()> {
        for _ in 0..times {
            self.ctx
                .block_concurrency_while(async {
                    tokio::task::yield_now().await;
                    Ok(())
                })
                .await?;
        }
        Ok(())
    }

    pub async fn wait(&self) {
        self.signals.note("waiting");
        self.signals.wait("go").await;
    }

    pub async fn quick(&self) {}

    /// Makes this many calls in one poll; returns how many were refused as overloaded.
    pub async fn flood(&self, count: usize) -> usize {
        let other = self.ctx.env().object::<Self>().get_by_name("flooded");
        let calls: Vec<_> = (0..count).map(|_| other.quick()).collect();
        let mut refused = 0;
        for call in calls {
            refused += usize::from(call.await.is_err_and(|error| error.overloaded()));
        }
        refused
    }

    /// Takes this much of its worker's time.
    pub async fn compute(&self, millis: u64) -> Result<()> {
        let clock = self.ctx.env().require::<TestClock>()?;
        clock.advance(Duration::from_millis(millis));
        Ok(())
    }

    /// Keeps its worker from everything else until told, then calls an object of the same worker.
    pub async fn hold_and_call(&self) -> Result<()> {
        let released = self.ctx.env().require::<Released>()?;
        self.signals.give("held");
        while !released.0.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        self.ctx
            .env()
            .object::<Self>()
            .get_by_name("other")
            .quick()
            .await
    }

    /// Starts background work until there is too much; returns how much was taken.
    pub async fn work_for_ever(&self) -> Result<(usize, Error)> {
        let mut taken = 0;
        loop {
            match self.ctx.spawn(std::future::pending()) {
                Ok(()) => taken += 1,
                Err(error) => return Ok((taken, error)),
            }
        }
    }
}

#[test]
fn an_object_with_a_full_queue_is_overloaded_in_the_documented_words() {
    run(async {
        let options = ClassOptions::default().max_queued(2);
        let world = World::new(|node| node.class::<Slow>(options));
        let slow = world.env().object::<Slow>().get_by_name("slow");
        let blocking = slow.block();
        world.signals.wait("closed").await;
        let queued = [slow.quick(), slow.quick()];
        let error = slow.quick().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "Durable Object is overloaded. Too many requests queued."
        );
        assert!(
            error.kind() == ErrorKind::Overloaded && error.overloaded() && error.retryable(),
            "{error:?}"
        );
        assert!(!error.object_reset() && !error.remote());

        world.signals.give("open");
        blocking.await.unwrap();
        for call in queued {
            call.await.unwrap();
        }
        slow.quick().await.unwrap();
        assert_eq!(world.node.stats().overloaded, 1);
    });
}

#[test]
fn timers_are_as_few_as_objects_however_often_these_close_their_gates() {
    run(async {
        let options = ClassOptions::default().idle_timeout(Duration::MAX);
        let world = World::new(|node| node.class::<Slow>(options));
        let names = ["a", "b", "c"];
        let object = |name: &str| world.env().object::<Slow>().get_by_name(name);
        for name in names {
            object(name).block_often(1_000).await.unwrap();
        }
        world.fence().await;
        // The fence is an object, too.
        assert!(world.node.stats().timers <= 4);

        // Handlers that suspend have time limits, and those of their objects that are over leave nothing behind.
        for _ in 0..10 {
            let waiting = names.map(|name| object(name).wait());
            world.fence().await;
            for _ in names {
                world.signals.give("go");
            }
            for call in waiting {
                call.await.unwrap();
            }
            world.clock.advance(Duration::from_mins(5));
            world.fence().await;
        }
        assert!(world.node.stats().timers <= 4);
    });
}

#[test]
fn an_object_with_too_many_suspended_handlers_lets_further_events_wait() {
    run(async {
        let options = ClassOptions::default().max_running(2);
        let world = World::new(|node| node.class::<Slow>(options));
        let slow = world.env().object::<Slow>().get_by_name("slow");
        let running = [slow.wait(), slow.wait()];
        let mut third = slow.wait();
        world.fence().await;
        assert_eq!(world.signals.notes().len(), 2);
        world.signals.give("go");
        world.signals.give("go");
        for call in running {
            call.await.unwrap();
        }
        world.fence().await;
        assert_eq!(world.signals.notes().len(), 3);
        assert!(!is_answered(&mut third));
        world.signals.give("go");
        third.await.unwrap();
    });
}

#[test]
fn calls_of_an_object_beyond_the_bound_of_a_worker_fail_at_once() {
    run(async {
        let world = World::new(|node| node.class::<Slow>(ClassOptions::default()));
        let slow = world.env().object::<Slow>().get_by_name("slow");
        // The handler that calls counts too.
        let room = abide::limits::MAX_QUEUED_PER_WORKER - 1;
        assert_eq!(slow.flood(room + 10).await.unwrap(), 10);
        assert_eq!(slow.flood(10).await.unwrap(), 0);
    });
}

#[test]
fn a_worker_refuses_late_calls_except_those_of_its_objects() {
    const TAKES: Duration = Duration::from_millis(10);
    run(async {
        let clock = TestClock::new();
        let world = World::at(clock.clone(), SimDisk::new(), 1, |node| {
            node.with(clock)
                .with(Released::default())
                .class::<Slow>(ClassOptions::default())
        });
        let slow = world.env().object::<Slow>().get_by_name("slow");
        for _ in 0..100 {
            slow.compute(TAKES.as_millis() as u64).await.unwrap();
        }
        let holding = slow.hold_and_call();
        world.signals.wait("held").await;

        let many = 2 * (MAX_QUEUE_TIME.as_millis() / TAKES.as_millis()) as usize;
        let mut calls: Vec<_> = (0..many).map(|_| slow.quick()).collect();
        calls.retain_mut(|call| !is_answered(call));
        let refused = many - calls.len();
        assert!(
            refused.abs_diff(many / 2) < many / 10,
            "{refused} of {many}"
        );
        assert_eq!(world.node.stats().overloaded, refused as u64);
        let error = slow.quick().await.unwrap_err();
        assert!(error.overloaded() && error.retryable(), "{error:?}");

        let released = world.env().require::<Released>().unwrap();
        released.0.store(true, Ordering::Relaxed);
        holding.await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
        slow.quick().await.unwrap();
    });
}

#[test]
fn background_tasks_are_limited_and_handlers_still_run() {
    run(async {
        let options = ClassOptions::default().max_running(1);
        let world = World::new(|node| node.class::<Slow>(options));
        let slow = world.env().object::<Slow>().get_by_name("slow");
        let (taken, error) = slow.work_for_ever().await.unwrap();
        assert_eq!(taken, abide::limits::MAX_BACKGROUND_PER_OBJECT);
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        slow.quick().await.unwrap();
    });
}

#[test]
fn bounds_of_nothing_are_refused() {
    let start = |options| {
        let store = abide::storage::Store::open(
            std::sync::Arc::new(abide::storage::SimDisk::new()),
            std::path::Path::new("/data"),
            abide::storage::StoreOptions::small(),
        );
        abide::Node::builder(store.unwrap())
            .class::<Slow>(options)
            .start()
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let no_handlers = start(ClassOptions::default().max_running(0));
    assert!(no_handlers.contains("`Slow` has max_running = 0"));
}
