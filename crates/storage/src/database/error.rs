//! Translates SQLite's errors for users.

use super::text::EMPTY;
use super::{ObjectDb, State};
use crate::error::{Error, ErrorKind, SqlError, SqlErrorKind};
use crate::guard::NO_ATTACH;
use crate::stored::BoundOf;
use crate::vfs;
use rusqlite::ErrorCode;

impl ObjectDb {
    /// Translates an error of SQLite for the user.
    pub(crate) fn sql_error(&self, error: &rusqlite::Error) -> Error {
        let open = [State::Deferred, State::Transaction];
        let loses = open.contains(&self.state.get()) && self.connection.is_autocommit();
        if loses {
            self.state.set(State::Lost);
            self.known_alarms.take();
            // SQLite may have been refused a write while restoring pages.
            self.file.discard();
        }
        let told = self.told_of(error);
        if loses {
            // The error of the SQL that caused it, otherwise the error that SQLite reported.
            let met = (told.kind() != ErrorKind::Input).then(|| told.clone());
            self.lost_to.replace(met);
        }
        told
    }

    fn told_of(&self, error: &rusqlite::Error) -> Error {
        let told = self.worded(error);
        let sql = SqlError::of(error).map(|sql| match told.kind() {
            // SQLite got these from a file operation.
            ErrorKind::NoSpace => sql.with_kind(SqlErrorKind::Full),
            ErrorKind::Busy => sql.with_kind(SqlErrorKind::Busy),
            // It did not fail for lack of space.
            ErrorKind::Input if sql.kind() == SqlErrorKind::Full => {
                sql.with_kind(SqlErrorKind::Other)
            }
            _ => sql,
        });
        told.with_sql(sql)
    }

    fn worded(&self, error: &rusqlite::Error) -> Error {
        if let Some(why) = self.file.take_error() {
            return why;
        }
        if let Some(why) = self.guard.take_refusal() {
            return Error::input(why);
        }
        let temporary = vfs::take_temporary_error();
        if let (
            Some(why),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen),
        ) = (temporary, error.sqlite_error_code())
        {
            return why;
        }
        let text = match error {
            rusqlite::Error::SqliteFailure(_, Some(text)) if text.contains("cannot VACUUM") => {
                NO_ATTACH.to_owned()
            }
            rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            rusqlite::Error::Empty => EMPTY.to_owned(),
            other => other.to_string(),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => Error::limit(format!(
                "{text}: a string, blob or row may have at most {} bytes (storage.max_value_bytes)",
                self.sql_limits().value_bytes
            )),
            Some(ErrorCode::DiskFull) if self.has_exhausted_ids() => Error::input(format!(
                "a table with AUTOINCREMENT has used its largest id, {}, so no row can be inserted without an id",
                i64::MAX
            )),
            Some(ErrorCode::DiskFull) => self.file.refusal(BoundOf::Object),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::damaged(format!(
                "the object's database is damaged: {text}. Restore it from its history with `abide \
                     restore`, or reset it with `abide repair --anew`"
            )),
            Some(ErrorCode::SystemIoFailure) => Error::new(ErrorKind::Io, text),
            _ if text.contains("too many SQL variables")
                || text.contains("variable number must be") =>
            {
                Error::limit(format!(
                    "{text}: a statement may have at most {} bound parameters (storage.max_parameters)",
                    self.sql_limits().parameters
                ))
            }
            _ if text.contains("too many columns") => Error::limit(format!(
                "{text}: a table or result may have at most {} columns (storage.max_columns)",
                self.sql_limits().columns
            )),
            _ => Error::input(text),
        }
    }

    /// Returns whether `AUTOINCREMENT` has run out of ids in a table: SQLite then reports that the database is full. The
    /// row with the last id may have been in the transaction that SQLite has just rolled back.
    fn has_exhausted_ids(&self) -> bool {
        if self.connection.last_insert_rowid() == i64::MAX {
            return true;
        }
        let sequences = "SELECT seq FROM sqlite_sequence WHERE seq = 9223372036854775807";
        self.guard.trusted(|| {
            // The table exists if there ever was such a table.
            let statement = self.connection.prepare(sequences);
            statement.is_ok_and(|mut statement| statement.exists(()).unwrap_or(false))
        })
    }

    /// The error for a lost transaction: nothing written in this poll is kept, and nothing more can be written.
    pub(super) fn lost(&self) -> Error {
        self.lost_to.borrow().clone().unwrap_or_else(|| {
            Error::input(
                "SQLite rolled the transaction back (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), or out of memory): none of its writes were \
                 kept, and nothing more can be written in this poll",
            )
        })
    }
}
