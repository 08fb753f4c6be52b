//! Locks, and the fences behind them.

use std::time::Duration;

use abide::limits::patterns::{FORGET_LOCK_AFTER, MAX_LEASE, MAX_LOCK_WAIT};
use abide::{
    component::Failure,
    patterns::lock::{self, Fence, Lease, Lock, LockError, Token},
    prelude::*,
};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

/// A resource that writes down whose writes it has taken.
#[durable_object]
struct Resource {
    ctx: Ctx,
    fence: Fence,
}

impl DurableObject for Resource {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        let fence = Fence::open(&ctx, "resource")?;
        Ok(Self { ctx, fence })
    }
}

#[rpc]
impl Resource {
    pub async fn write(&self, token: Token) -> Result<(), LockError> {
        self.fence.admit(token)?;
        let mut written = self.written().await?;
        written.push(token);
        Ok(self.ctx.storage().put("written", &written)?)
    }

    pub async fn written(&self) -> Result<Vec<Token>> {
        Ok(self.ctx.storage().get("written")?.unwrap_or_default())
    }

    /// Opens another fence; says why not.
    pub async fn open(&self, name: String) -> Option<String> {
        let opened = Fence::open(&self.ctx, &name);
        opened.err().map(|error| error.to_string())
    }
}

fn world() -> World {
    World::new(|node| {
        node.class::<Lock>(lock::class_options())
            .class::<Resource>(ClassOptions::default())
    })
}

fn lock(world: &World) -> Stub<Lock> {
    world.stub::<Lock>("resource")
}

async fn acquire(world: &World, holder: &str, lease: Duration) -> Result<Lease, LockError> {
    lock(world).acquire(holder.to_owned(), lease).await
}

/// Begins to wait for the lock.
fn wait_for(
    world: &World,
    holder: &str,
    lease: Duration,
    wait: Duration,
) -> impl Future<Output = Result<Lease, LockError>> + use<> {
    lock(world).acquire_within(holder.to_owned(), lease, wait)
}

/// What the lock has promised.
#[derive(Default)]
struct Model {
    /// The tokens of all leases, in the order in which they were given.
    tokens: Vec<Token>,
    held: Option<Lease>,
}

impl Model {
    fn held(&mut self, now: i64) -> Option<&mut Lease> {
        self.held.take_if(|lease| lease.expires_at <= now);
        self.held.as_mut()
    }

    fn acquired(&mut self, holder: &str, ends: i64, now: i64, got: &Result<Lease, LockError>) {
        let tokens = self.tokens.last().copied();
        match (self.held(now), got) {
            (None, Ok(lease)) => {
                assert_eq!((&*lease.holder, lease.expires_at), (holder, ends));
                assert!(
                    tokens.is_none_or(|last| lease.token > last),
                    "{tokens:?} {lease:?}"
                );
                self.tokens.push(lease.token);
                self.held = Some(lease.clone());
            }
            (Some(held), Ok(lease)) => {
                held.expires_at = ends;
                assert_eq!((held, holder), (&mut lease.clone(), &*lease.holder));
            }
            (
                Some(held),
                Err(LockError::Held {
                    holder: by,
                    expires_at,
                }),
            ) => {
                assert_eq!((&*held.holder, held.expires_at), (&**by, *expires_at));
                assert_ne!(by, holder);
            }
            (held, got) => panic!("{holder} got {got:?}, and the lock was held: {held:?}"),
        }
    }
}

/// A token that the lock has never given.
async fn foreign_token(world: &World) -> Token {
    let other = world.stub::<Lock>("other");
    let lease = other.acquire("ada".to_owned(), secs(1)).await;
    lease.unwrap().token
}

async fn simulate(seed: u64, mut random: Random) {
    let mut world = world();
    let foreign = foreign_token(&world).await;
    let mut model = Model::default();
    let holders = ["ada", "bob", "eve"];
    for step in 0..150 {
        let now = world.now();
        // The newest token, one before, or none that there was.
        let back = usize::try_from(random.below(4)).unwrap();
        let token = model
            .tokens
            .iter()
            .rev()
            .nth(back)
            .copied()
            .unwrap_or(foreign);
        let lease = millis(100 + random.below(20_000));
        let ends = now + i64::try_from(lease.as_millis()).unwrap();
        let case = format!("seed {seed}, step {step}");
        match random.below(12) {
            0..=3 => {
                let holder = holders[usize::try_from(random.below(3)).unwrap()];
                let got = acquire(&world, holder, lease).await;
                model.acquired(holder, ends, now, &got);
            }
            4 | 5 => {
                let got = lock(&world).renew(token, lease).await;
                match model.held(now).filter(|held| held.token == token) {
                    Some(held) => {
                        held.expires_at = ends;
                        assert_eq!(got.unwrap(), *held, "{case}");
                    }
                    None => assert!(
                        matches!(got, Err(LockError::Lost { .. })),
                        "{case}: {got:?}"
                    ),
                }
            }
            6 | 7 => {
                let was_held = model.held(now).is_some_and(|held| held.token == token);
                let freed = lock(&world).release(token).await.unwrap();
                assert_eq!(freed, was_held, "{case}");
                model.held.take_if(|_| was_held);
            }
            8 => {
                let shown = lock(&world).holder().await.unwrap();
                assert_eq!(shown.as_ref(), model.held(now).map(|held| &*held), "{case}");
            }
            9 => world.advance(millis(random.below(15_000))).await,
            // Long enough for a lock that is free to be forgotten.
            10 if random.below(4) == 0 => world.advance(FORGET_LOCK_AFTER + secs(60)).await,
            10 => world.advance(millis(random.below(300))).await,
            _ => world = world.killed_or_crashed(&mut random),
        }
    }
    world.advance(MAX_LEASE).await;
    world.advance(FORGET_LOCK_AFTER).await;
    assert_eq!(
        world.alarms(),
        0,
        "seed {seed}: a lock that is free is forgotten"
    );
}

