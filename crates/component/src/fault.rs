//! What a failed attempt means for the next one.

use std::{fmt, time::Duration};

use abide::{Error, ErrorKind, http::StatusCode};

use crate::answer::Answer;

/// Why an attempt failed, as every component reads a response or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it means for the next attempt.
    pub kind: FaultKind,
    /// What went wrong.
    pub text: String,
    /// The pause that the receiver asks for (`Retry-After`).
    pub after: Option<Duration>,
}

/// What a failed attempt means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing was sent, because this node is overloaded: this was no attempt.
    NotSent,
    /// The receiver is up and asks for patience: this was no attempt.
    Throttled,
    /// The attempt had no effect, and a later one may succeed.
    Refused,
    /// The attempt may have had its effect, and a later one may succeed.
    Unknown,
    /// No attempt will succeed.
    Permanent,
}

impl FaultKind {
    /// True if the attempt does not count.
    pub fn is_no_attempt(self) -> bool {
        matches!(self, Self::NotSent | Self::Throttled)
    }
}

impl Fault {
    /// The fault of an unsuccessful response.
    pub fn of_answer(answer: &Answer) -> Self {
        let kind = match answer.status {
            StatusCode::TOO_MANY_REQUESTS => FaultKind::Throttled,
            StatusCode::SERVICE_UNAVAILABLE if answer.after.is_some() => FaultKind::Throttled,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => FaultKind::Refused,
            // The receiver may have failed after it had done its work, and a gateway cannot know.
            status if status.is_server_error() => FaultKind::Unknown,
            _ => FaultKind::Permanent,
        };
        Self {
            kind,
            text: answer.text(),
            after: answer.after,
        }
    }

    /// The fault of an error of the HTTP client.
    pub fn of_error(error: &Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Overloaded => FaultKind::NotSent,
            ErrorKind::Unavailable => FaultKind::Refused,
            ErrorKind::Forbidden | ErrorKind::Input | ErrorKind::Limit | ErrorKind::NotFound => {
                FaultKind::Permanent
            }
            _ => FaultKind::Unknown,
        };
        Self {
            kind,
            text: error.message().to_owned(),
            after: error.retry_after(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}
