//! Why an attempt failed, and what that means for the next one.

use std::{fmt, time::Duration};

use abide::{Error, ErrorKind, http};
use serde::{Deserialize, Serialize};

/// Why an attempt failed: of an outbox's handler, of a timer, or of a workflow's step.
///
/// Errors of calls and of the HTTP client convert into it with `?`: [`From<Error>`](Failure::from).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    kind: FailureKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Duration>,
    /// Whether the attempt may have had its effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    after_effect: bool,
    /// Whether the receiver repeats the failure under the same idempotency key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    remembered: bool,
}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// Nothing was sent, because this node is overloaded: this was no attempt.
    NotSent,
    /// The receiver is up and asks for patience: this was no attempt.
    Throttled,
    /// The attempt had no effect, and a later one may succeed.
    Refused,
    /// The attempt may have had its effect, and a later one may succeed.
    Temporary,
    /// As [`Temporary`](Self::Temporary): this side was interrupted before the response arrived, so the receiver is not at
    /// fault.
    CutOff,
    /// No attempt will succeed.
    Permanent,
    /// What a workflow waited for did not arrive in time.
    Timeout,
    /// The workflow was canceled.
    Canceled,
}

impl FailureKind {
    /// True if the attempt does not count.
    pub fn is_no_attempt(self) -> bool {
        matches!(self, Self::NotSent | Self::Throttled)
    }

    /// True if a later attempt may succeed.
    pub fn is_retried(self) -> bool {
        !matches!(self, Self::Permanent | Self::Timeout | Self::Canceled)
    }
}

impl Failure {
    /// The attempt failed, and may have had its effect: it is repeated, by an outbox with the same idempotency key.
    pub fn temporary(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Temporary, message)
    }

    /// The receiver could not accept it now, and it had no effect: the attempt is repeated.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, message)
    }

    /// The receiver asks for patience, for this long if it says so: the attempt is repeated, and does not count. An outbox
    /// sends nothing to the destination meanwhile. A timer or a step waits for 1 s without a time, doubled each time up to
    /// 30 s, and has failed after a week of it.
    pub fn throttled(message: impl Into<String>, after: Option<Duration>) -> Self {
        Self::new(FailureKind::Throttled, message).retry_after(after)
    }

    /// It cannot succeed unchanged: no other attempt is made. A message becomes a dead letter at once, and is redriven with
    /// a new idempotency key unless it is [after its effect](Self::after_effect).
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, message)
    }

    /// Nothing was sent, because this node is overloaded: the attempt is repeated soon, and does not count.
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotSent, message)
    }

    /// The attempt was dropped with its task, its object or the process: it may have had its effect, or ended the process.
    pub fn cut_off() -> Self {
        Self::new(
            FailureKind::CutOff,
            "the object or its process stopped before the response arrived",
        )
    }

    /// A failure of a kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            after: None,
            after_effect: matches!(
                kind,
                FailureKind::Temporary | FailureKind::CutOff | FailureKind::Timeout
            ),
            remembered: false,
        }
    }

    /// No attempt is made before this time has passed (`Retry-After`), at most a day, nor before the policy says. An outbox
    /// sends nothing to the destination meanwhile.
    #[must_use]
    pub fn retry_after(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.after = after.into();
        self
    }

    /// For an outbox: the message may have had its effect, although the failure is permanent. Its dead letter is `unknown`,
    /// and is redriven with the same idempotency key.
    #[must_use]
    pub fn after_effect(mut self) -> Self {
        self.after_effect = true;
        self
    }

    /// For an outbox: the receiver repeats the failure under the same idempotency key, while no attempt with the key had an
    /// effect. The next attempt has a new key.
    #[must_use]
    pub fn remembered(mut self) -> Self {
        self.remembered = true;
        self
    }

    /// The same failure with another message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// What it means for the next attempt.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The pause that the receiver asked for.
    pub fn after(&self) -> Option<Duration> {
        self.after
    }

    /// True if the attempt may have had its effect.
    pub fn is_after_effect(&self) -> bool {
        self.after_effect
    }

    /// True if the receiver repeats it under the same idempotency key.
    pub fn is_remembered(&self) -> bool {
        self.remembered
    }

    /// True if no attempt will succeed.
    pub fn is_permanent(&self) -> bool {
        self.kind == FailureKind::Permanent
    }

    /// True if what a workflow waited for did not arrive in time.
    pub fn is_timeout(&self) -> bool {
        self.kind == FailureKind::Timeout
    }

    /// True if the workflow was canceled.
    pub fn is_canceled(&self) -> bool {
        self.kind == FailureKind::Canceled
    }
}

impl From<Error> for Failure {
    /// | Error | Failure |
    /// |---|---|
    /// | `Overloaded` | not sent |
    /// | `Unavailable` | refused |
    /// | `Input`, `Limit`, `Forbidden`, `NotFound`, `KeyReused` | permanent |
    /// | `Decode`, `NoResult` | permanent, after its effect |
    /// | others | temporary |
    fn from(error: Error) -> Self {
        let message = error.message();
        let failure = match error.kind() {
            ErrorKind::Overloaded => Self::not_sent(message),
            ErrorKind::Unavailable => Self::refused(message),
            ErrorKind::Input
            | ErrorKind::Limit
            | ErrorKind::Forbidden
            | ErrorKind::NotFound
            | ErrorKind::KeyReused => Self::permanent(message),
            ErrorKind::Decode | ErrorKind::NoResult => Self::permanent(message).after_effect(),
            _ => Self::temporary(message),
        };
        failure.retry_after(error.retry_after())
    }
}

impl From<http::Error> for Failure {
    /// A request that cannot be built: permanent.
    fn from(error: http::Error) -> Self {
        Self::permanent(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    /// A value that has no JSON form, or a text of another shape: permanent.
    fn from(error: serde_json::Error) -> Self {
        Self::permanent(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
