//! What an object is told before it leaves memory.

use std::{cell::Cell, time::Duration};

use abide::{Bookmark, Call, ErrorKind, limits::LEAVING_PAUSE, prelude::*};

use crate::support::{Signals, World, run, signals};

/// A game whose position is in memory, and is stored when it leaves.
#[durable_object]
struct Game {
    ctx: Ctx,
    signals: Signals,
    position: Cell<u32>,
    leaves: Cell<Leaves>,
}

#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
enum Leaves {
    #[default]
    Well,
    WithAnError,
    WithAPanic,
    AndSpawns,
}

impl DurableObject for Game {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        let (storage, told) = (ctx.storage().clone(), signals.clone());
        ctx.on_leave(move || {
            told.note("a component");
            let hooks = storage.get::<u32>("hooks")?.unwrap_or(0);
            storage.put("hooks", &(hooks + 1))
        });
        Ok(Self {
            position: Cell::new(ctx.storage().get("position")?.unwrap_or(0)),
            ctx,
            signals,
            leaves: Cell::default(),
        })
    }

    fn leaving(&self) -> Result<()> {
        self.signals.note("the class");
        self.ctx.storage().put("position", &self.position.get())?;
        match self.leaves.get() {
            Leaves::Well => Ok(()),
            Leaves::WithAnError => Err(Error::new("it does not want to")),
            Leaves::WithAPanic => panic!("it does not want to"),
            Leaves::AndSpawns => {
                let error = self.ctx.spawn(async {}).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Input, "{error}");
                assert!(error.to_string().contains("set an alarm"), "{error}");
                Ok(())
            }
        }
    }
}

#[rpc]
impl Game {
    pub fn go_to(&self, position: u32) -> u32 {
        self.position.replace(position)
    }

    pub fn position(&self) -> u32 {
        self.position.get()
    }

    /// How often its hook has run and was committed.
    pub fn hooks(&self) -> Result<u32> {
        Ok(self.ctx.storage().get("hooks")?.unwrap_or(0))
    }

    pub fn leave_so(&self, how: Leaves) {
        self.leaves.set(how);
    }

    pub fn bookmark(&self) -> Result<Bookmark> {
        self.ctx.storage().bookmark()
    }

    pub fn fail(&self) {
        panic!("a fault at {}", self.position.get());
    }

    /// Waits as long as the program runs.
    pub fn play(&self) -> Result<()> {
        let signals = self.signals.clone();
        self.ctx.spawn(async move {
            signals.give("playing");
            signals.wait("never").await;
        })
    }
}

fn classes(node: abide::NodeBuilder) -> abide::NodeBuilder {
    node.class::<Game>(ClassOptions::default())
}

fn game(world: &World) -> Stub<Game> {
    world.env().object().get_by_name("game")
}

/// Waits for the object to leave memory, which it does after ten seconds without work.
async fn leave(world: &World) {
    let evicted = world.node.stats().evicted;
    world.clock.advance(Duration::from_secs(10));
    for _ in 0..10_000 {
        if world.node.stats().evicted > evicted {
            return;
        }
        world.fence().await;
        world.clock.advance(LEAVING_PAUSE);
    }
    panic!("it has not left");
}

#[test]
fn what_an_object_writes_when_it_leaves_is_there_when_it_comes_back() {
    run(async {
        let world = World::new(classes);
        let game = game(&world);
        game.go_to(7).await.unwrap();
        leave(&world).await;
        assert_eq!(world.signals.notes(), ["a component", "the class"]);
        assert_eq!(game.position().await.unwrap(), 7);
        assert_eq!(game.hooks().await.unwrap(), 1);
        // It is told each time.
        game.go_to(8).await.unwrap();
        leave(&world).await;
        assert_eq!(game.position().await.unwrap(), 8);
        assert_eq!(game.hooks().await.unwrap(), 2);
    });
}

#[test]
fn an_object_is_told_when_the_program_stops_even_while_it_works() {
    run(async {
        let world = World::new(classes);
        let game = game(&world);
        game.go_to(7).await.unwrap();
        game.play().await.unwrap();
        world.signals.wait("playing").await;
        let disk = world.stop().await;
        let world = World::on(disk, 1, classes);
        assert_eq!(self::game(&world).position().await.unwrap(), 7);
        assert_eq!(self::game(&world).hooks().await.unwrap(), 1);
    });
}

