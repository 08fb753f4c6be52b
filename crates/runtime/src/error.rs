//! The one error type that objects return and callers receive.
//!
//! Its [`ErrorKind`] says what went wrong; its flags say what the caller can do. It implements serde's traits, so an
//! RPC method may return `Result<T, abide::Error>`: the caller receives the same error with [`remote`](Error::remote)
//! set.

use std::{borrow::Cow, fmt, time::Duration};

use abide_storage::{MemoryBudget, SqlError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A result with [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The category of an error, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The object's own code returned an error.
    Application,
    /// The caller passed an invalid id, SQL or argument. Nothing changed.
    Input,
    /// A documented limit was exceeded. Nothing changed.
    Limit,
    /// A rule of the node forbids the request. Nothing was sent.
    Forbidden,
    /// Bytes do not decode as the requested type.
    Decode,
    /// The call would wait for itself behind a gate that its caller has closed. It did not run.
    Deadlock,
    /// A call with the same idempotency key is still running. This one did not run.
    InProgress,
    /// The idempotency key belongs to another call. This one did not run.
    KeyReused,
    /// The call was applied, but its result is unavailable: the caller's encoding cannot represent it, or it is too
    /// large. Calling again would apply it again.
    NoResult,
    /// There is no such binding, method or handler.
    NotFound,
    /// Too much is queued at the object or its worker, or for the HTTP client, or the machine is out of descriptors or
    /// memory. The call was not accepted: retry after a pause.
    Overloaded,
    /// The object was reset (panic, abort, failed constructor…) before it answered. Its storage has the state of its
    /// last completed poll.
    Reset,
    /// A time limit was exceeded. If it was a handler's, its object was reset: `object_reset` is set.
    Timeout,
    /// The disk is full: the poll's writes are lost, acknowledged ones are not.
    NoSpace,
    /// A storage limit was reached, of the object (`storage.max_object_bytes`) or of all objects (`storage.max_bytes`):
    /// delete something, or raise the limit. The write changed nothing.
    StorageFull,
    /// The client has created as many objects as it may for now: [`Error::retry_after`] says when to retry. The poll's
    /// writes are lost.
    TooManyCreated,
    /// The node is stopping or its log has failed: another node, or this one after a restart, can answer. Or the server
    /// that a request was sent to cannot be reached.
    Unavailable,
    /// The object's stored data is damaged, and it is unavailable until it is [repaired](crate::Node::repair); other
    /// objects are not affected.
    Damaged,
    /// An operating system error.
    Io,
}

/// An error of an object or of the transport to it.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone, Serialize, Deserialize)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    retryable: bool,
    object_reset: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sql: Option<Box<SqlError>>,
    retry_after: Option<Duration>,
    /// Another node has the object: its URL, or empty if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elsewhere: Option<Box<str>>,
    /// What operators see besides the message. It is sent to no caller.
    #[serde(skip)]
    detail: Option<Box<str>>,
    #[serde(skip)]
    origin: Origin,
}

/// Where the error originated, as seen from its holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    /// Its holder, or the transport to the object.
    #[default]
    Here,
    /// The object's own code.
    Object,
    /// The object's class, for a call that matches no method, or a result that cannot be sent: a transport error for
    /// the caller.
    Call,
}

