//! Two objects and an outbox between them: a message is applied once, wherever the power was cut.

use std::time::Duration;

use abide::{NodeBuilder, prelude::*, storage::SimDisk};
use abide::{
    outbox::handlers::{CallDelivery, ObjectCall},
    outbox::{Counts, Deliver, Outbox, OutboxOptions, Registry},
};

use crate::world::{self, Setup};

/// Payments from one account to the other.
const PAYMENTS: i64 = 3;

#[durable_object]
struct Account {
    ctx: Ctx,
    outbox: Outbox,
}

impl DurableObject for Account {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        Ok(Self { ctx, outbox })
    }
}

#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
#[rpc]
impl Account {
    pub async fn add(&self, amount: i64) -> Result<i64> {
        let balance = self.ctx.storage().get("balance")?.unwrap_or(0) + amount;
        self.ctx.storage().put("balance", &balance)?;
        Ok(balance)
    }

    /// Takes the amount from here, and requests in the same transaction that it is added there.
    pub async fn pay(&self, to: String, amount: i64) -> Result<()> {
        self.add(-amount).await?;
        let call = ObjectCall::new("Account", to, "add", &(amount,))?;
        CallDelivery::enqueue(&self.outbox, &call)?;
        Ok(())
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }
}

/// A node whose accounts call each other.
struct Calls;

impl Setup for Calls {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        node.class::<Account>(ClassOptions::default())
            .with(Registry::new().with(CallDelivery))
    }
}

type World = world::World<Calls>;

impl World {
    fn account(&self, name: &str) -> Stub<Account> {
        self.stub(name)
    }

    async fn balance(&self, name: &str) -> Result<i64> {
        self.account(name).add(0).await
    }

    /// Pays in one event each, until the power is cut.
    async fn pay(&self) -> Result<()> {
        for _ in 0..PAYMENTS {
            self.account("ada").pay("grace".to_owned(), 1).await?;
        }
        Ok(())
    }

    /// Waits until nothing is on its way from ada, or the power is cut.
    async fn settle(&self) -> Result<()> {
        loop {
            let counts = self.account("ada").counts().await?;
            assert_eq!(counts.failed, 0);
            if counts.queued + counts.sending == 0 {
                return Ok(());
            }
            self.clock.advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Cuts the power after this many changes of the disk; true if all was over before.
async fn cut(change: u64) -> bool {
    let world = World::of(Calls);
    assert_eq!(world.balance("ada").await.unwrap(), 0);
    world.disk.stop_at(world.disk.changes() + change);
    let over = world.pay().await.is_ok() && world.settle().await.is_ok();

    let again = world.crashed(change);
    again.settle().await.unwrap();
    let (ada, grace) = (again.balance("ada").await, again.balance("grace").await);
    let (ada, grace) = (ada.unwrap(), grace.unwrap());
    assert_eq!(
        ada + grace,
        0,
        "cut after {change} changes: ada has {ada}, grace {grace}"
    );
    if over {
        assert_eq!(grace, PAYMENTS);
    }
    over
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transactional_call_arrives_once_across_power_losses() {
    let mut change = 0;
    while !cut(change).await {
        change += 1;
    }
    assert!(change > 2, "there were few places to cut: {change}");
}