#[test]
fn one_holder_has_the_lock_and_tokens_grow_whatever_happens() {
    each_seed(simulate);
}

#[test]
fn the_longest_waiter_is_next_and_leases_expire() {
    run(async {
        let world = world();
        let ada = acquire(&world, "ada", secs(10)).await.unwrap();
        let bob = wait_for(&world, "bob", secs(10), secs(60));
        let eve = wait_for(&world, "eve", secs(10), secs(60));
        let again = wait_for(&world, "bob", secs(10), secs(60));
        world.advance(secs(9)).await;
        assert!(lock(&world).release(ada.token).await.unwrap());
        let bob = bob.await.unwrap();
        assert_eq!(
            (&*bob.holder, bob.expires_at),
            ("bob", world.now() + 10_000)
        );
        assert_eq!(
            again.await.unwrap(),
            bob,
            "a repeated call has the same answer"
        );
        // Its holder does not release it: the alarm does.
        world.advance(secs(10)).await;
        let held = lock(&world).holder().await.unwrap().unwrap();
        assert_eq!(held.holder, "eve");
        let eve = eve.await.unwrap();
        assert_eq!(
            (&*eve.holder, eve.expires_at),
            ("eve", world.now() + 10_000)
        );
        assert!(ada.token < bob.token && bob.token < eve.token);
        let stale = lock(&world).renew(bob.token, secs(1)).await;
        assert!(matches!(stale, Err(LockError::Lost { .. })));
    });
}

#[test]
fn a_waiter_that_times_out_learns_the_holder() {
    run(async {
        let world = world();
        let ada = acquire(&world, "ada", secs(100)).await.unwrap();
        let bob = wait_for(&world, "bob", secs(10), secs(5));
        world.advance(secs(5)).await;
        let Err(LockError::Held { holder, expires_at }) = bob.await else {
            panic!("the time was over");
        };
        assert_eq!((&*holder, expires_at), ("ada", ada.expires_at));
        // The lock ends at the moment when a waiter gives up.
        let eve = wait_for(&world, "eve", secs(10), secs(95));
        world.advance(secs(95)).await;
        let eve = eve.await.unwrap();
        assert!(eve.token > ada.token);
        assert_eq!(lock(&world).holder().await.unwrap(), Some(eve));
    });
}

#[test]
fn a_kill_ends_the_waiting_and_no_lease() {
    run(async {
        let mut world = world();
        let ada = acquire(&world, "ada", secs(10)).await.unwrap();
        let waiting = wait_for(&world, "bob", secs(10), secs(60));
        world.node.settle().await.unwrap();
        world = world.killed();
        drop(waiting);
        let refused = acquire(&world, "bob", secs(10)).await;
        assert!(matches!(refused, Err(LockError::Held { .. })));
        // No call comes, and the lease ends all the same.
        world.advance(secs(10)).await;
        assert_eq!(lock(&world).holder().await.unwrap(), None);
        let bob = acquire(&world, "bob", secs(10)).await.unwrap();
        assert!(bob.token > ada.token);
    });
}

#[test]
fn a_clock_that_is_set_back_makes_no_lease_longer_and_no_token_smaller() {
    run(async {
        let world = world();
        let ada = acquire(&world, "ada", secs(10)).await.unwrap();
        world.clock.set_wall(-3_600_000);
        world.advance(secs(10)).await;
        let bob = acquire(&world, "bob", secs(10)).await.unwrap();
        assert!(bob.token > ada.token, "{ada:?} {bob:?}");
    });
}

#[test]
fn a_lock_is_not_forgotten_while_the_clock_is_behind_its_last_token() {
    run(async {
        let world = world();
        let ada = acquire(&world, "ada", secs(10)).await.unwrap();
        assert!(lock(&world).release(ada.token).await.unwrap());
        // It was two days ahead, and is set right.
        let two_days = 2 * FORGET_LOCK_AFTER;
        world
            .clock
            .set_wall(-i64::try_from(two_days.as_millis()).unwrap());
        world.advance(FORGET_LOCK_AFTER).await;
        let bob = acquire(&world, "bob", secs(10)).await.unwrap();
        assert!(bob.token > ada.token, "{ada:?} {bob:?}");
        assert!(lock(&world).release(bob.token).await.unwrap());
        for _ in 0..3 {
            world.advance(FORGET_LOCK_AFTER).await;
        }
        assert_eq!(world.alarms(), 0, "it is forgotten in the end");
    });
}

