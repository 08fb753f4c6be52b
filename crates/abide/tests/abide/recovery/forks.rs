//! Forks to another class and to empty objects, and snapshots: a moment as a value.

use std::cell::Cell;

use abide::{ClassOptions, ErrorKind, Moment, TimelineCause, prelude::*};

use crate::{
    recovery::ledger::{Ledger, ledger},
    support::{Signals, World, is_answered, run, signals},
};

/// Has a table from the beginning, and makes copies of itself.
#[durable_object]
struct Sheet {
    ctx: Ctx,
    signals: Signals,
    calls: Cell<u32>,
}

impl DurableObject for Sheet {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql()
            .exec("CREATE TABLE IF NOT EXISTS cells (cell TEXT)", ())?;
        Ok(Self {
            ctx,
            signals: signals(&env),
            calls: Cell::new(0),
        })
    }

    fn new_timeline(&self, timeline: &Timeline) -> Result<()> {
        self.signals.note(format!("told: {}", timeline.is_fork()));
        Ok(())
    }
}

#[rpc]
impl Sheet {
    pub(crate) async fn set(&self, text: String) -> Result<()> {
        self.ctx.storage().put("text", &text)
    }

    pub(crate) async fn get(&self) -> Result<Option<String>> {
        self.ctx.storage().get("text")
    }

    /// How often this incarnation was called.
    pub(crate) async fn calls(&self) -> u32 {
        self.calls.set(self.calls.get() + 1);
        self.calls.get()
    }

    pub(crate) async fn is_dormant(&self) -> bool {
        self.ctx.is_dormant()
    }

    pub(crate) async fn called(&self) -> Option<String> {
        self.ctx.name()
    }

