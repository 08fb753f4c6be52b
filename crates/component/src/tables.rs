//! A component's tables in its object's database, and their version.

use abide::{Error, ErrorKind, Result, Sql, Storage};

/// True if the object has a table of this name.
pub fn exists(sql: &Sql, table: &str) -> Result<bool> {
    let known = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    Ok(sql.exec(known, (table,))?.one::<i64>()? > 0)
}

/// Creates the tables if the object has none. One of them, `meta`, has one row, with their version. In a constructor they
/// do not cause the object to be stored.
///
/// # Errors
/// If the existing tables have another version.
pub fn prepare(
    storage: &Storage,
    whose: &str,
    meta: &str,
    version: i64,
    make: impl FnOnce(&Sql) -> Result<()>,
) -> Result<()> {
    let sql = storage.sql();
    if exists(&sql, meta)? {
        let found = sql
            .exec(&format!("SELECT version FROM {meta}"), ())?
            .one()?;
        return check(whose, found, version);
    }
    storage.set_up(|| {
        make(&sql)?;
        let insert = format!("INSERT INTO {meta} (version) VALUES (?1)");
        sql.exec(&insert, (version,)).map(drop)
    })
}

/// The same for tables with waits. The column `set_back` of `meta` is the sum of the wall clock's
/// [steps back](crate::steps_back) with which they are stored.
pub fn prepare_waits(
    storage: &Storage,
    whose: &str,
    meta: &str,
    version: i64,
    make: impl FnOnce(&Sql) -> Result<()>,
) -> Result<()> {
    let is_new = !exists(&storage.sql(), meta)?;
    prepare(storage, whose, meta, version, make)?;
    if !is_new {
        return Ok(());
    }
    let set_back = storage.clock_time().set_back;
    storage.set_up(|| {
        let set = format!("UPDATE {meta} SET set_back = ?1");
        storage.sql().exec(&set, (set_back,)).map(drop)
    })
}

/// Checks the version of existing tables.
///
/// # Errors
/// If the program does not know it.
pub fn check(whose: &str, found: i64, known: i64) -> Result<()> {
    if found == known {
        return Ok(());
    }
    Err(Error::with_kind(
        ErrorKind::Damaged,
        format!(
            "the {whose}'s tables have version {found} and this program knows {known}: run the program that wrote them, or a \
             newer one"
        ),
    ))
}