#[test]
fn an_object_that_fails_when_it_leaves_has_left_and_written_nothing() {
    run(async {
        for how in [Leaves::WithAnError, Leaves::WithAPanic] {
            let world = World::new(classes);
            let game = game(&world);
            game.go_to(7).await.unwrap();
            game.leave_so(how).await.unwrap();
            world.clock.advance(Duration::from_secs(10));
            world
                .until(|_| world.signals.notes().contains(&"the class".to_owned()))
                .await;
            world.until(|node| node.stats().resident == 0).await;
            assert_eq!(game.position().await.unwrap(), 0);
            assert_eq!(game.hooks().await.unwrap(), 0);
            // The program stops nevertheless.
            game.leave_so(how).await.unwrap();
            world.stop().await;
        }
    });
}

#[test]
fn an_object_that_is_reset_is_not_told() {
    run(async {
        let world = World::new(classes);
        let game = game(&world);
        game.go_to(7).await.unwrap();
        game.fail().await.unwrap_err();
        assert_eq!(game.position().await.unwrap(), 0);
        assert_eq!(world.signals.notes(), [""; 0]);
    });
}

#[test]
fn a_restored_object_stores_nothing_of_the_undone_future() {
    run(async {
        let world = World::new(classes);
        let game = game(&world);
        game.go_to(1).await.unwrap();
        leave(&world).await;
        let bookmark = game.bookmark().await.unwrap();
        game.go_to(2).await.unwrap();
        let told = world.signals.notes();
        let restored = world.node.restore(game.untyped(), bookmark).await;
        restored.unwrap();
        assert_eq!(world.signals.notes(), told);
        assert_eq!(game.position().await.unwrap(), 1);
    });
}

#[test]
fn an_object_leaves_once_its_last_writes_are_durable_unless_it_is_called() {
    run(async {
        let world = World::new(classes);
        let game = game(&world);
        game.go_to(7).await.unwrap();
        world.fence().await;
        world.disk.hold_syncs();
        world.clock.advance(Duration::from_secs(10));
        let told = || {
            let notes = world.signals.notes();
            notes.iter().filter(|note| *note == "the class").count()
        };
        world.until(|_| told() == 1).await;
        for _ in 0..100 {
            world.clock.advance(LEAVING_PAUSE);
            world.fence().await;
        }
        assert_eq!(world.node.stats().evicted, 0);
        let called = game.go_to(9);
        world.fence().await;
        world.disk.release_syncs();
        assert_eq!(called.await.unwrap(), 7);
        leave(&world).await;
        assert_eq!(told(), 2);
        assert_eq!(game.position().await.unwrap(), 9);
    });
}

#[test]
fn an_object_that_leaves_cannot_spawn() {
    run(async {
        let world = World::new(classes);
        let game = game(&world);
        game.leave_so(Leaves::AndSpawns).await.unwrap();
        game.go_to(7).await.unwrap();
        leave(&world).await;
        assert_eq!(game.position().await.unwrap(), 7);
    });
}

#[test]
fn objects_leave_for_lack_of_memory_and_are_told() {
    run(async {
        let world = World::with_memory(4 << 20, |node| {
            node.class::<Game>(ClassOptions::default().idle_timeout(Duration::MAX))
        });
        let game =
            |number: u32| -> Stub<Game> { world.env().object().get_by_name(&number.to_string()) };
        // New objects are refused while others leave whose last writes are not durable yet.
        let patiently = async |number, call: fn(&Stub<Game>, u32) -> Call<u32, Error>| loop {
            world.clock.advance(Duration::from_millis(10));
            match call(&game(number), number).await {
                Err(error) if error.overloaded() => tokio::task::yield_now().await,
                answered => return answered.unwrap(),
            }
        };
        for number in 0..300 {
            patiently(number, |game, number| game.go_to(number)).await;
        }
        let resident = world.node.stats().resident;
        assert!(resident < 150, "{resident} are in memory");
        for number in 0..300 {
            assert_eq!(patiently(number, |game, _| game.position()).await, number);
        }
    });
}
