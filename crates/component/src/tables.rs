//! A component's tables in its object's database, and their version.

use std::{cell::Cell, fmt, rc::Rc};

use abide::{Ctx, Error, ErrorKind, Params, Result, Rows, Sql, Storage};

/// The SQL of a component whose object may [delete everything](Storage::delete_all): the next statement creates the tables
/// again. Clones are the same.
#[derive(Clone)]
pub struct TablesSql(Rc<Inner>);

type Prepare = Box<dyn Fn(&Storage) -> Result<()>>;

struct Inner {
    sql: Sql,
    storage: Storage,
    meta: &'static str,
    prepare: Prepare,
    /// Whether the tables may be gone.
    may_lack: Cell<bool>,
}

impl TablesSql {
    /// Calls `prepare`, which creates the tables unless they exist, as [`prepare`] does. `meta` is one of them. Call it in
    /// the object's constructor.
    ///
    /// # Errors
    /// Those of `prepare`.
    pub fn open(
        ctx: &Ctx,
        meta: &'static str,
        prepare: impl Fn(&Storage) -> Result<()> + 'static,
    ) -> Result<Self> {
        prepare(ctx.storage())?;
        let inner = Rc::new(Inner {
            sql: ctx.sql(),
            storage: ctx.storage().clone(),
            meta,
            prepare: Box::new(prepare),
            may_lack: Cell::new(false),
        });
        let deleted = Rc::clone(&inner);
        ctx.on_delete_all(move || deleted.may_lack.set(true));
        Ok(Self(inner))
    }

    /// False if the tables are gone. Call it when earlier transactions are complete, as a turn of a
    /// [worker](crate::worker) does first.
    pub fn are_there(&self) -> Result<bool> {
        if self.0.may_lack.get() {
            self.0.may_lack.set(!exists(&self.0.sql, self.0.meta)?);
        }
        Ok(!self.0.may_lack.get())
    }

    /// The object's SQL. The tables exist.
    pub fn get(&self) -> Result<&Sql> {
        if self.0.may_lack.get() {
            (self.0.prepare)(&self.0.storage)?;
        }
        Ok(&self.0.sql)
    }

    /// Executes a statement: [`Sql::exec`].
    pub fn exec(&self, sql: &str, params: impl Params) -> Result<Rows> {
        self.get()?.exec(sql, params)
    }
}

impl fmt::Debug for TablesSql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TablesSql")
            .field("meta", &self.0.meta)
            .field("may_lack", &self.0.may_lack)
            .finish_non_exhaustive()
    }
}

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
