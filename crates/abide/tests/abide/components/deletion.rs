//! Objects that delete everything: what their components keep, drop and do afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    outbox::{Counts, DeadLetterFilter, Deliver, Failure, Outbox, OutboxError, OutboxOptions},
    outcomes::{Declaration, Entry, Machine, Outcomes, OutcomesOptions},
    patterns::{
        cleanup::{self, Cleanup},
        lock::Fence,
        presence::{self, Presence},
        sessions::{self, Sessions},
        sharding::{self, Coordinator, Figures},
    },
    prelude::*,
    projection::Feed,
    schedule::{self, Schedule, Spec},
};
use abide_harness::until;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;

use super::{Letter, Post, World, run};

/// An object that deletes itself when it is not used for an hour.
#[durable_object]
struct Cart {
    ctx: Ctx,
    outbox: Outbox,
    cleanup: Cleanup,
}

impl DurableObject for Cart {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        let (storage, mailbox) = (ctx.storage().clone(), outbox.clone());
        outbox.on_sent(Post::KIND, move |_, sent| {
            let letter: Letter = serde_json::from_str(&sent.payload).map_err(Error::from_std)?;
            match letter.text.as_str() {
                "the last" => storage.delete_all()?,
                "the last but one" => {
                    storage.delete_all()?;
                    let text = "the last but none".to_owned();
                    Post::enqueue(&mailbox, &Letter { text })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        let hour = cleanup::CleanupOptions::default().after(Duration::from_hours(1));
        let cleanup = Cleanup::open(&ctx, hour)?;
        Ok(Self {
            ctx,
            outbox,
            cleanup,
        })
    }
}

#[rpc]
impl Cart {
    pub async fn send(&self, texts: Vec<String>) -> Result<(), OutboxError> {
        self.cleanup.used()?;
        for text in texts {
            let message = Post::message(&Letter { text })?;
            self.outbox.enqueue(&message.ordering_key("k"))?;
        }
        Ok(())
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn discard_all(&self) -> Result<(), OutboxError> {
        self.outbox
            .discard_all(&DeadLetterFilter::default())
            .map(drop)
    }

    pub async fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    /// Deletes everything and sends, in one transaction; undone, if that is wanted.
    pub async fn delete_and_send(&self, text: String, undo: bool) -> Result<(), OutboxError> {
        self.ctx.storage().transaction(|| {
            self.ctx.storage().delete_all()?;
            Post::enqueue(&self.outbox, &Letter { text: text.clone() })?;
            if undo {
                Err(OutboxError::Invalid("undone".to_owned()))
            } else {
                Ok(())
            }
        })
    }

    pub async fn tables(&self) -> Result<i64> {
        let sql = self.ctx.sql();
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'outbox_%'";
        sql.exec(count, ())?.one()
    }
}

/// A node with a cart. Attempts at letters succeed.
fn with_cart() -> (World, Stub<Cart>) {
    let world = World::with_class::<Cart>();
    world.post.0.store(1, Ordering::SeqCst);
    let cart = world.stub("ada");
    (world, cart)
}

#[test]
fn cleanup_keeps_an_object_whose_messages_wait_for_an_operator() {
    run(async {
        let (world, cart) = with_cart();
        let texts = ["never", "paid: ship the goods", "third"].map(str::to_owned);
        cart.send(texts.to_vec()).await.unwrap();
        world.pass_minutes(150).await;
        let counts = cart.counts().await.unwrap();
        assert_eq!((counts.failed, counts.queued), (1, 2));
        cart.discard_all().await.unwrap();
        world.node.settle().await.unwrap();
        assert_eq!(cart.counts().await.unwrap().sent, 2);
        world.pass_minutes(150).await;
        let counts = cart.counts().await.unwrap();
        assert_eq!((counts.sent, counts.discarded), (0, 0), "nothing waits");
    });
}

#[test]
fn an_outbox_works_after_everything_was_deleted() {
    run(async {
        let (world, cart) = with_cart();
        let sent = async || cart.counts().await.unwrap().sent;
        cart.send(vec!["one".to_owned()]).await.unwrap();
        world.node.settle().await.unwrap();
        let undone = cart.delete_and_send("two".to_owned(), true).await;
        assert!(undone.is_err());
        world.pass_minutes(1).await;
        assert_eq!(sent().await, 1, "what was deleted is there again");
        cart.delete_and_send("two".to_owned(), false).await.unwrap();
        world.node.settle().await.unwrap();
        assert_eq!(sent().await, 1);
        cart.delete_all().await.unwrap();
        world.node.settle().await.unwrap();
        assert_eq!(cart.tables().await.unwrap(), 0, "nothing is left");
        for count in 1..4 {
            cart.send(vec!["more".to_owned()]).await.unwrap();
            world.node.settle().await.unwrap();
            assert_eq!(sent().await, count);
        }
    });
}

#[test]
fn a_callback_may_delete_everything() {
    run(async {
        let (world, cart) = with_cart();
        let texts = ["one", "the last", "two"].map(str::to_owned);
        cart.send(texts.to_vec()).await.unwrap();
        world.node.settle().await.unwrap();
        assert_eq!(cart.tables().await.unwrap(), 0, "nothing is left");
        cart.send(vec!["the last but one".to_owned()])
            .await
            .unwrap();
        world.node.settle().await.unwrap();
        // It was not interrupted: the clock stands still.
        assert_eq!(cart.counts().await.unwrap().sent, 1, "what it has sent");
    });
}

/// Has timers, of which the broken ones fail for good, and a feed. It deletes itself when it is not used for an hour.
#[durable_object]
struct Stand {
    ctx: Ctx,
    schedule: Schedule,
    feed: Feed,
    cleanup: Cleanup,
}

impl DurableObject for Stand {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let storage = ctx.storage().clone();
        schedule.on_firing(move |firing| match firing.kind.as_str() {
            "broken" => Err(Failure::permanent("broken")),
            "last" => Ok(storage.delete_all()?),
            _ => Ok(storage.put("fired", &firing.timer)?),
        })?;
        let hour = cleanup::CleanupOptions::default().after(Duration::from_hours(1));
        Ok(Self {
            feed: Feed::open(&ctx)?,
            cleanup: Cleanup::open(&ctx, hour)?,
            schedule,
            ctx,
        })
    }
}

#[rpc]
impl Stand {
    pub fn set(&self, timer: String, kind: String) -> Result<()> {
        self.cleanup.used()?;
        self.schedule
            .upsert(&timer, &Spec::after(kind, Duration::from_secs(1)))?;
        Ok(())
    }

    pub fn failed(&self) -> Result<usize> {
        Ok(self.schedule.failed(None, 10)?.len())
    }

    pub fn discard(&self, timer: String) -> Result<()> {
        Ok(self.schedule.discard(&timer)?)
    }

    pub fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    /// Deletes everything, sets a timer and puts a row, in one transaction; undone, if that is wanted.
    pub fn begin_anew(&self, timer: String, undo: bool) -> Result<()> {
        self.ctx.storage().delete_all()?;
        self.set(timer.clone(), "works".to_owned())?;
        self.feed
            .put("desks", timer, 1, &json!({ "open": 1 }))
            .map_err(Error::from_std)?;
        if undo {
            return Err(Error::new("undone"));
        }
        Ok(())
    }

    /// The timer that fired last, the rows that wait, and the number of tables.
    pub fn state(&self) -> Result<(Option<String>, u64, i64)> {
        let fired = self.ctx.storage().get("fired")?;
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'schedule_%' OR name LIKE 'projection_%'";
        let tables = self.ctx.sql().exec(count, ())?.one()?;
        let waiting = if tables > 0 { self.feed.waiting()? } else { 0 };
        Ok((fired, waiting, tables))
    }
}

#[test]
fn cleanup_keeps_an_object_whose_timers_wait_for_an_operator() {
    run(async {
        let world = World::with_class::<Stand>();
        let stand = world.stub::<Stand>("ada");
        let set = |timer: &str, kind: &str| stand.set(timer.to_owned(), kind.to_owned());
        set("bell", "works").await.unwrap();
        set("gong", "broken").await.unwrap();
        world.pass_minutes(150).await;
        assert_eq!(stand.failed().await.unwrap(), 1);
        assert_eq!(stand.state().await.unwrap().0.as_deref(), Some("bell"));
        stand.discard("gong".to_owned()).await.unwrap();
        world.pass_minutes(150).await;
        assert_eq!(stand.state().await.unwrap().0, None, "nothing waits");
    });
}

#[test]
fn a_schedule_and_a_feed_work_after_everything_was_deleted() {
    run(async {
        let world = World::with_class::<Stand>();
        let stand = world.stub::<Stand>("ada");
        let state = async || {
            world.node.settle().await.unwrap();
            world.clock.advance(Duration::from_secs(2));
            world.node.settle().await.unwrap();
            let (fired, waiting, tables) = stand.state().await.unwrap();
            (fired.unwrap_or_default(), waiting, tables > 0)
        };
        stand.begin_anew("one".to_owned(), false).await.unwrap();
        assert_eq!(state().await, ("one".to_owned(), 1, true));
        assert!(stand.begin_anew("two".to_owned(), true).await.is_err());
        assert_eq!(state().await, ("one".to_owned(), 1, true), "it was undone");
        stand.begin_anew("three".to_owned(), false).await.unwrap();
        assert_eq!(state().await, ("three".to_owned(), 1, true));
        stand.delete_all().await.unwrap();
        assert_eq!(state().await, (String::new(), 0, false));
        stand
            .set("four".to_owned(), "works".to_owned())
            .await
            .unwrap();
        assert_eq!(state().await, ("four".to_owned(), 0, true));
    });
}

#[test]
fn a_timer_may_delete_everything() {
    run(async {
        let world = World::with_class::<Stand>();
        let stand = world.stub::<Stand>("ada");
        for (timer, kind) in [("bell", "works"), ("end", "last"), ("gong", "works")] {
            stand.set(timer.to_owned(), kind.to_owned()).await.unwrap();
        }
        world.pass_minutes(1).await;
        assert_eq!(
            stand.state().await.unwrap(),
            (None, 0, 0),
            "nothing is left"
        );
        stand
            .set("bell".to_owned(), "works".to_owned())
            .await
            .unwrap();
        world.pass_minutes(1).await;
        assert_eq!(stand.state().await.unwrap().0.as_deref(), Some("bell"));
    });
}

/// A parcel that can be delivered once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Parcel;

impl Machine for Parcel {
    const SCHEMA: Declaration = Declaration {
        name: "parcel",
        initial: "sent",
        states: &["sent", "delivered"],
        terminal: &["delivered"],
        actions: &["deliver"],
        outcomes: &["accepted"],
        transitions: &[("sent", "deliver", "accepted", "delivered")],
    };

    fn apply(&mut self, _: &Entry) -> Result<()> {
        Ok(())
    }
}

/// A shard with tables of many components.
#[durable_object]
struct House {
    ctx: Ctx,
    fence: Fence,
    figures: Figures,
    outcomes: Outcomes<Parcel>,
    presence: Presence,
    sessions: Sessions,
}

impl DurableObject for House {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self {
            fence: Fence::open(&ctx, "door")?,
            figures: Figures::open(&ctx, sharding::ShardingOptions::default())?,
            outcomes: Outcomes::open(&ctx, OutcomesOptions::default())?,
            presence: Presence::open(&ctx, presence::PresenceOptions::default())?,
            sessions: Sessions::open(&ctx, sessions::SessionOptions::default())?,
            ctx,
        })
    }
}

/// How many are present and logged in, a figure, and whether the parcel was delivered.
type InHouse = (usize, i64, i64, bool);

#[rpc]
impl House {
    /// Deletes everything and uses each component, in one transaction; undone, if that is wanted.
    pub fn begin_anew(&self, undo: bool) -> Result<InHouse> {
        self.ctx.storage().delete_all()?;
        self.fence.newest()?;
        self.figures.add("likes", 1)?;
        self.outcomes.transition("deliver", "accepted", &())?;
        self.presence.beat("ada")?;
        self.sessions.create("ada", &())?;
        if undo {
            return Err(Error::new("undone"));
        }
        self.state()
    }

