//! A connection and its prepared statements.
//!
//! A program runs the same few texts over and over, usually from the same place in memory. A statement is therefore
//! looked up by the address and the length of its text, and its text is compared; a text that has moved is found by its
//! content. What the engine knows of a statement is kept with it.

use super::text::{self, Write};
use crate::error::Error;
use crate::limits::{MAX_KEPT_SQL_BYTES, STATEMENT_CACHE};
use rusqlite::{Connection, PrepFlags, Statement, StatementStatus};
use self_cell::self_cell;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

self_cell! {
    struct Inner {
        owner: Connection,
        #[not_covariant]
        dependent: Statements,
    }
}

/// A connection that keeps the statements it has prepared.
pub(super) struct Database(Inner);

/// Which statements a text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    User,
    Engine,
}

/// Why a text has no statement.
pub(super) enum Unprepared {
    Refused(Error),
    /// The text has several statements, none of which has been prepared: that alone can have an effect.
    Several,
    Sqlite(rusqlite::Error),
}

/// The statements that are kept, the most recently used [`STATEMENT_CACHE`].
#[derive(Default)]
struct Statements<'c>(RefCell<Table<'c>>);

#[derive(Default)]
struct Table<'c> {
    /// Address and length of the text with which each was last run.
    places: Vec<(usize, usize)>,
    kept: Vec<Rc<Kept<'c>>>,
    uses: u64,
    /// What those kept take.
    bytes: u64,
}

struct Kept<'c> {
    known: Known,
    origin: Origin,
    /// `None` while it runs.
    statement: RefCell<Option<Statement<'c>>>,
    used: Cell<u64>,
    /// What it took with its text when it was first prepared.
    bytes: Cell<u64>,
}

impl Kept<'_> {
    fn new(sql: &str, origin: Origin) -> Self {
        Self {
            known: Known::of(sql),
            origin,
            statement: RefCell::default(),
            used: Cell::default(),
            bytes: Cell::default(),
        }
    }

    /// Returns whether it is kept for the next time.
    fn is_for_keeping(&self) -> bool {
        let text = &self.known.text;
        match self.origin {
            Origin::Engine => true,
            Origin::User => text.len() <= MAX_KEPT_SQL_BYTES && text::can_run_again(text),
        }
    }
}

/// What is known of a statement.
pub(super) struct Known {
    pub(super) text: Box<str>,
    /// What its text says of its writes.
    pub(super) write: Write,
    /// The names of its columns, and how often it had been prepared again when they were read.
    columns: RefCell<Option<(i32, Arc<[String]>)>>,
}

impl Known {
    pub(super) fn of(sql: &str) -> Self {
        Self {
            text: sql.into(),
            write: Write::of(sql),
            columns: RefCell::default(),
        }
    }

    /// The names of the statement's columns.
    ///
    /// Ask after its first step: SQLite prepares a statement again when it is first stepped after a change of the schema, and
    /// `SELECT *` then has other columns.
    pub(super) fn columns(&self, statement: &Statement<'_>) -> Arc<[String]> {
        let prepared = statement.get_status(StatementStatus::RePrepare);
        let mut columns = self.columns.borrow_mut();
        match &*columns {
            Some((then, names)) if *then == prepared => Arc::clone(names),
            _ => {
                let names: Arc<[String]> = match statement.column_count() {
                    0 => Arc::default(),
                    _ => statement.column_names().map(str::to_owned).collect(),
                };
                *columns = Some((prepared, Arc::clone(&names)));
                names
            }
        }
    }
}

impl<'c> Statements<'c> {
    fn find(&self, sql: &str, origin: Origin) -> Option<Rc<Kept<'c>>> {
        let mut table = self.0.borrow_mut();
        let Table {
            places, kept, uses, ..
        } = &mut *table;
        let is_it = |kept: &Kept<'_>| kept.origin == origin && *kept.known.text == *sql;
        let at_place = places.iter().position(|place| *place == place_of(sql));
        let at = at_place
            .filter(|&at| is_it(&kept[at]))
            .or_else(|| kept.iter().position(|kept| is_it(kept)))?;
        places[at] = place_of(sql);
        *uses += 1;
        kept[at].used.set(*uses);
        Some(Rc::clone(&kept[at]))
    }

    fn keep(&self, new: Rc<Kept<'c>>, statement: &Statement<'c>, sql: &str) {
        let mut table = self.0.borrow_mut();
        let Table {
            places,
            kept,
            uses,
            bytes,
        } = &mut *table;
        if kept.len() >= STATEMENT_CACHE {
            let oldest = (0..kept.len()).min_by_key(|&at| kept[at].used.get());
            if let Some(oldest) = oldest {
                places.swap_remove(oldest);
                *bytes -= kept.swap_remove(oldest).bytes.get();
            }
        }
        let prepared = statement.get_status(StatementStatus::MemUsed);
        let taken = sql.len() as u64 + u64::try_from(prepared).unwrap_or(0);
        new.bytes.set(taken);
        *bytes += taken;
        *uses += 1;
        new.used.set(*uses);
        places.push(place_of(sql));
        kept.push(new);
    }
}

/// Address and length of a text.
fn place_of(sql: &str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}

impl Database {
    pub(super) fn new(connection: Connection) -> Self {
        Self(Inner::new(connection, |_| Statements::default()))
    }

    /// Bytes of the statements that are kept, with their texts.
    pub(super) fn statement_bytes(&self) -> u64 {
        self.0
            .with_dependent(|_, statements| statements.0.borrow().bytes)
    }

    /// Runs `f` with the statement of a text, which is kept for the next time, unless its text is long or
    /// [it cannot run again](text::can_run_again). The text of a user is checked if it is new, and must have one statement.
    /// While `f` runs, another use of the same text gets another statement.
    pub(super) fn with<R>(
        &self,
        sql: &str,
        origin: Origin,
        f: impl FnOnce(&mut Statement<'_>, &Known) -> R,
    ) -> Result<R, Unprepared> {
        self.0.with_dependent(|connection, statements| {
            let found = statements.find(sql, origin);
            if found.is_none() && origin == Origin::User {
                text::check(sql).map_err(Unprepared::Refused)?;
                if text::has_several(sql) {
                    return Err(Unprepared::Several);
                }
            }
            let prepared = found.as_ref().and_then(|kept| kept.statement.take());
            let is_new = prepared.is_none();
            let mut statement = match prepared {
                Some(statement) => statement,
                None => connection
                    .prepare_with_flags(sql.trim(), PrepFlags::SQLITE_PREPARE_PERSISTENT)
                    .map_err(Unprepared::Sqlite)?,
            };
            let kept = found.unwrap_or_else(|| {
                let new = Rc::new(Kept::new(sql, origin));
                if new.is_for_keeping() {
                    statements.keep(Rc::clone(&new), &statement, sql);
                }
                new
            });
            if is_new {
                // They may be those of a statement that was prepared before the schema changed.
                kept.known.columns.take();
            }
            let result = f(&mut statement, &kept.known);
            statement.clear_bindings();
            kept.statement.replace(Some(statement));
            Ok(result)
        })
    }
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.borrow_owner()
    }
}
