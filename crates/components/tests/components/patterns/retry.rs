//! Calls that are made again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    ErrorKind,
    patterns::retry::{Retry, RetryOptions},
    prelude::*,
};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

/// What the next attempts do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// It panics before anything is durable.
    Panic,
    /// What it wrote is durable, and then it panics.
    PanicLate,
    Refuse,
}

/// The acts to come, and how many attempts there were.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<(VecDeque<Act>, u32)>>);

#[durable_object]
struct Account {
    ctx: Ctx,
    script: Arc<Script>,
}

impl DurableObject for Account {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let script = env.require()?;
        Ok(Self { ctx, script })
    }
}

#[rpc]
impl Account {
    pub async fn deposit(&self, amount: i64) -> Result<i64> {
        let act = {
            let mut script = self.script.0.lock().unwrap();
            script.1 += 1;
            script.0.pop_front()
        };
        let sum = self.balance().await? + amount;
        match act {
            Some(Act::Refuse) => return Err(Error::with_kind(ErrorKind::Unavailable, "no")),
            Some(Act::Panic) => {
                self.ctx.storage().put("balance", &sum)?;
                panic!("the script says so");
            }
            Some(Act::PanicLate) => {
                // The answer is on its way when the object is reset: its caller does not hear whether it has run.
                self.ctx.storage().put("balance", &sum)?;
                self.ctx.storage().sync().await?;
                panic!("the script says so");
            }
            None => self.ctx.storage().put("balance", &sum)?,
        }
        Ok(sum)
    }

    pub async fn balance(&self) -> Result<i64> {
        Ok(self.ctx.storage().get("balance")?.unwrap_or(0))
    }

    /// Is busy for a time.
    pub async fn block(&self, time: Duration) -> Result<()> {
        let clock = Arc::clone(self.ctx.env().clock());
        let over = clock.sleep_until(clock.now() + time);
        let blocked = async move {
            over.await;
            Ok(())
        };
        self.ctx.block_concurrency_while(blocked).await
    }
}

fn world(acts: &[Act]) -> (World, Script) {
    let script = Script::default();
    script.0.lock().unwrap().0.extend(acts);
    let shared = script.clone();
    let world = World::new(move |node| {
        let options = ClassOptions::default().max_queued(1);
        node.class::<Account>(options).with(shared.clone())
    });
    (world, script)
}

fn ada(world: &World) -> Stub<Account> {
    world.stub::<Account>("ada")
}

/// Moves the clock until it is done, and looks at it after each step.
async fn passing<T>(world: &World, call: impl Future<Output = T>) -> T {
    let mut call = std::pin::pin!(call);
    for _ in 0..10_000 {
        tokio::select! {
            biased;
            done = &mut call => return done,
            () = std::future::ready(()) => {}
        }
        world.advance(millis(20)).await;
    }
    panic!("it never ends");
}

async fn deposit(world: &World) -> Result<i64> {
    let (retry, ada) = (Retry::new(world.node.env()), ada(world));
    passing(world, retry.call(|| ada.deposit(1))).await
}

async fn deposit_once(world: &World, key: &str) -> Result<i64> {
    let (retry, ada) = (Retry::new(world.node.env()), ada(world));
    passing(world, retry.call_once(&ada, key, |ada| ada.deposit(1))).await
}

async fn balance(world: &World) -> i64 {
    ada(world).balance().await.unwrap()
}

fn attempts(script: &Script) -> u32 {
    script.0.lock().unwrap().1
}

#[test]
fn a_call_that_was_not_accepted_is_made_again_and_runs_once() {
    run(async {
        let (world, script) = world(&[]);
        let blocking = ada(&world).block(secs(3));
        let waiting = ada(&world).balance();
        world.node.settle().await.unwrap();
        let refused = ada(&world).balance().await.unwrap_err();
        assert!(refused.overloaded(), "{refused:?}");
        // This many attempts that chance does not decide.
        let often = RetryOptions::default().attempts(100).max_wait(millis(500));
        let retry = Retry::with(world.node.env(), often).unwrap();
        let call = retry.call(|| ada(&world).deposit(1));
        let sum = passing(&world, call).await.unwrap();
        assert_eq!((sum, attempts(&script)), (1, 1));
        blocking.await.unwrap();
        assert_eq!(waiting.await.unwrap(), 0);
    });
}

