//! The classic: an object that returns unique numbers, in three forms that rely on the gates.

use std::{cell::Cell, collections::BTreeSet, rc::Rc};

use abide::{ObjectClass, prelude::*};

use crate::support::{Signals, World, run, signals};

const CALLERS: u64 = 200;

/// Reads and writes storage each time.
#[durable_object]
struct FromStorage {
    ctx: Ctx,
}

impl DurableObject for FromStorage {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl FromStorage {
    pub async fn next(&self) -> Result<u64> {
        let storage = self.ctx.storage();
        let number = storage.get("number")?.unwrap_or(0) + 1;
        storage.put("number", &number)?;
        Ok(number)
    }
}

/// Keeps the number in memory, read once.
#[durable_object]
struct Cached {
    ctx: Ctx,
    number: Cell<Option<u64>>,
}

impl DurableObject for Cached {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            number: Cell::new(None),
        })
    }
}

#[rpc]
impl Cached {
    pub async fn next(&self) -> Result<u64> {
        let storage = self.ctx.storage();
        let number = match self.number.get() {
            Some(number) => number,
            None => storage.get("number")?.unwrap_or(0),
        } + 1;
        self.number.set(Some(number));
        storage.put("number", &number)?;
        // Something that is awaited between does no harm: the number is taken.
        tokio::task::yield_now().await;
        Ok(number)
    }
}

/// Has to wait for something before it can start.
#[durable_object]
struct Initialised {
    ctx: Ctx,
    number: Rc<Cell<u64>>,
}

impl DurableObject for Initialised {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let number = Rc::new(Cell::new(0));
        let (to_fill, signals, storage) =
            (Rc::clone(&number), signals(&env), ctx.storage().clone());
        let _started = ctx.block_concurrency_while(async move {
            signals.wait("configuration").await;
            to_fill.set(storage.get("number")?.unwrap_or(1_000));
            Ok(())
        });
        Ok(Self { ctx, number })
    }
}

#[rpc]
impl Initialised {
    pub async fn next(&self) -> Result<u64> {
        let number = self.number.get() + 1;
        tokio::task::yield_now().await;
        // Another caller may have come between: that is why it is read again, together with the write.
        let number = number.max(self.number.get() + 1);
        self.number.set(number);
        self.ctx.storage().put("number", &number)?;
        Ok(number)
    }
}

/// Calls `next` from many tasks at once and returns the numbers.
async fn many<T: ObjectClass>(
    world: &World,
    next: impl Fn(&Stub<T>) -> abide::Call<u64>,
) -> BTreeSet<u64> {
    let stub = world.env().object::<T>().get_by_name("numbers");
    let tasks: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(next(&stub))).collect();
    let mut numbers = BTreeSet::new();
    for task in tasks {
        let number = task.await.unwrap().unwrap();
        assert!(numbers.insert(number), "{number} was given twice");
    }
    numbers
}

fn world() -> World {
    World::new(|node| {
        node.class::<FromStorage>(ClassOptions::default())
            .class::<Cached>(ClassOptions::default())
            .class::<Initialised>(ClassOptions::default())
    })
}

#[test]
fn numbers_read_from_storage_and_written_back_are_unique() {
    run(async {
        let numbers = many::<FromStorage>(&world(), |stub| stub.next()).await;
        assert!(numbers.into_iter().eq(1..=CALLERS));
    });
}

#[test]
fn cached_numbers_are_unique_and_continue_after_a_restart() {
    run(async {
        let first = world();
        let numbers = many::<Cached>(&first, |stub| stub.next()).await;
        assert!(numbers.into_iter().eq(1..=CALLERS));
        let disk = first.stop().await;
        let second = World::on(disk, 1, |node| {
            node.class::<Cached>(ClassOptions::default())
        });
        let numbers = many::<Cached>(&second, |stub| stub.next()).await;
        assert!(numbers.into_iter().eq(CALLERS + 1..=2 * CALLERS));
    });
}

#[test]
fn numbers_are_unique_if_all_calls_precede_initialisation() {
    run(async {
        let world = world();
        let signals: &Signals = &world.signals;
        let late = async {
            world.until(|node| node.stats().outstanding > CALLERS).await;
            signals.give("configuration");
        };
        let (numbers, ()) = tokio::join!(many::<Initialised>(&world, |stub| stub.next()), late);
        assert!(numbers.into_iter().eq(1_001..=1_000 + CALLERS));
    });
}
