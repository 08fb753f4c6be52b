//! Key-value pairs, SQL and their limits, as objects see them.

use std::collections::BTreeMap;

use abide::{ErrorKind, prelude::*};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::support::{World, run};

/// Runs whatever a test needs, inside an object.
#[durable_object]
struct Bench {
    ctx: Ctx,
}

/// What the object of a test does; the name of the object selects it.
type Scenario = fn(&Ctx) -> Result<()>;

impl DurableObject for Bench {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

struct Scenarios(Scenario);

#[rpc]
impl Bench {
    pub async fn go(&self) -> Result<()> {
        let scenario = self.ctx.env().require::<Scenarios>()?;
        (scenario.0)(&self.ctx)
    }

    pub async fn use_state_elsewhere(&self) -> String {
        let storage = self.ctx.storage().clone();
        let task = tokio::task::spawn_local(async move { storage.put("key", &1) });
        task.await.unwrap().unwrap_err().to_string()
    }
}

/// Runs a scenario in a fresh object; a failed assertion in it fails the test.
fn scenario(scenario: Scenario) {
    run(async move {
        let world = World::new(|node| {
            node.class::<Bench>(ClassOptions::default())
                .with(Scenarios(scenario))
        });
        world
            .env()
            .object::<Bench>()
            .get_by_name("bench")
            .go()
            .await
            .unwrap();
    });
}

fn keys<T: DeserializeOwned>(ctx: &Ctx, options: &ListOptions) -> Vec<String> {
    ctx.storage()
        .list::<T>(options)
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

#[test]
fn values_of_any_serde_type_are_kept() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Point,
        Circle { radius: f64 },
    }
    scenario(|ctx| {
        let storage = ctx.storage();
        storage.put("shape", &Shape::Circle { radius: 1.5 })?;
        storage.put("number", &i64::MIN)?;
        storage.put("text", "ä")?;
        assert_eq!(storage.get("shape")?, Some(Shape::Circle { radius: 1.5 }));
        assert_eq!(storage.get("number")?, Some(i64::MIN));
        assert_eq!(storage.get::<String>("text")?.as_deref(), Some("ä"));
        assert_eq!(storage.get::<Shape>("nothing")?, None);
        storage.put("shape", &Shape::Point)?;
        assert_eq!(storage.get("shape")?, Some(Shape::Point));

        let error = storage.get::<u32>("text").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(
            error.message().contains("the value of key `text`"),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn keys_are_listed_in_order_by_prefix_start_end_limit_and_in_reverse() {
    scenario(|ctx| {
        let storage = ctx.storage();
        storage.put_many(["b/2", "a", "b/1", "c", "b/3"].map(|key| (key, key.len())))?;
        let all = ListOptions::default();
        assert_eq!(keys::<usize>(ctx, &all), ["a", "b/1", "b/2", "b/3", "c"]);
        let prefix = all.clone().prefix("b/".to_owned());
        assert_eq!(keys::<usize>(ctx, &prefix), ["b/1", "b/2", "b/3"]);
        let reverse = prefix.clone().reverse(true).limit(2);
        assert_eq!(keys::<usize>(ctx, &reverse), ["b/3", "b/2"]);
        let range = all.clone().start("b/1".to_owned()).end("c".to_owned());
        assert_eq!(keys::<usize>(ctx, &range), ["b/1", "b/2", "b/3"]);
        let after = all.clone().start_after("b/1".to_owned()).limit(1);
        assert_eq!(keys::<usize>(ctx, &after), ["b/2"]);
        assert!(
            storage.list::<String>(&all).is_err(),
            "the values are numbers"
        );
        Ok(())
    });
}

#[test]
fn several_keys_at_once_are_read_written_and_removed() {
    scenario(|ctx| {
        let storage = ctx.storage();
        storage.put_many([("a", 1), ("b", 2), ("c", 3)])?;
        let found: BTreeMap<String, i32> = storage.get_many(["c", "a", "nothing"])?;
        assert_eq!(
            found,
            BTreeMap::from([("a".to_owned(), 1), ("c".to_owned(), 3)])
        );
        assert_eq!(storage.delete_many(["a", "nothing", "b"])?, 2);
        assert!(storage.delete("c")? && !storage.delete("c")?);
        assert!(keys::<i32>(ctx, &ListOptions::default()).is_empty());

        let long = "k".repeat(4_000);
        storage.put_many([("good", 1), (&*long, 2)]).unwrap_err();
        assert_eq!(storage.get::<i32>("good")?, None, "all or none");
        let error = storage
            .put_many((0..129).map(|number| (number.to_string(), number)))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert_eq!(storage.get::<i32>("0")?, None, "all or none");
        Ok(())
    });
}

#[test]
fn keys_and_values_over_their_limits_are_refused_with_the_limit() {
    scenario(|ctx| {
        let storage = ctx.storage();
        storage.put(&"k".repeat(2_048), &1)?;
        for error in [
            storage.put(&"k".repeat(2_049), &1).unwrap_err(),
            storage.get::<i32>(&"k".repeat(2_049)).unwrap_err(),
            storage.put("value", &"v".repeat(2 << 20)).unwrap_err(),
            storage
                .sql()
                .exec(&format!("SELECT '{}'", "x".repeat(100_000)), ())
                .unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        }
        let error = storage.put(&"k".repeat(2_049), &1).unwrap_err();
        assert!(
            error.message().contains("2049") && error.message().contains("2048"),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn sql_rows_come_out_as_structs_tuples_and_scalars() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Seat {
        seat: String,
        occupant: Option<String>,
    }
    scenario(|ctx| {
        let sql = ctx.sql();
        sql.exec(
            "CREATE TABLE seats (seat TEXT PRIMARY KEY, occupant TEXT)",
            (),
        )?;
        sql.exec(
            "INSERT INTO seats VALUES (?1, NULL), (?2, ?3)",
            params!["1A", "1B", "ada"],
        )?;
        let rows = sql.exec("SELECT * FROM seats ORDER BY seat", ())?;
        let first = Seat {
            seat: "1A".into(),
            occupant: None,
        };
        let second = Seat {
            seat: "1B".into(),
            occupant: Some("ada".to_owned()),
        };
        assert_eq!(rows.all::<Seat>()?, [first, second]);
        assert_eq!(sql.exec("SELECT count(*) FROM seats", ())?.one::<i64>()?, 2);
        let pair: (String, Option<String>) = sql
            .exec("SELECT * FROM seats WHERE seat = ?1", ["1B"])?
            .one()?;
        assert_eq!(pair, ("1B".to_owned(), Some("ada".to_owned())));

        let mut seen = Vec::new();
        sql.for_each("SELECT seat FROM seats ORDER BY seat", (), |row| {
            // A reading inside the reading is allowed.
            assert_eq!(sql.exec("SELECT 1", ())?.one::<i64>()?, 1);
            seen.push(row.get::<String>()?);
            Ok(())
        })?;
        assert_eq!(seen, ["1A", "1B"]);
        let mut handed = 0;
        let stopped = sql.for_each("SELECT seat FROM seats", (), |_| {
            handed += 1;
            Err(Error::new("enough"))
        });
        assert_eq!(stopped.unwrap_err().message(), "enough");
        assert_eq!(handed, 1);
        Ok(())
    });
}

#[test]
fn an_sql_error_is_an_answer_and_the_object_lives_on() {
    scenario(|ctx| {
        let sql = ctx.sql();
        let error = sql.exec("SELECT * FROM missing", ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(
            error.message().contains("no such table: missing"),
            "{error}"
        );
        sql.exec("CREATE TABLE one (n INTEGER UNIQUE)", ())?;
        sql.exec("INSERT INTO one VALUES (1)", ())?;
        let error = sql.exec("INSERT INTO one VALUES (1)", ()).unwrap_err();
        assert!(
            error.message().contains("UNIQUE constraint failed"),
            "{error}"
        );
        assert_eq!(sql.exec("SELECT count(*) FROM one", ())?.one::<i64>()?, 1);
        Ok(())
    });
}

#[test]
fn what_objects_may_not_do_in_sql_is_refused_with_the_right_call() {
    scenario(|ctx| {
        let sql = ctx.sql();
        for (text, hint) in [
            ("BEGIN", "transaction"),
            ("SAVEPOINT a", "transaction"),
            ("ATTACH 'x' AS y", "ATTACH"),
            ("PRAGMA journal_mode = WAL", "journal_mode"),
            ("DELETE FROM _abide_kv", "reserved"),
            ("CREATE TEMP TABLE t (n)", "TEMP"),
        ] {
            let error = sql.exec(text, ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input, "{text}: {error}");
            assert!(
                error
                    .message()
                    .to_lowercase()
                    .contains(&hint.to_lowercase()),
                "{text}: {error}"
            );
        }
        Ok(())
    });
}

#[test]
fn delete_all_leaves_nothing_and_the_size_shrinks() {
    scenario(|ctx| {
        let (storage, sql) = (ctx.storage(), ctx.sql());
        sql.exec("CREATE TABLE big (text TEXT)", ())?;
        for _ in 0..50 {
            sql.exec("INSERT INTO big VALUES (?1)", ["x".repeat(4_000)])?;
        }
        storage.put("key", &1)?;
        assert!(sql.database_size()? > 200_000);
        storage.delete_all()?;
        assert_eq!(storage.get::<i32>("key")?, None);
        assert!(sql.exec("SELECT * FROM big", ()).is_err());
        storage.put("key", &2)?;
        Ok(())
    });
}

#[test]
fn state_works_only_inside_the_objects_own_handlers() {
    run(async {
        let world = World::new(|node| node.class::<Bench>(ClassOptions::default()));
        let text = world
            .env()
            .object::<Bench>()
            .get_by_name("bench")
            .use_state_elsewhere()
            .await
            .unwrap();
        assert!(text.contains("ctx.spawn"), "{text}");
    });
}