#[test]
fn patience_has_an_end() {
    run(async {
        let (world, script) = world(&[]);
        let _blocking = ada(&world).block(secs(20));
        let _waiting = ada(&world).balance();
        world.node.settle().await.unwrap();
        for options in [
            RetryOptions::default().patience(secs(2)),
            RetryOptions::default().attempts(3),
        ] {
            let before = world.now();
            let retry = Retry::with(world.node.env(), options).unwrap();
            let call = retry.call(|| ada(&world).deposit(1));
            let refused = passing(&world, call).await.unwrap_err();
            assert!(refused.overloaded(), "{refused:?}");
            assert!(world.now() - before < 2_500, "{}", world.now() - before);
        }
        assert_eq!(attempts(&script), 0);
    });
}

#[test]
fn what_may_have_run_is_made_again_only_with_a_key() {
    run(async {
        let (world, script) = world(&[Act::Panic, Act::Panic, Act::Panic]);
        let refused = deposit(&world).await.unwrap_err();
        assert!(refused.object_reset(), "{refused:?}");
        assert_eq!((balance(&world).await, attempts(&script)), (0, 1));
        assert_eq!(deposit_once(&world, "a").await.unwrap(), 1);
        assert_eq!((balance(&world).await, attempts(&script)), (1, 4));
        // The same call, once more.
        assert_eq!(deposit_once(&world, "a").await.unwrap(), 1);
        assert_eq!((balance(&world).await, attempts(&script)), (1, 4));
    });
}

#[test]
fn what_the_method_itself_answers_is_never_repeated() {
    run(async {
        let (world, script) = world(&[Act::Refuse, Act::Refuse]);
        for answer in [deposit(&world).await, deposit_once(&world, "a").await] {
            let refused = answer.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
        }
        assert_eq!(attempts(&script), 2);
    });
}

async fn simulate(seed: u64, mut random: Random) {
    let (mut world, script) = world(&[]);
    let mut sum = 0;
    for number in 0..12 {
        let acts = (0..random.below(4)).map(|_| Act::Panic);
        script.0.lock().unwrap().0.extend(acts);
        if random.below(3) == 0 {
            world = world.killed_or_crashed(&mut random);
        }
        // The second time the answer is remembered.
        for _ in 0..=random.below(2) {
            let got = deposit_once(&world, &format!("{seed}/{number}")).await;
            assert_eq!(got.unwrap(), sum + 1, "seed {seed}, {number}");
            if random.below(4) == 0 {
                world = world.killed_or_crashed(&mut random);
            }
        }
        sum += 1;
        assert_eq!(balance(&world).await, sum, "seed {seed}, {number}");
    }
}

#[test]
fn a_call_with_a_key_is_applied_once_whatever_happens_to_its_attempts() {
    each_seed(simulate);
}

#[test]
fn a_method_that_awaits_between_writes_is_not_retry_safe_as_documented() {
    run(async {
        let (world, _) = world(&[Act::PanicLate]);
        assert_eq!(deposit_once(&world, "a").await.unwrap(), 2);
    });
}

#[test]
fn bad_options_are_refused() {
    run(async {
        let (world, _) = world(&[]);
        for options in [
            RetryOptions::default().attempts(0),
            RetryOptions::default().attempts(101),
            RetryOptions::default().patience(Duration::MAX),
            RetryOptions::default().base(secs(6)),
            RetryOptions::default()
                .base(Duration::MAX)
                .max_wait(Duration::MAX),
        ] {
            let refused = Retry::with(world.node.env(), options).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Input);
        }
    });
}
