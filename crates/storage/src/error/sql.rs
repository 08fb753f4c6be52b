//! Which constraint an SQL statement has violated, for code that acts on it.

use rusqlite::{ErrorCode, ffi};
use serde::{Deserialize, Serialize};

/// Why SQLite rejected a statement, as far as a program acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SqlErrorKind {
    /// A `UNIQUE` constraint, a `UNIQUE` index or a `PRIMARY KEY`: there is such a row already.
    Unique,
    /// A `REFERENCES` constraint: the referenced row is missing, or other rows still reference this one.
    ForeignKey,
    /// A `CHECK` constraint.
    Check,
    /// A `NOT NULL` constraint.
    NotNull,
    /// Something else is using what the statement needs: a table that is being read, or the machine is out of
    /// descriptors.
    Busy,
    /// The object's database has reached its size limit, or the disk is full.
    Full,
    /// Anything else, such as an error of syntax, a wrong type in a `STRICT` table, or `RAISE` in a trigger.
    #[serde(other)]
    Other,
}

/// SQLite's report about a statement that it rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlError {
    kind: SqlErrorKind,
    constraint: Option<String>,
}

impl SqlError {
    /// The constraint that was violated.
    pub fn kind(&self) -> SqlErrorKind {
        self.kind
    }

    /// What SQLite names in its message, if anything:
    ///
    /// - `Unique`: the columns, such as `seats.flight, seats.seat`, or the name of an index on expressions;
    /// - `NotNull`: the column, such as `seats.flight`;
    /// - `Check`: the constraint's name, or its expression if it has none.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// `None` if the error is not SQLite's.
    pub(crate) fn of(error: &rusqlite::Error) -> Option<Self> {
        let code = match error {
            // Statements that cannot be parsed have their own variant.
            rusqlite::Error::SqlInputError { error, .. } => error,
            error => error.sqlite_error()?,
        };
        let kind = match (code.code, code.extended_code) {
            (
                _,
                ffi::SQLITE_CONSTRAINT_UNIQUE
                | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                | ffi::SQLITE_CONSTRAINT_ROWID,
            ) => SqlErrorKind::Unique,
            (_, ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => SqlErrorKind::ForeignKey,
            (_, ffi::SQLITE_CONSTRAINT_CHECK) => SqlErrorKind::Check,
            (_, ffi::SQLITE_CONSTRAINT_NOTNULL) => SqlErrorKind::NotNull,
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => SqlErrorKind::Busy,
            (ErrorCode::DiskFull, _) => SqlErrorKind::Full,
            _ => SqlErrorKind::Other,
        };
        let named = match (kind, error) {
            (
                SqlErrorKind::Unique | SqlErrorKind::Check | SqlErrorKind::NotNull,
                rusqlite::Error::SqliteFailure(_, Some(text)),
            ) => text.split_once(" constraint failed: "),
            _ => None,
        };
        Some(Self {
            kind,
            constraint: named.map(|(_, named)| without_index(named).to_owned()),
        })
    }

    /// The same error with another kind.
    pub(crate) fn with_kind(mut self, kind: SqlErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

/// The name in `index 'name'`.
fn without_index(named: &str) -> &str {
    let quoted = named.strip_prefix("index '");
    quoted
        .and_then(|name| name.strip_suffix('\''))
        .unwrap_or(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    const SCHEMA: &str = "
        PRAGMA foreign_keys = ON;
        CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT UNIQUE, name TEXT NOT NULL CHECK (length(name) < 9),
                            age INTEGER CONSTRAINT adult CHECK (age >= 18));
        CREATE UNIQUE INDEX by_lower_name ON users (lower(name));
        CREATE TABLE seats (flight TEXT, seat TEXT, who INTEGER REFERENCES users, UNIQUE (flight, seat)) STRICT;
        CREATE TRIGGER refused BEFORE DELETE ON seats BEGIN SELECT RAISE(ABORT, 'seats stay'); END;
        INSERT INTO users VALUES (1, 'ada@example.org', 'Ada', 36);
        INSERT INTO seats VALUES ('BA117', '14C', 1);
    ";

    #[track_caller]
    fn refused(sql: &str) -> (SqlErrorKind, Option<String>) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let error = SqlError::of(&connection.execute_batch(sql).unwrap_err()).unwrap();
        (error.kind(), error.constraint().map(str::to_owned))
    }

    #[test]
    fn a_broken_constraint_is_told_with_its_name() {
        use SqlErrorKind::{Check, ForeignKey, NotNull, Other, Unique};
        for (sql, kind, constraint) in [
            (
                "INSERT INTO users VALUES (1, 'b', 'Bea', 20)",
                Unique,
                Some("users.id"),
            ),
            (
                "INSERT INTO users VALUES (2, 'ada@example.org', 'Bea', 20)",
                Unique,
                Some("users.email"),
            ),
            (
                "INSERT INTO users VALUES (2, 'b', 'ADA', 20)",
                Unique,
                Some("by_lower_name"),
            ),
            (
                "INSERT INTO seats VALUES ('BA117', '14C', 1)",
                Unique,
                Some("seats.flight, seats.seat"),
            ),
            (
                "INSERT INTO users VALUES (2, 'b', NULL, 20)",
                NotNull,
                Some("users.name"),
            ),
            (
                "INSERT INTO users VALUES (2, 'b', 'Bea', 7)",
                Check,
                Some("adult"),
            ),
            (
                "INSERT INTO users VALUES (2, 'b', 'Beatrice B', 20)",
                Check,
                Some("length(name) < 9"),
            ),
            (
                "INSERT INTO seats VALUES ('BA117', '15C', 2)",
                ForeignKey,
                None,
            ),
            ("DELETE FROM users", ForeignKey, None),
            ("DELETE FROM seats", Other, None),
            (
                "INSERT INTO seats VALUES ('BA117', '15C', 'Ada')",
                Other,
                None,
            ),
            ("SELEC 1", Other, None),
        ] {
            let told = constraint.map(str::to_owned);
            assert_eq!(refused(sql), (kind, told), "{sql}");
        }
    }

    #[test]
    fn a_full_database_and_a_table_in_use_are_told() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let kind = |sql: &str| {
            let error = connection.execute_batch(sql).unwrap_err();
            SqlError::of(&error).unwrap().kind()
        };
        let mut reading = connection.prepare("SELECT * FROM seats").unwrap();
        let mut rows = reading.query(()).unwrap();
        rows.next().unwrap().unwrap();
        assert_eq!(kind("DROP TABLE seats"), SqlErrorKind::Busy);
        let pages: i64 = connection
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .unwrap();
        connection
            .pragma_update(None, "max_page_count", pages)
            .unwrap();
        assert_eq!(
            kind("INSERT INTO users VALUES (2, zeroblob(100000), 'Bea', 20)"),
            SqlErrorKind::Full
        );
    }
}
