use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use abide::{NodeBuilder, prelude::*, storage::SimDisk};
use abide::{
    outbox::handlers::{CallDelivery, ObjectCall},
    outbox::{Deliver, Delivery, FailureKind, Submitted},
};

use crate::{
    handlers::{KEY, failed},
    world::{self, Setup},
};

/// How often an account still breaks down.
#[derive(Debug, Default)]
struct Trouble(AtomicU32);

#[durable_object]
struct Account {
    ctx: Ctx,
    env: Env,
}

impl DurableObject for Account {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self { ctx, env })
    }
}

#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
#[rpc]
impl Account {
    pub async fn deposit(&self, amount: i64) -> Result<i64> {
        if amount < 0 {
            return Err(Error::new("only what there is can be paid in"));
        }
        let balance = self.ctx.storage().get("balance")?.unwrap_or(0) + amount;
        self.ctx.storage().put("balance", &balance)?;
        let trouble = &self.env.require::<Arc<Trouble>>()?.0;
        let left = trouble.load(Ordering::SeqCst);
        if left > 0 {
            trouble.store(left - 1, Ordering::SeqCst);
            panic!("trouble");
        }
        Ok(balance)
    }
}

/// A node with accounts.
#[derive(Default)]
struct Accounts {
    trouble: Arc<Trouble>,
}

impl Setup for Accounts {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        node.class::<Account>(ClassOptions::default())
            .with(Arc::clone(&self.trouble))
    }
}

type World = world::World<Accounts>;

impl World {
    fn new() -> Self {
        Self::of(Accounts::default())
    }

    fn attempt(&self) -> Delivery {
        self.attempt_of(KEY)
    }

    fn attempt_of(&self, key: &str) -> Delivery {
        Delivery::outside(self.node.env(), "call", key).unwrap()
    }

    async fn balance(&self) -> i64 {
        let account = self.node.env().object::<Account>().get_by_name("ada");
        account.deposit(0).await.unwrap()
    }
}

fn call(method: &str, args: &impl serde::Serialize) -> ObjectCall {
    ObjectCall::new("Account", "ada", method, args).unwrap()
}

fn deposit() -> ObjectCall {
    call("deposit", &(5,))
}

#[tokio::test]
async fn a_call_that_is_delivered_again_is_applied_once() {
    let world = World::new();
    let first = world.attempt();
    for delivery in [first.clone(), first.again(false), first.again(true)] {
        assert_eq!(
            CallDelivery.submit(&delivery, &deposit()).await,
            Ok(Submitted::Done)
        );
    }
    assert_eq!(world.balance().await, 5);
}

#[tokio::test]
async fn a_receiver_that_breaks_down_is_called_again_and_applies_the_call_once() {
    let world = World::new();
    world.trouble.0.store(2, Ordering::SeqCst);
    let mut delivery = world.attempt();
    for _ in 0..2 {
        failed(
            CallDelivery.submit(&delivery, &deposit()).await,
            FailureKind::Temporary,
            "",
        );
        delivery = delivery.again(true);
    }
    assert_eq!(
        CallDelivery.submit(&delivery, &deposit()).await,
        Ok(Submitted::Done)
    );
    assert_eq!(world.balance().await, 5);
}

/// Delivers, cuts the power after this many changes of the disk, and delivers again.
async fn cut_and_deliver_again(change: u64) -> bool {
    let world = World::new();
    assert_eq!(world.balance().await, 0);
    let first = world.disk.changes();
    world.disk.stop_at(first + change);
    let delivered = CallDelivery.submit(&world.attempt(), &deposit()).await;
    let again = world.crashed(change);
    let delivery = again.attempt().again(true);
    assert_eq!(
        CallDelivery.submit(&delivery, &deposit()).await,
        Ok(Submitted::Done)
    );
    assert_eq!(again.balance().await, 5, "cut after {change} changes");
    delivered.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_applied_once_wherever_the_receiver_s_power_was_cut() {
    let mut change = 0;
    while !cut_and_deliver_again(change).await {
        change += 1;
    }
    assert!(change > 0, "the first cut came before the call");
}

#[tokio::test]
async fn a_call_with_a_lost_answer_is_not_repeated_once_forgotten() {
    let world = World::new();
    let first = world.attempt();
    world.clock.advance(Duration::from_hours(23));
    let in_time = CallDelivery.submit(&first.again(true), &deposit()).await;
    assert_eq!(in_time, Ok(Submitted::Done));
    world.clock.advance(Duration::from_secs(1));
    let late = CallDelivery.submit(&first.again(true), &deposit()).await;
    failed(late, FailureKind::Permanent, "no longer remembers");
    // One that had no effect so far can still have it.
    let refused_before = CallDelivery.submit(&first.again(false), &deposit()).await;
    assert_eq!(refused_before, Ok(Submitted::Done));
}

#[tokio::test]
async fn a_refused_call_or_an_unknown_method_is_a_dead_letter() {
    let world = World::new();
    for (call, why) in [
        (
            call("deposit", &(-5,)),
            "returned an error: only what there is can be paid in",
        ),
        (call("withdraw", &(5,)), "withdraw"),
        (call("deposit", &("five",)), "invalid type"),
        (
            ObjectCall::new("Bank", "ada", "deposit", &(5,)).unwrap(),
            "there is no binding `Bank`",
        ),
    ] {
        let delivery = world.attempt_of(why);
        failed(
            CallDelivery.submit(&delivery, &call).await,
            FailureKind::Permanent,
            why,
        );
    }
    assert_eq!(
        CallDelivery.submit(&world.attempt(), &deposit()).await,
        Ok(Submitted::Done)
    );
    let reused = CallDelivery
        .submit(&world.attempt(), &call("deposit", &(6,)))
        .await;
    failed(reused, FailureKind::Permanent, "key");
    assert!(
        CallDelivery.check(&call("deposit", &5)).is_err(),
        "no array"
    );
    assert!(CallDelivery.check(&call("", &(5,))).is_err(), "no method");
    assert_eq!(CallDelivery.destination(&deposit()), "Account/ada");
}

#[tokio::test]
async fn a_node_that_stops_has_not_been_called() {
    let world = World::new();
    let delivery = world.attempt();
    world.node.shutdown(Duration::from_secs(1)).await.unwrap();
    failed(
        CallDelivery.submit(&delivery, &deposit()).await,
        FailureKind::Refused,
        "stopping",
    );
}
