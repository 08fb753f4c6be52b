//! The tables of a chain, in its object's database. `docs/format.md` documents them.

use abide::{Ctx, Error, ErrorKind, Result, Sql, Storage};

use abide_component::tables::{TablesSql, check, exists};

const META: &str = "outcomes_meta";

/// The version of the tables, kept in `outcomes_meta`.
const VERSION: i64 = 1;

/// Data is text, so that people can read a chain with any tool.
const DEFINITIONS: &str = "
    CREATE TABLE outcomes (
        seq     INTEGER PRIMARY KEY,
        action  TEXT NOT NULL,
        outcome TEXT NOT NULL,
        version INTEGER NOT NULL,
        data    TEXT NOT NULL,
        ts      INTEGER NOT NULL
    );
    CREATE TABLE outcomes_meta (
        version INTEGER NOT NULL,
        schema  TEXT NOT NULL
    );
";

/// Created with the first snapshot; it can be dropped without loss.
const SNAPSHOT: &str = "
    CREATE TABLE IF NOT EXISTS outcomes_snapshot (
        id       INTEGER PRIMARY KEY CHECK (id = 1),
        seq      INTEGER NOT NULL,
        ts       INTEGER NOT NULL,
        state    TEXT NOT NULL,
        machine  TEXT NOT NULL,
        checksum BLOB NOT NULL
    )
";

/// Creates the tables if the object has none, for the schema of this name.
pub(super) fn open(ctx: &Ctx, schema: &'static str) -> Result<TablesSql> {
    TablesSql::open(ctx, META, move |storage| prepare(storage, schema))
}

fn prepare(storage: &Storage, schema: &str) -> Result<()> {
    let sql = storage.sql();
    if !exists(&sql, META)? {
        return storage.set_up(|| {
            sql.exec(DEFINITIONS, ())?;
            let insert = "INSERT INTO outcomes_meta VALUES (?1, ?2)";
            sql.exec(insert, (VERSION, schema)).map(drop)
        });
    }
    let meta = sql.exec("SELECT version, schema FROM outcomes_meta", ())?;
    let (version, of): (i64, String) = meta.one()?;
    check("chain", version, VERSION)?;
    if of != schema {
        return Err(Error::with_kind(
            ErrorKind::Input,
            format!("the object has a chain of `{of}`, but it is opened as one of `{schema}`"),
        ));
    }
    Ok(())
}

pub(super) fn prepare_snapshot(sql: &Sql) -> Result<()> {
    sql.exec(SNAPSHOT, ()).map(drop)
}

pub(super) fn has_snapshot(sql: &Sql) -> Result<bool> {
    exists(sql, "outcomes_snapshot")
}
