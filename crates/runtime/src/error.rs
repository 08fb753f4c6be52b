//! The one error type that objects return and callers receive.
//!
//! Its [`ErrorKind`] says what went wrong; its flags say what the caller can do. It is a serde value, so that
//! an RPC method may return `Result<T, abide::Error>`: what arrives is the same error with
//! [`remote`](Error::remote) set.

use std::{borrow::Cow, fmt, time::Duration};

use abide_storage::{MemoryBudget, SqlError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, coarsely enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The object's own code says no.
    Application,
    /// What the caller passed is at fault: an id, SQL, an argument. Nothing changed.
    Input,
    /// A documented limit was passed. Nothing changed.
    Limit,
    /// A rule of the node forbids it. Nothing was sent.
    Forbidden,
    /// Bytes do not decode as the type that was asked for.
    Decode,
    /// The call would wait for itself behind a gate that its caller has closed. It did not run.
    Deadlock,
    /// A call with the same idempotency key still runs. This one did not.
    InProgress,
    /// The idempotency key belongs to another call. This one did not run.
    KeyReused,
    /// The call was applied, and its result cannot be had: the caller's encoding has no form for it, or it is too large.
    /// Calling again would apply it again.
    NoResult,
    /// There is no such binding, method or handler.
    NotFound,
    /// Too much waits at the object or its worker, or for the HTTP client, or the machine is out of descriptors or memory.
    /// The call was not taken: try again after a pause.
    Overloaded,
    /// The object was reset (panic, abort, failed constructor…) before it answered. Its storage is as of
    /// its last completed poll.
    Reset,
    /// A time limit was passed. If it was a handler's, its object was reset: `object_reset` says so.
    Timeout,
    /// The disk is full: what the poll wrote is lost, what was acknowledged is not.
    NoSpace,
    /// A bound of stored bytes was reached, of the object (`storage.max_object_bytes`) or of all objects
    /// (`storage.max_bytes`): delete something, or raise the bound. The write changed nothing.
    StorageFull,
    /// Whoever has asked has made as many objects as it may for now: [`Error::retry_after`] says when to try again. What the
    /// poll wrote is lost.
    TooManyCreated,
    /// The node is stopping or its log has failed: another node, or this one after a restart, can answer. Or the
    /// server that a request was for cannot be reached.
    Unavailable,
    /// The object's stored data is damaged, and it is refused until it is [repaired](crate::Node::repair); other objects are
    /// not affected.
    Damaged,
    /// The operating system refused something.
    Io,
}

/// An error of an object or of the way to it.
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
    #[serde(skip)]
    origin: Origin,
}

/// Who says so, as seen from whoever holds the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    /// Whoever holds it, or the way to the object.
    #[default]
    Here,
    /// The object's own code.
    Object,
    /// The object's class, about a call that fits no method, or a result that cannot be sent: an error of the way
    /// for whoever made the call.
    Call,
}

impl Error {
    /// An error of the object's own making.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::with_kind(ErrorKind::Application, message)
    }

    /// An error of the object's own making that carries another error's text.
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
            origin: Origin::Here,
        }))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Which rule an SQL statement has broken, if SQLite refused one.
    ///
    /// ```
    /// use abide_runtime::{Result, Sql};
    /// use abide_storage::SqlErrorKind;
    ///
    /// /// False if somebody has the seat.
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

    /// The text alone.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn into_message(self) -> Cow<'static, str> {
        self.0.message
    }

    /// True if the event never ran, so that sending it again cannot apply it twice.
    pub fn retryable(&self) -> bool {
        self.0.retryable
    }

    /// True if the object or its worker has too much to do: pause before trying again.
    pub fn overloaded(&self) -> bool {
        self.0.kind == ErrorKind::Overloaded && !self.remote()
    }

    /// True if the object lost its memory while the event waited or ran. The next call starts it anew.
    pub fn object_reset(&self) -> bool {
        self.0.object_reset
    }

    /// True if the object's own code returned this error; false if it arose on the way to the object.
    pub fn remote(&self) -> bool {
        self.0.origin == Origin::Object
    }

    /// What the caller of an object is told of an error that the object's class returned.
    pub(crate) fn into_remote(mut self) -> Self {
        if self.0.origin == Origin::Call {
            self.0.origin = Origin::Here;
            return self;
        }
        self.0.origin = Origin::Object;
        // These speak of an event that the object sent, not of the one that it answers: that one has run.
        self.0.retryable = false;
        self.0.object_reset = false;
        self
    }

    /// The class did not get as far as the object's own code, or back: for its caller this is an error of the way.
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
        self
    }

    pub(crate) fn into_reset(mut self) -> Self {
        self.0.object_reset = true;
        self
    }

    /// How long to wait before another attempt can succeed, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
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

    pub(crate) fn stopping() -> Self {
        Self::with_kind(
            ErrorKind::Unavailable,
            "the node is stopping; call again when it is back",
        )
    }

    pub(crate) fn log_failed() -> Self {
        let mut error = Self::with_kind(
            ErrorKind::Unavailable,
            "the node's log has failed, so nothing more can be made durable; restart the node to recover",
        );
        // What waited for the log may have run, and part of it may be found durable by recovery.
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
    /// The sentence, since that is what a `main` that returns the error prints; `{:#?}` has the fields.
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
            // Out of descriptors or memory: another moment is what helps.
            Storage::Busy => ErrorKind::Overloaded,
            Storage::LogFailed => return Self::log_failed(),
            Storage::Damaged => ErrorKind::Damaged,
            Storage::Refused | Storage::InUse => ErrorKind::Unavailable,
            _ => ErrorKind::Io,
        };
        let mut told = Self::with_kind(kind, error.to_string());
        told.0.sql = error.sql().cloned().map(Box::new);
        told
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
    fn a_reset_error_is_not_retryable_unless_the_event_never_ran() {
        let error = Error::with_kind(ErrorKind::Reset, "gone");
        assert!(error.object_reset() && !error.retryable());
        assert!(error.into_retryable().retryable());
    }
}