    pub(crate) async fn clear(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    /// The class and the id of what it was forked from.
    pub(crate) async fn origin(&self) -> Result<Option<String>> {
        let TimelineCause::Forked { origin, .. } = self.ctx.timeline().cause() else {
            return Ok(None);
        };
        let origin = self.ctx.env().any_object(origin)?;
        Ok(Some(origin.id().to_string()))
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        self.ctx.storage().snapshot()
    }

    /// Copies itself with a new text, which the poll has just written, and has the copy act.
    pub(crate) async fn copy(&self, text: String, to: String) -> Result<Snapshot> {
        self.ctx.storage().put("text", &text)?;
        let snapshot = self.ctx.storage().snapshot()?;
        let env = self.ctx.env();
        env.fork(snapshot, &to).await?;
        self.ctx.storage().put("text", "later")?;
        let copy = env.object::<Self>().get_by_name(&to);
        copy.untyped().activate(Activation::Fresh).await?;
        Ok(snapshot)
    }

    /// Waits for the test.
    pub(crate) async fn wait(&self) {
        self.signals.give("waiting");
        self.signals.wait("go").await;
    }
}

fn world() -> World {
    World::new(|node| {
        node.class::<Ledger>(ClassOptions::default())
            .class::<Sheet>(ClassOptions::default())
    })
}

fn sheet(world: &World, name: &str) -> Stub<Sheet> {
    world.env().object::<Sheet>().get_by_name(name)
}

async fn text(sheet: &Stub<Sheet>) -> Option<String> {
    sheet.get().await.unwrap()
}

#[test]
fn a_fork_to_another_class_has_the_state_and_knows_its_origin() {
    run(async {
        let world = world();
        let original = ledger(&world, "original");
        let first = original.set("first".into()).await.unwrap();
        original.set("second".into()).await.unwrap();
        let copy = sheet(&world, "copy");
        let id = world.node.fork(original.untyped(), first, &copy).await;
        assert_eq!(id.unwrap(), copy.id());
        assert_eq!(text(&copy).await.as_deref(), Some("first"));
        assert!(copy.is_dormant().await.unwrap());
        assert_eq!(copy.called().await.unwrap().as_deref(), Some("copy"));
        let origin = copy.origin().await.unwrap();
        assert_eq!(origin, Some(original.id().to_string()));
        assert_eq!(world.signals.notes(), ["made", "told: true"]);
        let listing = world.node.timeline(copy.untyped()).await.unwrap();
        assert_eq!(listing.origin_class.as_deref(), Some("Ledger"));
        let fresh = Activation::Fresh;
        world.node.activate(copy.untyped(), fresh).await.unwrap();
        assert!(!copy.is_dormant().await.unwrap());
        // The objects of the same name in both classes are two.
        assert_eq!(ledger(&world, "copy").get().await.unwrap(), None);
        assert_eq!(original.get().await.unwrap().unwrap(), "second");
    });
}

#[test]
fn a_fork_goes_to_an_object_that_was_only_read_or_is_emptied() {
    run(async {
        let world = world();
        let original = sheet(&world, "original");
        original.set("text".into()).await.unwrap();
        let snapshot = original.snapshot().await.unwrap();
        let read = sheet(&world, "read");
        assert_eq!(text(&read).await, None);
        let emptied = sheet(&world, "emptied");
        emptied.set("before".into()).await.unwrap();
        emptied.clear().await.unwrap();
        let by_id = world.env().object::<Sheet>();
        let by_id = by_id.get(by_id.unique_id());
        let stub = original.untyped();
        for target in [&read, &emptied, &by_id] {
            world.node.fork(stub, snapshot, target).await.unwrap();
            assert_eq!(text(target).await.as_deref(), Some("text"));
            assert_eq!(target.called().await.unwrap().as_deref(), target.name());
            assert_eq!(target.calls().await.unwrap(), 1);
        }
    });
}

#[test]
fn a_fork_to_an_object_with_content_is_refused_and_does_not_reset_it() {
    run(async {
        let world = world();
        let original = ledger(&world, "original");
        let at = original.set("first".into()).await.unwrap();
        let stub = original.untyped();
        let taken = sheet(&world, "taken");
        taken.set("mine".into()).await.unwrap();
        assert_eq!(taken.calls().await.unwrap(), 1);
        let refused = world.node.fork(stub, at, &taken).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Input);
        assert!(refused.to_string().contains("not empty"), "{refused}");
        assert_eq!(taken.calls().await.unwrap(), 2, "it is not reset");
        assert_eq!(text(&taken).await.as_deref(), Some("mine"));
        // Nor is it when it is not in memory.
        let disk = world.stop().await;
        let world = World::on(disk, 1, |node| {
            node.class::<Ledger>(ClassOptions::default())
                .class::<Sheet>(ClassOptions::default())
        });
        let (original, taken) = (ledger(&world, "original"), sheet(&world, "taken"));
        let refused = world.node.fork(original.untyped(), at, &taken).await;
        assert!(refused.unwrap_err().to_string().contains("not empty"));
        assert_eq!(text(&taken).await.as_deref(), Some("mine"));
        // An object is not its own target, and an id belongs to its class.
        let own = world.node.fork(original.untyped(), at, "original").await;
        assert!(own.unwrap_err().to_string().contains("restore"));
        let foreign = world.env().object::<Sheet>().get(original.id());
        let foreign = world.node.fork(original.untyped(), at, foreign).await;
        assert_eq!(foreign.unwrap_err().kind(), ErrorKind::Input);
        assert_eq!(original.get().await.unwrap().unwrap(), "first");
    });
}

#[test]
fn a_target_of_another_node_is_refused() {
    run(async {
        let (world, other) = (world(), world());
        let original = ledger(&world, "original");
        let at = original.set("first".into()).await.unwrap();
        let refused = world
            .node
            .fork(original.untyped(), at, sheet(&other, "copy"));
        let refused = refused.await.unwrap_err();
        assert!(refused.to_string().contains("another node"), "{refused}");
        assert_eq!(text(&sheet(&other, "copy")).await, None);
    });
}