    pub fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub fn state(&self) -> Result<InHouse> {
        Ok((
            self.presence.here()?.len(),
            self.sessions.count()?,
            self.figures.get("likes")?,
            self.outcomes.state()? == "delivered",
        ))
    }
}

#[test]
fn components_are_empty_and_work_after_everything_was_deleted() {
    run(async {
        let world = World::new(|node| {
            node.class::<House>(ClassOptions::default())
                .class::<Coordinator>(ClassOptions::default())
        });
        let house = world.stub::<House>("likes/1");
        let (used, empty) = ((1, 1, 1, true), (0, 0, 0, false));
        assert_eq!(house.state().await.unwrap(), empty);
        assert_eq!(house.begin_anew(false).await.unwrap(), used);
        assert!(house.begin_anew(true).await.is_err());
        assert_eq!(house.state().await.unwrap(), used, "it was undone");
        assert_eq!(house.begin_anew(false).await.unwrap(), used);
        house.delete_all().await.unwrap();
        assert_eq!(house.state().await.unwrap(), empty);
        assert_eq!(house.begin_anew(false).await.unwrap(), used);
    });
}

/// Holds the attempts of timers until it is opened.
#[derive(Clone, Default)]
struct Barrier(Arc<(AtomicUsize, Notify)>);

/// Has a timer whose handler waits.
#[durable_object]
struct Slow {
    ctx: Ctx,
    schedule: Schedule,
}

impl DurableObject for Slow {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let (storage, barrier) = (ctx.storage().clone(), env.require::<Barrier>()?);
        schedule.on_firing_in_background(move |_| {
            let (storage, barrier) = (storage.clone(), barrier.0.clone());
            async move {
                barrier.0.fetch_add(1, Ordering::SeqCst);
                barrier.1.notified().await;
                let fired: i64 = storage.get("fired")?.unwrap_or(0);
                storage.put("fired", &(fired + 1))
            }
        })?;
        Ok(Self { ctx, schedule })
    }
}