#[test]
fn a_fence_refuses_older_holders_also_after_a_kill() {
    run(async {
        let mut world = world();
        let ada = acquire(&world, "ada", secs(1)).await.unwrap();
        world.advance(secs(1)).await;
        let bob = acquire(&world, "bob", secs(1)).await.unwrap();
        let resource = world.stub::<Resource>("resource");
        resource.write(ada.token).await.unwrap();
        resource.write(bob.token).await.unwrap();
        resource.write(bob.token).await.unwrap();
        world = world.killed();
        let resource = world.stub::<Resource>("resource");
        let refused = resource.write(ada.token).await;
        assert!(
            matches!(refused, Err(LockError::Stale { token, newest }) if (token, newest) == (ada.token, bob.token)),
            "{refused:?}"
        );
        let written = resource.written().await.unwrap();
        assert_eq!(written, [ada.token, bob.token, bob.token]);
        for name in ["", &*"r".repeat(256)] {
            assert!(resource.open(name.to_owned()).await.unwrap().is_some());
        }
    });
}

#[test]
fn invalid_input_is_refused_and_changes_nothing() {
    run(async {
        let world = world();
        let long = "h".repeat(256);
        for (holder, lease) in [
            ("", secs(1)),
            (&*long, secs(1)),
            ("ada", Duration::ZERO),
            ("ada", millis(99)),
            ("ada", MAX_LEASE + millis(1)),
            ("ada", Duration::MAX),
        ] {
            let refused = acquire(&world, holder, lease).await;
            assert!(matches!(refused, Err(LockError::Invalid(_))), "{refused:?}");
            let refused = wait_for(&world, holder, lease, secs(1)).await;
            assert!(matches!(refused, Err(LockError::Invalid(_))), "{refused:?}");
        }
        let refused = wait_for(&world, "ada", secs(1), MAX_LOCK_WAIT + secs(1)).await;
        assert!(matches!(refused, Err(LockError::Invalid(_))));
        assert_eq!(world.written::<Lock>(), 0);
        let foreign = foreign_token(&world).await;
        let before = world.written::<Lock>();
        assert!(!lock(&world).release(foreign).await.unwrap());
        let lost = lock(&world).renew(foreign, secs(1)).await;
        assert!(matches!(lost, Err(LockError::Lost { token }) if token == foreign));
        assert_eq!(world.written::<Lock>(), before);
    });
}

/// Also if the clock was set back since.
#[test]
fn tokens_grow_after_a_restore_of_the_lock() {
    run(async {
        let world = world();
        let ada = acquire(&world, "ada", secs(1)).await.unwrap();
        world.advance(secs(1)).await;
        let stub = lock(&world);
        let then = world.node.bookmark(stub.untyped(), None).await.unwrap();
        let bob = acquire(&world, "bob", secs(10)).await.unwrap();
        world.clock.set_wall(-3_600_000);
        let undo = world.node.restore(stub.untyped(), then).await.unwrap();
        let eve = acquire(&world, "eve", secs(10)).await.unwrap();
        assert!(ada.token < bob.token && bob.token < eve.token);
        assert!(bob.token.to_string() < eve.token.to_string());
        let lost = lock(&world).renew(bob.token, secs(1)).await;
        assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
        // The undo brings bob's lease back, and the next one is above eve's.
        world.node.restore(stub.untyped(), undo).await.unwrap();
        let freed = lock(&world).release(bob.token).await.unwrap();
        assert!(freed);
        let next = acquire(&world, "eve", secs(10)).await.unwrap();
        assert!(next.token > eve.token);
    });
}

#[test]
fn a_fork_of_a_lock_grants_nothing() {
    run(async {
        let world = world();
        let ada = acquire(&world, "ada", secs(10)).await.unwrap();
        let stub = lock(&world);
        let (node, now) = (&world.node, world.node.bookmark(stub.untyped(), None).await);
        node.fork(stub.untyped(), now.unwrap(), "copy")
            .await
            .unwrap();
        let copy = world.stub::<Lock>("copy");
        for holder in ["ada", "bob"] {
            let got = copy.acquire(holder.to_owned(), secs(10)).await;
            assert!(matches!(got, Err(LockError::Dormant)), "{got:?}");
        }
        let got = copy.renew(ada.token, secs(10)).await;
        assert!(matches!(got, Err(LockError::Dormant)), "{got:?}");
        assert_eq!(copy.holder().await.unwrap(), None);
        node.activate(copy.untyped(), Activation::Continue)
            .await
            .unwrap();
        let bob = copy.acquire("bob".to_owned(), secs(10)).await.unwrap();
        assert_ne!(bob.token, ada.token);
        lock(&world).renew(ada.token, secs(10)).await.unwrap();
    });
}

#[test]
fn work_waits_for_a_lock_with_too_many_waiters() {
    let failure = Failure::from(LockError::TooManyWaiters { max: 1 });
    assert!(failure.kind().is_no_attempt(), "{failure:?}");
}
