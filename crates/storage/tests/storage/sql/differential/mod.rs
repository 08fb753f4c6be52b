//! Generated SQL through `exec` and `for_each`, beside plain SQLite with the same settings: results, errors, counts and
//! databases must be equal, while the engine writes in between. What differs by design is listed in `docs/sql.md`.
//!
//! `ABIDE_SQL_SEEDS` sets the number of lives.

mod generator;

use std::collections::BTreeMap;

use abide_storage::{AlarmRow, Error, ErrorKind, ObjectDb, Store, Value, params_from_iter};
use rusqlite::{
    Batch, Connection, MAIN_DB, Statement, config::DbConfig,
    fallible_iterator::FallibleIterator as _,
};

use crate::{common, sql::database};
use generator::{Generator, Step};

/// A statement's columns and rows, or SQLite's words.
type Outcome = Result<(Vec<String>, Vec<Vec<Value>>), String>;

struct Pair {
    store: Store,
    ours: Option<ObjectDb>,
    plain: Connection,
    /// How often each outcome was seen: a generator whose statements all fail compares nothing.
    seen: BTreeMap<&'static str, u32>,
    has_fts: bool,
}

fn plain() -> Connection {
    let plain = Connection::open_in_memory().unwrap();
    configure(&plain);
    plain
}

fn configure(plain: &Connection) {
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
    ] {
        plain.set_db_config(config, on).unwrap();
    }
}

fn words(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    }
}

fn rows_of(
    statement: &mut Statement<'_>,
    params: &[Value],
) -> rusqlite::Result<(Vec<String>, Vec<Vec<Value>>)> {
    let params = &params[..statement.parameter_count()];
    let mut found = Vec::new();
    let params = params.iter().cloned().map(common::plain);
    let mut rows = statement.query(rusqlite::params_from_iter(params))?;
    while let Some(row) = rows.next()? {
        let width = row.as_ref().column_count();
        found.push(
            (0..width)
                .map(|at| row.get(at).map(common::value))
                .collect::<rusqlite::Result<_>>()?,
        );
    }
    drop(rows);
    let columns = statement.column_names();
    Ok((columns.into_iter().map(str::to_owned).collect(), found))
}

impl Pair {
    fn new() -> Self {
        let (store, ours) = database();
        let plain = plain();
        plain.execute_batch("BEGIN").unwrap();
        let mut pair = Self {
            store,
            ours: Some(ours),
            plain,
            seen: BTreeMap::new(),
            has_fts: false,
        };
        pair.on_both("CREATE TABLE zero (n)");
        pair.run(&Step::Commit);
        pair
    }

    fn on_both(&self, sql: &str) {
        self.on_plain(sql, &[]).unwrap();
        self.with_exec(sql, &[]).unwrap();
    }

    fn ours(&self) -> &ObjectDb {
        self.ours.as_ref().unwrap()
    }

    fn on_plain(&self, sql: &str, params: &[Value]) -> Outcome {
        let mut batch = Batch::new(&self.plain, sql);
        let mut last = (Vec::new(), Vec::new());
        while let Some(mut statement) = batch.next().map_err(words)? {
            last = rows_of(&mut statement, params).map_err(words)?;
        }
        Ok(last)
    }

    fn with_exec(&self, sql: &str, params: &[Value]) -> Outcome {
        let rows = self.ours().exec(sql, params_from_iter(params));
        let rows = rows.map_err(|error| error.to_string())?;
        Ok((rows.columns().to_vec(), rows.raw()))
    }