impl Error {
    /// An error of the object's own code.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::with_kind(ErrorKind::Application, message)
    }

    /// An error of the object's own code with another error's text.
    pub fn from_std(error: impl std::error::Error) -> Self {
        Self::new(error.to_string())
    }

    /// An error of the given kind; its flags follow from the kind.
    pub fn with_kind(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            retryable: matches!(
                kind,
                ErrorKind::Overloaded | ErrorKind::Unavailable | ErrorKind::InProgress
            ),
            object_reset: matches!(kind, ErrorKind::Reset | ErrorKind::NoSpace),
            sql: None,
            retry_after: None,
            elsewhere: None,
            detail: None,
            origin: Origin::Here,
        }))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The constraint that a statement violated, if SQLite rejected one.
    ///
    /// ```
    /// use abide_runtime::{Result, Sql};
    /// use abide_storage::SqlErrorKind;
    ///
    /// /// Returns false if the seat is taken.
    /// fn take(sql: &Sql, seat: &str, who: &str) -> Result<bool> {
    ///     match sql.exec("INSERT INTO seats (seat, occupant) VALUES (?1, ?2)", (seat, who)) {
    ///         Err(error) if error.sql().is_some_and(|sql| sql.kind() == SqlErrorKind::Unique) => Ok(false),
    ///         done => done.map(|_| true),
    ///     }
    /// }
    /// ```
    pub fn sql(&self) -> Option<&SqlError> {
        self.0.sql.as_deref()
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message with the detail that only operators see.
    pub(crate) fn for_operators(&self) -> Cow<'_, str> {
        match &self.0.detail {
            Some(detail) => Cow::Owned(format!("{}: {detail}", self.0.message)),
            None => Cow::Borrowed(&self.0.message),
        }
    }

    /// The object's code panicked with this text. Callers do not get the text: it may contain anything.
    pub(crate) fn panicked(text: &str) -> Self {
        let mut error = Self::with_kind(
            ErrorKind::Reset,
            "the object panicked and was reset; the log has the details",
        );
        error.0.detail = Some(text.into());
        error
    }

    pub(crate) fn into_message(self) -> Cow<'static, str> {
        self.0.message
    }

    /// Returns whether the event never ran, so that sending it again cannot apply it twice.
    pub fn retryable(&self) -> bool {
        self.0.retryable
    }

    /// Returns whether the object or its worker is overloaded: pause before retrying.
    pub fn overloaded(&self) -> bool {
        self.0.kind == ErrorKind::Overloaded && !self.remote()
    }

    /// Returns whether the object lost its memory while the event waited or ran. The next call starts it again.
    pub fn object_reset(&self) -> bool {
        self.0.object_reset
    }

    /// Returns whether the object's own code returned this error; false if it arose in the transport to the object.
    pub fn remote(&self) -> bool {
        self.0.origin == Origin::Object
    }

    /// The error as the caller of an object sees it, if the object's class returned it.
    pub(crate) fn into_remote(mut self) -> Self {
        if self.0.origin == Origin::Call {
            self.0.origin = Origin::Here;
            return self;
        }
        self.0.origin = Origin::Object;
        // These flags describe an event that the object sent, not the one that it answers: that one has run.
        self.0.retryable = false;
        self.0.object_reset = false;
        self.0.elsewhere = None;
        self
    }

    /// The call did not reach the object's own code, or its result did not return: for the caller this is a transport
    /// error.
    pub(crate) fn of_call(mut self) -> Self {
        self.0.origin = Origin::Call;
        self
    }

    pub(crate) fn into_retryable(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    /// The event may have run.
    pub(crate) fn into_maybe_ran(mut self) -> Self {
        self.0.retryable = false;
        self.0.elsewhere = None;
        self
    }

    pub(crate) fn into_reset(mut self) -> Self {
        self.0.object_reset = true;
        self
    }

    /// How long to wait before another attempt can succeed, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether another node of the cluster has the object. The call did not run.
    pub fn is_elsewhere(&self) -> bool {
        self.0.elsewhere.is_some()
    }

    /// The URL of the node that has the object, if another one has it and it is known. Not while it is being taken over.
    pub fn owner(&self) -> Option<&str> {
        self.0.elsewhere.as_deref().filter(|url| !url.is_empty())
    }

    pub(crate) fn with_owner(mut self, url: String) -> Self {
        self.0.elsewhere = Some(url.into());
        self
    }

    pub(crate) fn too_many_created(why: String, wait: Duration) -> Self {
        let mut error = Self::with_kind(ErrorKind::TooManyCreated, why);
        error.0.retry_after = Some(wait);
        error
    }

    pub(crate) fn overloaded_object() -> Self {
        Self::with_kind(
            ErrorKind::Overloaded,
            "Durable Object is overloaded. Too many requests queued.",
        )
    }

    pub(crate) fn out_of_memory(budget: &MemoryBudget) -> Self {
        Self::with_kind(
            ErrorKind::Overloaded,
            format!(
                "the node's memory budget is used up ({} of {} bytes): try again in a moment",
                budget.used(),
                budget.limit()
            ),
        )
    }

    /// There was no answer within the caller's time limit.
    pub(crate) fn out_of_time() -> Self {
        Self::with_kind(
            ErrorKind::Timeout,
            "the object did not answer within the time limit of the call",
        )
    }

    pub(crate) fn stopping() -> Self {
        Self::with_kind(
            ErrorKind::Unavailable,
            "the node is stopping; retry after its restart",
        )
    }

    pub(crate) fn log_failed() -> Self {
        let mut error = Self::with_kind(
            ErrorKind::Unavailable,
            "the node's log has failed, so nothing more can become durable; restart the node to recover",
        );
        // Calls that waited for the log may have run, and recovery may find a part of them durable.
        error.0.retryable = false;
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    /// The message, since a `main` that returns the error prints this; `{:#?}` shows the fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind)
            .field("message", &self.0.message);
        for (name, set) in [
            ("retryable", self.0.retryable),
            ("object_reset", self.0.object_reset),
            ("remote", self.remote()),
        ] {
            if set {
                out.field(name, &true);
            }
        }
        if let Some(sql) = &self.0.sql {
            out.field("sql", sql);
        }
        out.finish()
    }
}

