//! A poll is a transaction.

use abide::{ErrorKind, prelude::*};

use crate::support::{Signals, World, run, signals};

#[durable_object]
struct Ledger {
    ctx: Ctx,
    signals: Signals,
    visits: std::cell::Cell<u32>,
}

impl DurableObject for Ledger {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql()
            .exec("CREATE TABLE IF NOT EXISTS entries (text TEXT UNIQUE)", ())?;
        if ctx.name().as_deref() == Some("unborn") {
            ctx.storage().put("half", "made")?;
            return Err(Error::new("this object does not want to live"));
        }
        Ok(Self {
            ctx,
            signals: signals(&env),
            visits: std::cell::Cell::default(),
        })
    }
}

/// An error type of the user's own, as `transaction` takes it.
#[derive(Debug, PartialEq)]
enum Refusal {
    NotThis,
    Storage(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Storage(error.to_string())
    }
}

#[rpc]
impl Ledger {
    /// How often this incarnation was asked.
    pub async fn visits(&self) -> u32 {
        self.visits.set(self.visits.get() + 1);
        self.visits.get()
    }

    pub async fn write_at_once(&self) -> Result<()> {
        let storage = self.ctx.storage();
        storage.put("a", &1)?;
        storage.put("b", &2)?;
        self.enter("c")?;
        storage.delete("a").map(drop)
    }

    pub async fn write_with_a_pause(&self) -> Result<()> {
        self.enter("first")?;
        tokio::task::yield_now().await;
        self.enter("second")
    }

    pub async fn write_pause_write_panic(&self) -> Result<()> {
        self.enter("before the pause")?;
        tokio::task::yield_now().await;
        self.enter("after the pause")?;
        panic!("the ledger is on fire");
    }

    pub async fn write_and_fail(&self) -> Result<()> {
        self.enter("kept")?;
        Err(Error::new("an error is an answer"))
    }

    pub async fn write_and_abort(&self) -> Result<()> {
        self.enter("undone")?;
        self.ctx.abort("enough of this");
        Ok(())
    }

    pub async fn write_and_restart(&self) -> Result<()> {
        self.enter("kept")?;
        self.ctx.restart();
        Ok(())
    }

    pub async fn wait(&self) {
        self.signals.give("waiting");
        self.signals.wait("never").await;
    }

    pub async fn nested(&self) -> Result<Vec<String>> {
        let storage = self.ctx.storage();
        let failed: Result<()> = storage.transaction(|| {
            self.enter("undone")?;
            storage.transaction(|| self.enter("undone too"))?;
            Err(Error::new("no"))
        });
        assert_eq!(failed.unwrap_err().message(), "no");
        storage.transaction(|| {
            self.enter("outer")?;
            let inner: Result<(), Refusal> = storage.transaction(|| {
                self.enter("inner")?;
                Err(Refusal::NotThis)
            });
            assert_eq!(inner.unwrap_err(), Refusal::NotThis);
            self.enter("outer again")
        })?;
        self.entries().await
    }

    pub async fn entries(&self) -> Result<Vec<String>> {
        self.ctx
            .sql()
            .exec("SELECT text FROM entries ORDER BY rowid", ())?
            .all()
    }

    fn enter(&self, text: &str) -> Result<()> {
        self.ctx
            .sql()
            .exec("INSERT INTO entries VALUES (?1)", [text])
            .map(drop)
    }
}

fn world() -> World {
    World::new(|node| node.class::<Ledger>(ClassOptions::default()))
}

fn ledger(world: &World, name: &str) -> Stub<Ledger> {
    world.env().object::<Ledger>().get_by_name(name)
}

#[test]
fn writes_without_an_await_between_are_one_record() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        ledger.visits().await.unwrap();
        let commits = || world.node.store().stats().commits;
        let before = commits();
        ledger.write_at_once().await.unwrap();
        assert_eq!(commits() - before, 1);
        ledger.write_with_a_pause().await.unwrap();
        assert_eq!(commits() - before, 3);
        ledger.visits().await.unwrap();
        assert_eq!(commits() - before, 3);
    });
}

#[test]
fn a_new_object_is_one_record_with_the_first_event_it_handles() {
    run(async {
        let world = world();
        let before = world.node.store().stats().commits;
        ledger(&world, "a").write_at_once().await.unwrap();
        assert_eq!(world.node.store().stats().commits - before, 1);
    });
}

#[test]
fn a_panic_undoes_its_own_poll_and_nothing_before() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let error = ledger.write_pause_write_panic().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Reset);
        assert!(
            error.object_reset() && !error.retryable() && !error.remote(),
            "{error:?}"
        );
        // The text of the panic is for the log alone.
        let told = error.message();
        assert!(
            told.contains("panicked") && !told.contains("on fire"),
            "{told}"
        );
        assert_eq!(ledger.entries().await.unwrap(), ["before the pause"]);
    });
}

#[test]
fn a_panic_resets_its_object_and_no_other() {
    run(async {
        let world = world();
        let (broken, other) = (ledger(&world, "broken"), ledger(&world, "other"));
        assert_eq!(other.visits().await.unwrap(), 1);
        assert_eq!(broken.visits().await.unwrap(), 1);
        let waiting = broken.wait();
        world.signals.wait("waiting").await;
        broken.write_pause_write_panic().await.unwrap_err();

        let error = waiting.await.unwrap_err();
        assert!(error.object_reset(), "{error:?}");
        assert_eq!(broken.visits().await.unwrap(), 1);
        assert_eq!(other.visits().await.unwrap(), 2);
        assert_eq!(world.node.stats().panics, 1);
    });
}

#[test]
fn an_error_rolls_nothing_back() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        let error = ledger.write_and_fail().await.unwrap_err();
        assert_eq!(error.message(), "an error is an answer");
        assert!(error.remote());
        assert_eq!(ledger.entries().await.unwrap(), ["kept"]);
    });
}

#[test]
fn abort_undoes_its_poll_and_resets_the_object() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        ledger.visits().await.unwrap();
        let error = ledger.write_and_abort().await.unwrap_err();
        assert_eq!(error.message(), "enough of this");
        assert!(error.object_reset());
        assert!(ledger.entries().await.unwrap().is_empty());
        assert_eq!(ledger.visits().await.unwrap(), 1);
    });
}

#[test]
fn restart_keeps_its_poll_and_the_object_begins_anew() {
    run(async {
        let world = world();
        let ledger = ledger(&world, "a");
        ledger.visits().await.unwrap();
        ledger.write_and_restart().await.unwrap();
        assert_eq!(ledger.entries().await.unwrap(), ["kept"]);
        assert_eq!(ledger.visits().await.unwrap(), 1);
    });
}

#[test]
fn a_transaction_rolls_back_on_an_error_and_nests() {
    run(async {
        let world = world();
        assert_eq!(
            ledger(&world, "a").nested().await.unwrap(),
            ["outer", "outer again"]
        );
    });
}

#[test]
fn a_failed_constructor_leaves_nothing_behind_and_tells_every_caller() {
    run(async {
        let world = world();
        let unborn = ledger(&world, "unborn");
        for _ in 0..2 {
            let error = unborn.visits().await.unwrap_err();
            assert_eq!(error.message(), "this object does not want to live");
            assert!(error.object_reset() && error.remote(), "{error:?}");
        }
        assert_eq!(world.node.store().stats().commits, 0);
        assert_eq!(world.node.stats().resident, 0);
    });
}
