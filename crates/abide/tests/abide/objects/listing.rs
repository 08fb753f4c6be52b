//! The stored objects of a class, page by page, and one that must exist.

use std::time::Duration;

use abide::{ErrorKind, NodeBuilder, ObjectId, prelude::*, storage::SimDisk};

use crate::support::{World, is_answered, run};

#[durable_object]
struct Guest {
    ctx: Ctx,
}

impl DurableObject for Guest {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS t (n INTEGER)", ())?;
        Ok(Self { ctx })
    }
}

#[rpc]
impl Guest {
    pub fn enter(&self) -> Result<()> {
        self.ctx.storage().put("is here", &true)
    }

    pub fn look(&self) -> Result<bool> {
        Ok(self.ctx.storage().get("is here")?.unwrap_or(false))
    }

    pub fn leave(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub fn knows(&self, name: String) -> Result<bool> {
        let guests = self.ctx.env().object::<Guest>();
        Ok(guests.get_existing(&name)?.is_some())
    }

    pub async fn others(&self) -> Result<Vec<String>> {
        let page = self.ctx.env().object::<Guest>().list(None, 100).await?;
        Ok(page.objects.iter().map(name).collect())
    }
}

fn name(guest: &Stub<Guest>) -> String {
    guest.name().unwrap_or("-").to_owned()
}

fn world_on(disk: SimDisk) -> World {
    World::on(disk, 2, |node: NodeBuilder| {
        node.class::<Guest>(ClassOptions::default())
    })
}

fn guests(world: &World) -> Namespace<Guest> {
    world.env().object::<Guest>()
}

/// All names, and how many pages they took.
async fn listed(world: &World, limit: usize) -> (Vec<String>, usize) {
    let (mut names, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = guests(world).list(after, limit).await.unwrap();
        names.extend(page.objects.iter().map(name));
        pages += 1;
        let Some(next) = page.next else {
            return (names, pages);
        };
        after = Some(next);
    }
}

/// The names in the order of their ids.
fn in_order(world: &World, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|name| *guests(world).id_from_name(name).as_bytes());
    names
}

#[test]
fn stored_objects_are_listed_by_page_with_their_names() {
    run(async {
        let world = world_on(SimDisk::new());
        let names: Vec<_> = (0..40).map(|number| format!("guest {number}")).collect();
        for name in &names {
            guests(&world).get_by_name(name).enter().await.unwrap();
        }
        let _ = guests(&world).get_by_name("only read").look().await;
        let expected = in_order(&world, names);
        for (limit, pages) in [(7, 6), (39, 2), (40, 1), (1_000, 1), (usize::MAX, 1)] {
            assert_eq!(
                listed(&world, limit).await,
                (expected.clone(), pages),
                "{limit}"
            );
        }
        // Some in files, some only in the log.
        world.node.store().checkpoint().unwrap();
        guests(&world).get_by_name("late").enter().await.unwrap();
        let world = world_on(world.stop().await);
        let mut all = expected;
        all.push("late".to_owned());
        assert_eq!(listed(&world, 9).await.0, in_order(&world, all));
        assert_eq!(world.node.stats().started, 0);
    });
}

#[test]
fn an_object_that_has_deleted_everything_still_exists() {
    run(async {
        let world = world_on(SimDisk::new());
        for name in ["ada", "grace"] {
            guests(&world).get_by_name(name).enter().await.unwrap();
        }
        guests(&world).get_by_name("ada").leave().await.unwrap();
        let both = in_order(&world, ["ada".to_owned(), "grace".to_owned()]);
        for _ in 0..2 {
            assert_eq!(listed(&world, 10).await.0, both);
            assert!(guests(&world).get_existing("ada").unwrap().is_some());
            world.node.store().checkpoint().unwrap();
        }
    });
}

#[test]
fn an_existing_object_is_found_and_no_other_is_created() {
    run(async {
        let world = world_on(SimDisk::new());
        assert!(guests(&world).get_existing("ada").unwrap().is_none());
        assert!(!guests(&world).get_by_name("ada").look().await.unwrap());
        assert!(guests(&world).get_existing("ada").unwrap().is_none());
        guests(&world).get_by_name("ada").enter().await.unwrap();
        let found = guests(&world).get_existing("ada").unwrap().unwrap();
        assert!(found.look().await.unwrap());
        let world = world_on(world.stop().await);
        assert!(guests(&world).get_existing("ada").unwrap().is_some());
        assert!(guests(&world).get_existing("grace").unwrap().is_none());
        let error = guests(&world).get_existing("").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
    });
}

#[test]
fn an_object_that_has_seen_others_waits_until_they_are_durable() {
    run(async {
        let world = world_on(SimDisk::new());
        let asker = guests(&world).get_by_name("asker");
        asker.enter().await.unwrap();
        world.disk.hold_syncs();
        let mut entering = guests(&world).get_by_name("new").enter();
        world.until(|node| node.store().stats().commits == 2).await;
        let mut known = asker.knows("new".to_owned());
        let mut others = asker.others();
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(!is_answered(&mut entering));
            assert!(!is_answered(&mut known), "it left before it was durable");
            assert!(!is_answered(&mut others), "it left before it was durable");
        }
        world.disk.release_syncs();
        assert!(known.await.unwrap());
        assert_eq!(others.await.unwrap().len(), 2);
    });
}

#[test]
fn a_page_begins_after_any_id() {
    run(async {
        let world = world_on(SimDisk::new());
        for number in 0..30 {
            let name = format!("guest {number}");
            guests(&world).get_by_name(&name).enter().await.unwrap();
        }
        world.node.store().checkpoint().unwrap();
        let all = guests(&world).list(None, 1_000).await.unwrap();
        let ids: Vec<_> = all.objects.iter().map(Stub::id).collect();
        for first in 0..=u8::MAX {
            let after: ObjectId = format!("{first:02x}").repeat(32).parse().unwrap();
            let page = guests(&world).list(Some(after), 1_000).await.unwrap();
            let found: Vec<_> = page.objects.iter().map(Stub::id).collect();
            let expected: Vec<_> = ids.iter().copied().filter(|id| *id > after).collect();
            assert_eq!(found, expected, "{first}");
        }
    });
}