impl PartialEq for Error {
    /// Compares what a caller sees: the kind, the message, the flags and SQLite's report.
    fn eq(&self, other: &Self) -> bool {
        let seen = |error: &Self| {
            (
                error.kind(),
                error.remote(),
                error.0.retryable,
                error.0.object_reset,
                error.0.retry_after,
            )
        };
        seen(self) == seen(other) && self.0.message == other.0.message && self.0.sql == other.0.sql
    }
}

impl Eq for Error {}

impl std::error::Error for Error {}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Self(Box::new(Inner::deserialize(deserializer)?)).into_remote())
    }
}

impl From<abide_storage::Error> for Error {
    fn from(error: abide_storage::Error) -> Self {
        use abide_storage::ErrorKind as Storage;
        let kind = match error.kind() {
            Storage::Input => ErrorKind::Input,
            Storage::Limit => ErrorKind::Limit,
            Storage::Decode => ErrorKind::Decode,
            Storage::NoSpace => ErrorKind::NoSpace,
            Storage::Full => ErrorKind::StorageFull,
            // Out of descriptors or memory: retrying later helps.
            Storage::Busy => ErrorKind::Overloaded,
            Storage::LogFailed => return Self::log_failed(),
            Storage::Damaged => ErrorKind::Damaged,
            Storage::Refused | Storage::InUse | Storage::Moved => ErrorKind::Unavailable,
            _ => ErrorKind::Io,
        };
        let mut told = Self::with_kind(kind, error.to_string());
        if error.kind() == Storage::Moved {
            told.0.elsewhere = Some("".into());
        }
        told.0.sql = error.sql().cloned().map(Box::new);
        told
    }
}

impl From<Error> for String {
    /// The message, for methods whose own error is a text.
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::with_kind(ErrorKind::Io, error.to_string())
    }
}

impl From<http::Error> for Error {
    fn from(error: http::Error) -> Self {
        Self::with_kind(ErrorKind::Input, error.to_string())
    }
}

impl From<axum_core::Error> for Error {
    fn from(error: axum_core::Error) -> Self {
        Self::with_kind(ErrorKind::Io, format!("reading the body failed: {error}"))
    }
}

impl From<std::fmt::Error> for Error {
    fn from(error: std::fmt::Error) -> Self {
        Self::from_std(error)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<&'static str> for Error {
    fn from(message: &'static str) -> Self {
        Self::new(message)
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_error_has_the_documented_text_and_may_be_retried() {
        let error = Error::overloaded_object();
        assert_eq!(
            error.to_string(),
            "Durable Object is overloaded. Too many requests queued."
        );
        assert!(
            error.overloaded() && error.retryable() && !error.object_reset() && !error.remote()
        );
    }

    #[test]
    fn a_main_that_returns_an_error_prints_its_sentence() {
        let error = Error::with_kind(ErrorKind::NotFound, "there is no such seat");
        assert_eq!(format!("{error:?}"), "there is no such seat");
        assert!(format!("{error:#?}").contains("NotFound"));
    }

    #[test]
    fn the_text_of_a_panic_is_for_operators_alone() {
        let error = Error::panicked("a secret");
        assert!(error.for_operators().contains("a secret"));
        let shown = [
            error.to_string(),
            format!("{error:#?}"),
            serde_json::to_string(&error).unwrap(),
        ];
        assert!(
            shown.iter().all(|text| !text.contains("secret")),
            "{shown:?}"
        );
        let read: Error = serde_json::from_str(&shown[2]).unwrap();
        assert_eq!(read.for_operators(), error.message());
    }

    #[test]
    fn a_reset_error_is_not_retryable_unless_the_event_never_ran() {
        let error = Error::with_kind(ErrorKind::Reset, "gone");
        assert!(error.object_reset() && !error.retryable());
        assert!(error.into_retryable().retryable());
    }
}
