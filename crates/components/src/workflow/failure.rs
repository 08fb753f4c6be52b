//! Why a step or a workflow failed.

use std::time::Duration;

use abide::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use super::limits;
use abide_component::{Fault, FaultKind, texts::cut};

/// Why a step, or a whole workflow, failed. It is stored with the instance, and a replay returns the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    kind: FailureKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Duration>,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A later attempt may succeed: the step is retried, as its policy says. It may have had its effect.
    Temporary,
    /// A receiver asks for patience: the step is retried after a pause, and the attempt does not count.
    Throttled,
    /// It will never succeed unchanged: the step is not retried.
    Permanent,
    /// The awaited event did not arrive in time.
    Timeout,
    /// The instance was canceled.
    Canceled,
}

impl Failure {
    /// A later attempt may succeed.
    pub fn temporary(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Temporary, message)
    }

    /// A receiver asks for patience, for this long if it says so: this attempt of the step does not count. Without a time
    /// the wait is 1 s, doubled each time up to 30 s. After a week of it the step has failed.
    pub fn throttled(message: impl Into<String>, after: Option<Duration>) -> Self {
        Self {
            after,
            ..Self::new(FailureKind::Throttled, message)
        }
    }

    /// It will never succeed unchanged.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, message)
    }

    pub(super) fn timeout(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Timeout, message)
    }

    pub(super) fn canceled(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Canceled, message)
    }

    /// Not to be retried before this time has passed (`Retry-After`), at most a day, nor before the policy says.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.after = Some(after);
        self
    }

    /// The kind.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// True if an event did not arrive in time.
    pub fn is_timeout(&self) -> bool {
        self.kind == FailureKind::Timeout
    }

    /// True if the instance was canceled.
    pub fn is_canceled(&self) -> bool {
        self.kind == FailureKind::Canceled
    }

    pub(super) fn after(&self) -> Option<Duration> {
        self.after
    }

    /// The stored form.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(&self.shortened()).unwrap_or_default()
    }

    /// The same, with a message that is not too long to be stored.
    pub(super) fn shortened(&self) -> Self {
        Self {
            message: cut(self.message.clone(), limits::MAX_ERROR_BYTES),
            ..self.clone()
        }
    }

    /// Parses the stored form.
    pub(super) fn from_json(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self::permanent(text))
    }

    fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            after: None,
        }
    }
}

impl From<Error> for Failure {
    /// Errors of the caller are permanent; an overloaded node or object asks for patience; all others are temporary.
    fn from(error: Error) -> Self {
        let message = error.message();
        match error.kind() {
            ErrorKind::Overloaded => Self::throttled(message, error.retry_after()),
            ErrorKind::Input
            | ErrorKind::Limit
            | ErrorKind::Forbidden
            | ErrorKind::Decode
            | ErrorKind::KeyReused
            | ErrorKind::NoResult
            | ErrorKind::NotFound => Self::permanent(message),
            _ => Self::temporary(message),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let kind = match fault.kind {
            FaultKind::NotSent | FaultKind::Throttled => FailureKind::Throttled,
            FaultKind::Refused | FaultKind::Unknown => FailureKind::Temporary,
            FaultKind::Permanent => FailureKind::Permanent,
        };
        Self {
            after: fault.after,
            ..Self::new(kind, fault.text)
        }
    }
}
