//! The crate's error type: a kind that says what the caller can do, and a message.

mod failure;
mod sql;

pub(crate) use failure::{Failure, is_without_descriptors};
pub use sql::{SqlError, SqlErrorKind};

use crate::ident::ObjectKey;
use std::{fmt, io};

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The SQL, a parameter or a name is invalid: fix the call. The statement changed nothing.
    Input,
    /// A documented limit was exceeded (see [`crate::limits`]): nothing was changed.
    Limit,
    /// A storage limit was reached, of one object or of all objects: delete something or raise the limit. Nothing was
    /// changed.
    Full,
    /// A stored value does not decode as the requested type.
    Decode,
    /// No space for a commit: free disk space and retry. Everything acknowledged is safe.
    NoSpace,
    /// The machine is temporarily out of descriptors or memory, or the store that has a part of the history alone does not
    /// answer: nothing was changed; retry after a pause.
    Busy,
    /// The log has failed: nothing can be made durable until the process restarts and recovers.
    LogFailed,
    /// The data of one object is damaged, and the object is unavailable until it is repaired
    /// ([`crate::Store::repair`]); or a file of the archive is damaged. Other objects are not affected.
    Damaged,
    /// Another process is using the data directory.
    InUse,
    /// The store does not own the object's shard, or no longer in the generation in which the object was opened: nothing was
    /// committed. Only stores with [`StoreOptions::claims_shards`](crate::StoreOptions::claims_shards) return it.
    Moved,
    /// The data directory cannot be used as it is; the message says what to do.
    Refused,
    /// The file system returned an error outside the log. If it concerned an object's file, only that object is
    /// affected.
    Io,
}

/// An error of the storage engine.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    scope: Scope,
    message: String,
    sql: Option<Box<SqlError>>,
}

impl fmt::Debug for Error {
    /// The message, since a `main` that returns the error prints this; `{:#?}` shows the fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("scope", &self.scope)
            .field("message", &self.message)
            .field("sql", &self.sql)
            .finish()
    }
}

/// What the error affects beyond the failed call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    /// Nothing: the operation was not performed.
    #[default]
    Call,
    /// One object: its file cannot be read or written.
    Object(ObjectKey),
    /// The node: data may be lost, and only a recovery can tell.
    Node,
}

/// A result of the storage engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            scope: Scope::Call,
            message: message.into(),
            sql: None,
        }
    }

    pub(crate) fn with_sql(mut self, sql: Option<SqlError>) -> Self {
        self.sql = sql.map(Box::new);
        self
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn full(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Full, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// Refuses something that has another format than this program reads.
    pub(crate) fn unknown_format(what: impl fmt::Display, found: u32, known: u32) -> Self {
        Self::refused(format!(
            "{what} has format {found}, and this program reads format {known}: use the program that wrote it, or a newer \
             one; nothing was changed"
        ))
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, message)
    }

    pub(crate) fn no_space() -> Self {
        Self::new(
            ErrorKind::NoSpace,
            "no space for the commit: free space on the disk of the data directory and retry; nothing acknowledged is lost",
        )
    }

    pub(crate) fn moved(key: ObjectKey) -> Self {
        let shard = key.shard().get();
        Self::new(
            ErrorKind::Moved,
            format!(
                "the object {key} belongs to shard {shard}, which this node does not own: call it on the node that does; nothing was changed"
            ),
        )
    }

    pub(crate) fn log_failed(why: &str) -> Self {
        Self::new(
            ErrorKind::LogFailed,
            format!(
                "the commit log has failed ({why}): restart the process to recover everything acknowledged"
            ),
        )
    }

    /// Wraps an I/O error with a description of the operation.
    pub(crate) fn io(doing: impl fmt::Display, error: &io::Error) -> Self {
        let kind = match Failure::of(error) {
            Failure::Full => ErrorKind::NoSpace,
            Failure::Passing => ErrorKind::Busy,
            Failure::Lasting => ErrorKind::Io,
        };
        Self::new(kind, format!("{doing}: {error}"))
    }

    /// Adds the operation in which the error happened to its message.
    pub(crate) fn while_doing(self, doing: impl fmt::Display) -> Self {
        Self {
            message: format!("{doing}: {}", self.message),
            ..self
        }
    }

    /// Wraps an I/O error of an object's own file.
    pub(crate) fn of_object(key: ObjectKey, doing: impl fmt::Display, error: &io::Error) -> Self {
        let mut wrapped = Self::io(doing, error);
        if wrapped.kind == ErrorKind::Io {
            wrapped.scope = Scope::Object(key);
        }
        wrapped
    }

    /// The same error, as one that concerns this object alone.
    pub(crate) fn only_of(self, key: ObjectKey) -> Self {
        let scope = Scope::Object(key);
        Self { scope, ..self }
    }

    /// Wraps an error of a sync, or of a rename whose outcome is unknown. It is final for the node: see
    /// [`Self::is_final`].
    pub(crate) fn sync(doing: impl fmt::Display, error: &io::Error) -> Self {
        let (kind, scope) = match Failure::of_sync(error) {
            Failure::Passing => (ErrorKind::Busy, Scope::Call),
            Failure::Full | Failure::Lasting => (ErrorKind::Io, Scope::Node),
        };
        Self {
            kind,
            scope,
            message: format!("{doing}: {error}"),
            sql: None,
        }
    }

    /// Makes the error final, because it cannot be distinguished from a failed sync.
    pub(crate) fn into_final(mut self) -> Self {
        self.kind = ErrorKind::Io;
        self.scope = Scope::Node;
        self
    }

    /// The object whose file cannot be read or written, if that caused the error.
    pub(crate) fn object(&self) -> Option<ObjectKey> {
        match self.scope {
            Scope::Object(key) => Some(key),
            Scope::Call | Scope::Node => None,
        }
    }

    /// Returns whether it is unknown what is durable: the node must stop, and nothing may be retried.
    pub(crate) fn is_final(&self) -> bool {
        self.scope == Scope::Node
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The constraint that a statement violated, if SQLite rejected one.
    pub fn sql(&self) -> Option<&SqlError> {
        self.sql.as_deref()
    }
}