#[test]
fn calls_of_the_target_wait_for_the_fork_and_find_it() {
    run(async {
        let world = world();
        let original = ledger(&world, "original");
        let at = original.set("first".into()).await.unwrap();
        let copy = sheet(&world, "copy");
        let running = copy.wait();
        world.signals.wait("waiting").await;
        // The fork takes as long as the disk does.
        world.disk.hold_syncs();
        let fork = || {
            let (node, stub) = (world.node.clone(), original.untyped().clone());
            let copy = copy.clone();
            tokio::spawn(async move { node.fork(&stub, at, copy).await })
        };
        let first = fork();
        let error = running.await.unwrap_err();
        assert!(error.object_reset() && !error.retryable(), "{error:?}");
        assert!(error.to_string().contains("forked"), "{error}");
        let mut get = copy.get();
        let mut set = copy.set("written".into());
        let second = fork().await.unwrap().unwrap_err();
        assert!(second.overloaded() && second.retryable(), "{second:?}");
        world.fence().await;
        assert!(!is_answered(&mut get) && !is_answered(&mut set));
        world.disk.release_syncs();
        first.await.unwrap().unwrap();
        assert_eq!(get.await.unwrap().as_deref(), Some("first"));
        set.await.unwrap();
        assert_eq!(text(&copy).await.as_deref(), Some("written"));
        let third = fork().await.unwrap().unwrap_err();
        assert!(third.to_string().contains("not empty"), "{third}");
    });
}

#[test]
fn an_object_copies_its_present_state_and_activates_the_copy() {
    run(async {
        let world = world();
        let template = sheet(&world, "template");
        let snapshot = template.copy("prepared".into(), "customer".into());
        let snapshot = snapshot.await.unwrap();
        let copy = sheet(&world, "customer");
        assert_eq!(text(&copy).await.as_deref(), Some("prepared"));
        assert!(!copy.is_dormant().await.unwrap());
        assert_eq!(text(&template).await.as_deref(), Some("later"));
        let again = template.copy("again".into(), "customer".into()).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Input);
        assert_eq!(text(&copy).await.as_deref(), Some("prepared"));
        // The value serves the program as well, also after a restart.
        let text_form = snapshot.to_string();
        let disk = world.stop().await;
        let world = World::on(disk, 1, |node| node.class::<Sheet>(ClassOptions::default()));
        let snapshot: Snapshot = text_form.parse().unwrap();
        let env = world.env().clone();
        let fork = tokio::spawn(async move { env.fork(snapshot, "second").await });
        fork.await.unwrap().unwrap();
        let second = sheet(&world, "second");
        assert_eq!(text(&second).await.as_deref(), Some("prepared"));
        assert!(second.is_dormant().await.unwrap());
    });
}

#[test]
fn a_fork_by_an_object_begins_when_its_writes_are_durable() {
    run(async {
        let world = world();
        let template = sheet(&world, "template");
        template.set("first".into()).await.unwrap();
        let copy = sheet(&world, "customer");
        let mut running = copy.wait();
        world.signals.wait("waiting").await;
        world.disk.hold_syncs();
        let copying = template.copy("prepared".into(), "customer".into());
        world.fence().await;
        assert!(!is_answered(&mut running), "the target knows of no fork");
        world.disk.release_syncs();
        copying.await.unwrap();
        assert!(running.await.unwrap_err().object_reset());
        assert_eq!(text(&copy).await.as_deref(), Some("prepared"));
    });
}

#[test]
fn a_snapshot_is_restored_to_and_read_and_belongs_to_its_object() {
    run(async {
        let world = world();
        let (ada, bob) = (sheet(&world, "ada"), sheet(&world, "bob"));
        for sheet in [&ada, &bob] {
            sheet.set("first".into()).await.unwrap();
        }
        let snapshot = ada.snapshot().await.unwrap();
        assert_eq!(snapshot.object(), ada.id());
        ada.set("second".into()).await.unwrap();
        let moment = Some(Moment::from(snapshot));
        let bookmark = world.node.bookmark(ada.untyped(), moment).await.unwrap();
        assert_eq!(bookmark, snapshot.bookmark());
        let (read, _) = world.node.database(ada.untyped(), moment).await.unwrap();
        assert_eq!(read, bookmark);
        world.node.restore(ada.untyped(), snapshot).await.unwrap();
        assert_eq!(text(&ada).await.as_deref(), Some("first"));
        for refused in [
            world.node.restore(bob.untyped(), snapshot).await.map(drop),
            world.node.database(bob.untyped(), moment).await.map(drop),
            world
                .node
                .fork(bob.untyped(), snapshot, "x")
                .await
                .map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Input);
            assert!(refused.to_string().contains("snapshot is of"), "{refused}");
        }
        let unknown = Snapshot::new(ObjectId::from_name("Other", "x"), bookmark);
        let unknown = world.env().fork(unknown, "copy").await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
    });
}
