//! Random SQL on the engine beside the same SQL on a plain SQLite database: they must never differ, whatever
//! checkpoints, evictions, kills and rollbacks come between.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use abide_storage::{ObjectDb, SimDisk, Store, Value};
use proptest::prelude::*;
use rusqlite::Connection;

#[derive(Clone, Debug)]
enum Step {
    Sql(String),
    /// Statements in a savepoint that is rolled back.
    Undone(Vec<String>),
    Commit,
    /// The poll fails: everything since the last commit is undone.
    Rollback,
    Evict,
    Checkpoint,
    /// The process is killed and recovers.
    Kill,
}

fn statement() -> impl Strategy<Value = String> {
    let id = 0..60_i64;
    let size = prop_oneof![4 => 0..60_usize, 1 => 3_000..9_000_usize];
    prop_oneof![
        6 => (id.clone(), size, any::<u8>()).prop_map(|(id, n, b)| {
            format!("INSERT INTO t (id, a, b) VALUES ({id}, {b}, zeroblob({n})) ON CONFLICT (id) DO UPDATE SET a = a + 1, b = excluded.b")
        }),
        3 => (id.clone(), any::<i32>()).prop_map(|(id, a)| format!("UPDATE t SET a = {a} WHERE id >= {id}")),
        2 => id.clone().prop_map(|id| format!("DELETE FROM t WHERE id < {id}")),
        1 => Just("CREATE INDEX IF NOT EXISTS i ON t (a, id)".to_owned()),
        1 => Just("DROP INDEX IF EXISTS i".to_owned()),
        1 => id.clone().prop_map(|id| format!("CREATE TABLE IF NOT EXISTS u{} (x PRIMARY KEY, y) WITHOUT ROWID", id % 3)),
        1 => id.clone().prop_map(|id| format!("DROP TABLE IF EXISTS u{}", id % 3)),
        1 => id.clone().prop_map(|id| format!("INSERT OR REPLACE INTO u{} SELECT id, a FROM t LIMIT {id}", id % 3)),
        1 => id.prop_map(|id| format!("PRAGMA user_version = {id}")),
        1 => Just("nonsense".to_owned()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => statement().prop_map(Step::Sql),
        2 => proptest::collection::vec(statement(), 1..4).prop_map(Step::Undone),
        6 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Evict),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Kill),
    ]
}

struct Pair {
    disk: SimDisk,
    store: Store,
    ours: Option<ObjectDb>,
    plain: Connection,
}

const SETUP: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b BLOB)";

impl Pair {
    fn new() -> Self {
        let disk = SimDisk::new();
        let store = common::manual(&disk);
        let plain = Connection::open_in_memory().unwrap();
        plain.execute_batch(SETUP).unwrap();
        let mut pair = Self {
            disk,
            store,
            ours: None,
            plain,
        };
        pair.ours().exec(SETUP, ()).unwrap();
        pair.commit();
        pair.plain.execute_batch("BEGIN").unwrap();
        pair
    }

    fn ours(&mut self) -> &ObjectDb {
        let store = &self.store;
        self.ours.get_or_insert_with(|| common::open(store, 1))
    }

    fn commit(&mut self) {
        self.ours().commit().unwrap();
        common::flush(&self.store);
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Sql(sql) => {
                let plain = self.plain.execute_batch(sql).is_ok();
                assert_eq!(self.ours().exec(sql, ()).is_ok(), plain, "{sql}");
            }
            Step::Undone(statements) => {
                self.plain.execute_batch("SAVEPOINT s").unwrap();
                for sql in statements {
                    let _ = self.plain.execute_batch(sql);
                }
                self.plain
                    .execute_batch("ROLLBACK TO s; RELEASE s")
                    .unwrap();
                let ours = self.ours();
                let undone: Result<(), abide_storage::Error> = ours.transaction(|| {
                    for sql in statements {
                        let _ = ours.exec(sql, ());
                    }
                    ours.exec("undo this", ()).map(drop)
                });
                assert!(undone.is_err());
            }
            Step::Commit => {
                self.commit();
                self.plain.execute_batch("COMMIT; BEGIN").unwrap();
            }
            Step::Rollback => {
                self.ours().rollback();
                self.plain.execute_batch("ROLLBACK; BEGIN").unwrap();
            }
            Step::Evict => {
                self.run(&Step::Commit);
                self.ours = None;
            }
            Step::Checkpoint => {
                self.run(&Step::Commit);
                self.store.checkpoint().unwrap();
            }
            Step::Kill => {
                self.run(&Step::Commit);
                self.ours = None;
                self.disk = self.disk.after_kill();
                self.store = common::manual(&self.disk);
            }
        }
        self.store.run_maintenance().unwrap();
    }

    fn compare(&mut self) {
        let queries = [
            "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE '\\_abide%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_auto%\\_abide%' ESCAPE '\\' ORDER BY name",
            "SELECT * FROM t ORDER BY id",
            "SELECT id, a FROM t ORDER BY a, id",
            "SELECT user_version FROM pragma_user_version",
        ];
        for sql in queries {
            let mut statement = self.plain.prepare(sql).unwrap();
            let width = statement.column_count();
            let rows = statement.query_map((), |row| {
                (0..width)
                    .map(|i| row.get(i).map(common::value))
                    .collect::<Result<Vec<_>, _>>()
            });
            let plain: Vec<Vec<Value>> = rows.unwrap().map(Result::unwrap).collect();
            drop(statement);
            assert_eq!(self.ours().exec(sql, ()).unwrap().raw(), plain, "{sql}");
        }
        let check = self.ours().exec("PRAGMA integrity_check", ()).unwrap();
        assert_eq!(check.one::<String>().unwrap(), "ok");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sql_gives_what_plain_sqlite_gives(steps in proptest::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.run(step);
        }
        pair.compare();
        pair.run(&Step::Kill);
        pair.compare();
    }
}

#[test]
fn a_transaction_larger_than_a_segment_is_kept_whole() {
    let mut pair = Pair::new();
    for i in 0..40 {
        pair.run(&Step::Sql(format!(
            "INSERT INTO t (id, a, b) VALUES ({i}, 1, randomblob(0) || zeroblob(60000))"
        )));
    }
    pair.ours()
        .exec(
            "UPDATE t SET b = CAST(printf('%.*c', 60000, char(65 + id % 26)) AS BLOB)",
            (),
        )
        .unwrap();
    pair.plain
        .execute_batch("UPDATE t SET b = CAST(printf('%.*c', 60000, char(65 + id % 26)) AS BLOB)")
        .unwrap();
    pair.run(&Step::Kill);
    pair.compare();
}
