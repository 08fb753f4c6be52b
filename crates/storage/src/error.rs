//! One error for the crate: a kind that says what the caller can do, and a sentence.

use std::fmt;

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The SQL, a parameter or a name is at fault: fix the call. The statement changed nothing.
    Input,
    /// A documented limit was passed (see [`crate::limits`]): nothing was changed.
    Limit,
    /// A stored value does not decode as the type asked for.
    Decode,
    /// No room for a commit: free disk space and retry. What was acknowledged is safe.
    NoSpace,
    /// The log has failed: nothing can be made durable until the process restarts and recovers.
    LogFailed,
    /// One object's data is damaged; the object is quarantined, others are not affected.
    Damaged,
    /// Another process has the data directory.
    InUse,
    /// The data directory cannot be used as it is; the message says what to do.
    Refused,
    /// The file system answered with an error outside the log.
    Io,
}

/// An error of the storage engine.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// A result of the storage engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, message)
    }

    pub(crate) fn no_space() -> Self {
        Self::new(
            ErrorKind::NoSpace,
            "no space for the commit: free space on the disk of the data directory and try again; nothing acknowledged is lost",
        )
    }

    pub(crate) fn log_failed(why: &str) -> Self {
        Self::new(
            ErrorKind::LogFailed,
            format!(
                "the commit log has failed ({why}): restart the process, it recovers everything acknowledged"
            ),
        )
    }

    /// Wraps an I/O error with what was being done.
    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::NoSpace
            }
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{doing}: {error}"))
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
