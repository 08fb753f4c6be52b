//! SQL on an object's own database.

use std::{fmt, rc::Rc};

use abide_storage::Params;

use crate::{
    Result, Row, Rows,
    object::{Confirmation, Object},
};

/// The SQLite database of one object. Clones are cheap and share the same database.
#[derive(Clone)]
pub struct Sql {
    object: Rc<Object>,
}

impl Sql {
    pub(crate) fn new(object: Rc<Object>) -> Self {
        Self { object }
    }

    /// Runs a statement, or several separated by semicolons, and returns the rows of the last. They run one after the other,
    /// up to the first error; only one of them may have parameters.
    ///
    /// Transactions need no statement: all writes between two awaits form one. `BEGIN` and related statements are
    /// rejected; [`Storage::transaction`](crate::Storage::transaction) rolls back on errors.
    pub fn exec(&self, sql: &str, params: impl Params) -> Result<Rows> {
        self.object
            .write(Confirmation::Confirmed, |db| db.exec(sql, params))
            .map(abide_storage::Rows::with_errors)
    }

    /// Runs one statement and passes its rows to `row` one by one, without collecting them. An error of `row` ends it.
    pub fn for_each(
        &self,
        sql: &str,
        params: impl Params,
        row: impl FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.object
            .with_db(Confirmation::Confirmed, |db| db.for_each(sql, params, row))?
    }

    /// The size of the database in bytes.
    pub fn database_size(&self) -> Result<u64> {
        self.object.read(abide_storage::ObjectDb::database_size)
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sql")
            .field("object", &self.object.id)
            .finish_non_exhaustive()
    }
}
