//! A new object is stored with its first change, which may be one of its schema.

use std::time::Duration;

use abide::{prelude::*, storage::SimDisk};

use crate::support::{World, is_answered, run};

/// Its constructor creates a table, as most do.
#[durable_object]
struct Tenant {
    ctx: Ctx,
}

impl DurableObject for Tenant {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS t (n INTEGER)", ())?;
        Ok(Self { ctx })
    }
}

#[rpc]
impl Tenant {
    pub async fn sql(&self, sql: String) -> Result<usize> {
        Ok(self.ctx.sql().exec(&sql, ())?.len())
    }

    pub async fn sql_and_sync(&self, sql: String) -> Result<()> {
        self.ctx.sql().exec(&sql, ())?;
        self.ctx.storage().sync().await
    }

    pub async fn bookmark(&self) -> Result<String> {
        Ok(self.ctx.storage().bookmark()?.to_string())
    }
}

/// Its constructor creates a table while events wait.
#[durable_object]
struct Blocked {
    ctx: Ctx,
}

impl DurableObject for Blocked {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let sql = ctx.sql();
        drop(ctx.block_concurrency_while(async move {
            tokio::task::yield_now().await;
            sql.exec("CREATE TABLE IF NOT EXISTS t (n INTEGER)", ())?;
            tokio::task::yield_now().await;
            sql.exec("CREATE INDEX IF NOT EXISTS i ON t (n)", ())
                .map(drop)
        }));
        Ok(Self { ctx })
    }
}

#[rpc]
impl Blocked {
    pub async fn sql(&self, sql: String) -> Result<usize> {
        Ok(self.ctx.sql().exec(&sql, ())?.len())
    }
}

fn world_on(disk: SimDisk) -> World {
    World::on(disk, 1, |node| {
        node.class::<Tenant>(ClassOptions::default())
            .class::<Blocked>(ClassOptions::default())
    })
}

async fn sql(world: &World, sql: &str) -> Result<usize> {
    let tenant = world.env().object::<Tenant>().get_by_name("a");
    tenant.sql(sql.to_owned()).await
}

const SCHEMA: &[(&str, &str)] = &[
    (
        "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)",
        "SELECT 1 FROM sqlite_schema WHERE name = 'users'",
    ),
    (
        "CREATE INDEX by_n ON t (n)",
        "SELECT 1 FROM sqlite_schema WHERE name = 'by_n'",
    ),
    (
        "CREATE VIEW v AS SELECT n FROM t",
        "SELECT 1 FROM sqlite_schema WHERE name = 'v'",
    ),
    (
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
        "SELECT 1 FROM sqlite_schema WHERE name = 'g'",
    ),
    (
        "PRAGMA user_version = 3",
        "SELECT 1 FROM pragma_user_version WHERE user_version = 3",
    ),
];

#[test]
fn ddl_of_a_handler_survives_a_kill_and_an_eviction() {
    run(async {
        for (ddl, exists) in SCHEMA {
            let world = world_on(SimDisk::new());
            assert_eq!(sql(&world, "SELECT n FROM t").await.unwrap(), 0);
            sql(&world, ddl).await.unwrap();
            world.clock.advance(Duration::from_mins(1));
            world.until(|node| node.stats().evicted >= 1).await;
            assert_eq!(sql(&world, exists).await.unwrap(), 1, "{ddl}, evicted");
            let world = world_on(world.disk.after_kill());
            assert_eq!(sql(&world, exists).await.unwrap(), 1, "{ddl}, killed");
        }
    });
}

#[test]
fn ddl_that_was_synced_survives_a_power_cut() {
    run(async {
        let world = world_on(SimDisk::new());
        let tenant = world.env().object::<Tenant>().get_by_name("a");
        let (ddl, exists) = SCHEMA[0];
        tenant.sql_and_sync(ddl.to_owned()).await.unwrap();
        let world = world_on(world.disk.crash(7));
        assert_eq!(sql(&world, exists).await.unwrap(), 1);
    });
}

#[test]
fn a_bookmark_of_a_new_object_waits_until_it_is_durable() {
    run(async {
        let world = world_on(SimDisk::new());
        let tenant = world.env().object::<Tenant>().get_by_name("a");
        assert_eq!(sql(&world, "SELECT n FROM t").await.unwrap(), 0);
        world.disk.hold_syncs();
        let mut bookmark = tenant.bookmark();
        world.fence().await;
        assert!(
            !is_answered(&mut bookmark),
            "it left before its commit was durable"
        );
        world.disk.release_syncs();
        let bookmark: Bookmark = bookmark.await.unwrap().parse().unwrap();
        world
            .node
            .restore(tenant.untyped(), bookmark)
            .await
            .unwrap();
    });
}

#[test]
fn a_constructor_that_blocks_stores_nothing_until_a_write() {
    run(async {
        let world = world_on(SimDisk::new());
        let blocked = world.env().object::<Blocked>();
        let object = blocked.get_by_name("a");
        let call = |sql: &str| object.sql(sql.to_owned());
        assert_eq!(call("SELECT n FROM t").await.unwrap(), 0);
        assert_eq!(blocked.untyped().written().unwrap(), []);
        call("INSERT INTO t VALUES (1)").await.unwrap();
        assert_eq!(blocked.untyped().written().unwrap().len(), 1);
        let world = world_on(world.disk.after_kill());
        let object = world.env().object::<Blocked>().get_by_name("a");
        let rows = object.sql("SELECT n FROM t".to_owned()).await;
        assert_eq!(rows.unwrap(), 1);
    });
}

#[test]
fn an_operator_s_question_about_alarms_keeps_a_new_object_usable() {
    run(async {
        let world = world_on(SimDisk::new());
        assert_eq!(sql(&world, "SELECT n FROM t").await.unwrap(), 0);
        let tenant = world.env().object::<Tenant>().get_by_name("a");
        world
            .node
            .rerun_alarm(tenant.untyped(), None)
            .await
            .unwrap_err();
        assert!(
            world
                .node
                .alarms_of(tenant.untyped())
                .await
                .unwrap()
                .is_empty()
        );
        sql(&world, "INSERT INTO t VALUES (1)").await.unwrap();
        let world = world_on(world.disk.after_kill());
        assert_eq!(sql(&world, "SELECT n FROM t").await.unwrap(), 1);
    });
}