#[rpc]
impl Slow {
    pub fn begin_anew(&self, undo: bool) -> Result<()> {
        self.ctx.storage().delete_all()?;
        let spec = Spec::after("bell", Duration::from_secs(1));
        self.schedule.upsert("bell", &spec)?;
        if undo {
            return Err(Error::new("undone"));
        }
        Ok(())
    }

    pub fn fired(&self) -> Result<i64> {
        Ok(self.ctx.storage().get("fired")?.unwrap_or(0))
    }
}

#[test]
fn an_attempt_ends_with_its_timer_when_everything_is_deleted() {
    run(async {
        let barrier = Barrier::default();
        let held = barrier.clone();
        let world = World::new(move |node| {
            node.class::<Slow>(ClassOptions::default())
                .with(held.clone())
        });
        let slow = world.stub::<Slow>("ada");
        let begins = async |attempts| {
            until("the attempt", async || {
                world.pass(1).await;
                (barrier.0.0.load(Ordering::SeqCst) == attempts).then_some(())
            })
            .await;
        };
        let fired = async || {
            barrier.0.1.notify_waiters();
            world.node.settle().await.unwrap();
            slow.fired().await.unwrap()
        };
        slow.begin_anew(false).await.unwrap();
        begins(1).await;
        slow.begin_anew(false).await.unwrap();
        // Nothing rests while an attempt waits.
        world.node.settle().await.unwrap();
        assert_eq!(fired().await, 0, "the first attempt is gone");
        begins(2).await;
        assert!(slow.begin_anew(true).await.is_err());
        world.node.settle().await.unwrap();
        assert_eq!(fired().await, 0, "so is the second");
        // Its timer is there again, and repeats it.
        begins(3).await;
        assert_eq!(fired().await, 1);
    });
}