    fn with_for_each(&self, sql: &str, params: &[Value]) -> Result<Vec<Vec<Value>>, String> {
        let mut found = Vec::new();
        let read = self.ours().for_each(sql, params_from_iter(params), |row| {
            found.push(row.raw());
            Ok::<(), Error>(())
        });
        read.map_err(|error| error.to_string()).map(|()| found)
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Sql { sql, params, each } => {
                let expected = self.on_plain(sql, params);
                if *each {
                    let rows = self.with_for_each(sql, params);
                    assert_eq!(
                        rows,
                        expected.clone().map(|(_, rows)| rows),
                        "for_each: {sql} {params:?}"
                    );
                } else {
                    assert_eq!(
                        self.with_exec(sql, params),
                        expected,
                        "exec: {sql} {params:?}"
                    );
                }
                if self.plain.is_autocommit() {
                    // SQLite has rolled the transaction back: nothing of it may be acknowledged.
                    self.ours().commit().unwrap_err();
                    self.open_again();
                }
                self.has_fts |= sql.contains("fts5");
                let ddl = ["ALTER", "ANALYZE", "DROP"];
                if ddl.iter().any(|word| sql.starts_with(word))
                    || sql.contains(" AS SELECT ")
                    || (self.has_fts && sql.starts_with("CREATE"))
                {
                    // For SQLite some of these change rows; here `changes()` is not about them.
                    self.on_both("DELETE FROM zero");
                }
                // FTS5 writes its rows later, perhaps while a statement of the engine runs.
                let total = if self.has_fts { "0" } else { "total_changes()" };
                let counts = &format!("SELECT changes(), {total}, last_insert_rowid()");
                assert_eq!(
                    self.with_exec(counts, &[]),
                    self.on_plain(counts, &[]),
                    "after {sql}"
                );
                let kind = match &expected {
                    Ok((_, rows)) if rows.is_empty() => "done",
                    Ok(_) => "rows",
                    Err(_) => "refused",
                };
                *self.seen.entry(kind).or_default() += 1;
            }
            Step::EngineWrites(n) => {
                self.ours().kv_put(&format!("key {n}"), &[1; 50]).unwrap();
                self.ours().kv_delete("none").unwrap();
                let alarm = (n % 3 > 0).then(|| AlarmRow::at(5));
                self.ours()
                    .set_named_alarm(&n.to_string(), alarm.as_ref())
                    .unwrap();
            }
            Step::Commit => {
                let committed = self.plain.execute_batch("COMMIT").map_err(words);
                let ours = self.ours().commit();
                match (committed, ours) {
                    (Ok(()), Ok(_)) => {
                        self.plain.execute_batch("BEGIN").unwrap();
                        // FTS5 writes at the commit.
                        self.on_both("DELETE FROM zero");
                    }
                    (Err(expected), Err(error)) => {
                        assert_eq!(
                            (error.kind(), error.to_string()),
                            (ErrorKind::Input, expected)
                        );
                        *self.seen.entry("refused commit").or_default() += 1;
                        self.plain.execute_batch("ROLLBACK").unwrap();
                        self.open_again();
                    }
                    differ => panic!("COMMIT: {differ:?}"),
                }
            }
            Step::OpenAgain => {
                self.run(&Step::Commit);
                self.plain.execute_batch("ROLLBACK").unwrap();
                self.open_again();
            }
        }
    }

    /// Closes and opens both.
    fn open_again(&mut self) {
        // An object is open once.
        self.ours = None;
        self.ours = Some(common::open(&self.store, 1));
        let bytes = self.plain.serialize(MAIN_DB).unwrap().to_vec();
        let mut opened = plain();
        opened
            .deserialize_read_exact(MAIN_DB, &bytes[..], bytes.len(), false)
            .unwrap();
        configure(&opened);
        opened.execute_batch("BEGIN").unwrap();
        self.plain = opened;
    }

    /// All of both databases.
    fn compare(&mut self) {
        let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema
            WHERE tbl_name NOT LIKE '\\_abide\\_%' ESCAPE '\\' ORDER BY type, name";
        let (_, objects) = self.on_plain(schema, &[]).unwrap();
        assert_eq!(self.with_exec(schema, &[]).unwrap().1, objects);
        for object in &objects {
            let [Value::Text(kind), Value::Text(name), ..] = &object[..] else {
                panic!("{object:?}")
            };
            // FTS5's own tables depend on when it wrote to them.
            if kind == "table" && !name.starts_with("f_") {
                // `ANALYZE` visits the tables in the order of a hash table.
                let order = if name.starts_with("sqlite_stat") {
                    "ORDER BY 1, 2, 3"
                } else {
                    ""
                };
                let sql = format!("SELECT * FROM \"{name}\" {order}");
                assert_eq!(self.with_exec(&sql, &[]), self.on_plain(&sql, &[]), "{sql}");
            }
        }
        for sql in [
            "PRAGMA user_version",
            "PRAGMA integrity_check",
            "PRAGMA foreign_key_check",
        ] {
            // `foreign_key_check` stops at the first table that has an error, in the order of a hash table.
            let kind = |error: String| error.split('"').next().map(str::to_owned);
            assert_eq!(
                self.with_exec(sql, &[]).map_err(kind),
                self.on_plain(sql, &[]).map_err(kind),
                "{sql}"
            );
        }
    }
}

fn live(seed: u64) -> BTreeMap<&'static str, u32> {
    let mut generator = Generator::new(seed);
    let mut pair = Pair::new();
    for _ in 0..120 {
        let step = generator.step();
        println!("{step:?}");
        pair.run(&step);
    }
    pair.compare();
    pair.run(&Step::OpenAgain);
    pair.compare();
    pair.seen
}

#[test]
fn generated_sql_gives_what_plain_sqlite_gives() {
    let seeds = std::env::var("ABIDE_SQL_SEEDS").map_or(60, |n| n.parse().expect("a number"));
    let mut seen = BTreeMap::new();
    for seed in 0..seeds {
        println!("seed {seed}");
        for (kind, count) in live(seed) {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    println!("{seen:?}");
    let all: u32 = seen.values().sum();
    for (kind, at_least) in [("rows", 5), ("done", 5), ("refused", 20)] {
        assert!(seen[kind] >= all / at_least / 2, "{kind}: {seen:?}");
    }
    assert!(seen.contains_key("refused commit"), "{seen:?}");
}
