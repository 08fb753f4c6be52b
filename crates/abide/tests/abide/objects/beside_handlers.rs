//! Tasks and threads that an object starts outside its handlers pass no output gate, so they cannot send.

use std::{
    sync::{Arc, Mutex, OnceLock, atomic::AtomicUsize, atomic::Ordering},
    thread,
};

use abide::{ErrorKind, Fetching, Outbound, prelude::*};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::support::{Signals, World, is_answered, run, signals};

/// How a handler may try to send something before its write is durable.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Way {
    Task,
    LocalTask,
    BlockingTask,
    Thread,
    /// A task of the program's own runtime.
    ElsewhereTask,
}

const WAYS: [Way; 5] = [
    Way::Task,
    Way::LocalTask,
    Way::BlockingTask,
    Way::Thread,
    Way::ElsewhereTask,
];

/// What the program shares with its objects, against all advice.
#[derive(Default)]
struct Lent {
    runtime: OnceLock<Handle>,
    env: OnceLock<Env>,
    outcomes: Mutex<Vec<Result<()>>>,
    sent: AtomicUsize,
}

#[derive(Clone)]
struct Shared(Arc<Lent>);

impl Outbound for Shared {
    fn fetch(&self, _: Request) -> Fetching {
        self.0.sent.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Response::new(Body::empty()))))
    }
}

#[durable_object]
struct Leaky {
    ctx: Ctx,
    env: Env,
    signals: Signals,
}

impl DurableObject for Leaky {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        Ok(Self { ctx, env, signals })
    }
}

#[rpc]
impl Leaky {
    /// Writes, and reports it past the gate: with the object's environment or with the program's.
    pub async fn leak(&self, way: Way, own: bool) -> Result<()> {
        self.ctx.storage().put("secret", &format!("{way:?}{own}"))?;
        let lent = self.env.require::<Shared>()?.0.clone();
        let env = if own {
            self.env.clone()
        } else {
            lent.env.get().unwrap().clone()
        };
        let signals = self.signals.clone();
        let runtime = lent.runtime.get().unwrap().clone();
        let telling = async move {
            let other = env.object::<Self>().get_by_name("other");
            let request = Request::builder().uri("http://example.test/");
            let outcomes = [
                other.told().await,
                other.fetch(Request::new(Body::empty())).await.map(drop),
                env.fetch(request.body(Body::empty()).unwrap())
                    .await
                    .map(drop),
            ];
            lent.outcomes.lock().unwrap().extend(outcomes);
            signals.give("done");
        };
        match way {
            Way::Task => drop(tokio::spawn(telling)),
            Way::LocalTask => drop(tokio::task::spawn_local(telling)),
            Way::BlockingTask => drop(tokio::task::spawn_blocking(move || {
                runtime.block_on(telling);
            })),
            Way::Thread => drop(thread::spawn(move || runtime.block_on(telling))),
            Way::ElsewhereTask => drop(runtime.spawn(telling)),
        }
        Ok(())
    }

    /// Writes, and tells another object of it in the background.
    pub async fn tell_later(&self) -> Result<()> {
        self.ctx.storage().put("secret", &0)?;
        let other = self.env.object::<Self>().get_by_name("other");
        self.ctx.spawn(async move {
            other.told().await.unwrap();
        })
    }

    pub async fn told(&self) {
        self.signals.note("told");
    }
}

fn world() -> (World, Arc<Lent>) {
    let lent = Arc::new(Lent::default());
    lent.runtime.set(Handle::current()).unwrap();
    let shared = Shared(Arc::clone(&lent));
    let world = World::new(|node| {
        node.class::<Leaky>(ClassOptions::default())
            .outbound(Arc::new(shared.clone()))
            .with(shared)
    });
    assert!(lent.env.set(world.env().clone()).is_ok());
    (world, lent)
}

/// The report was not sent, and the object's code learns why.
fn all_was_refused(world: &World, lent: &Lent) {
    assert_eq!(world.signals.notes(), [""; 0]);
    assert_eq!(lent.sent.load(Ordering::SeqCst), 0);
    let outcomes = std::mem::take(&mut *lent.outcomes.lock().unwrap());
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.message().contains("ctx.spawn"), "{error}");
    }
}

#[test]
fn what_an_object_was_given_sends_nothing_from_tasks_and_threads() {
    run(async {
        let (world, lent) = world();
        let leaky = world.env().object::<Leaky>().get_by_name("a");
        world.disk.hold_syncs();
        for way in WAYS {
            let _call = leaky.leak(way, true);
            world.signals.wait("done").await;
            all_was_refused(&world, &lent);
        }
        world.disk.release_syncs();
    });
}

#[test]
fn nothing_else_sends_from_tasks_of_a_worker_s_threads() {
    run(async {
        let (world, lent) = world();
        let leaky = world.env().object::<Leaky>().get_by_name("a");
        world.disk.hold_syncs();
        for way in [Way::Task, Way::LocalTask, Way::BlockingTask] {
            let _call = leaky.leak(way, false);
            world.signals.wait("done").await;
            all_was_refused(&world, &lent);
        }
        world.disk.release_syncs();
        // The program itself still sends what it likes.
        let other = lent
            .env
            .get()
            .unwrap()
            .object::<Leaky>()
            .get_by_name("other");
        other.told().await.unwrap();
        assert_eq!(world.signals.notes(), ["told"]);
    });
}

#[test]
fn background_work_waits_at_the_gate() {
    run(async {
        let (world, _lent) = world();
        let leaky = world.env().object::<Leaky>().get_by_name("a");
        world.disk.hold_syncs();
        let mut call = leaky.tell_later();
        world.fence().await;
        assert!(!is_answered(&mut call));
        assert_eq!(world.signals.notes(), [""; 0]);
        world.disk.release_syncs();
        call.await.unwrap();
        world.until(|_| world.signals.notes() == ["told"]).await;
    });
}
