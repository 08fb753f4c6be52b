//! Interprets the response to an attempt.

use std::ops::Deref;

use abide::{Error, ErrorKind, Request, http::StatusCode};
use abide_component::answer::{self, fetch};

pub(super) use answer::End;

use crate::{Delivery, Failure, FailureKind};

/// A receiver's response to an attempt.
pub(super) struct Answer {
    answer: answer::Answer,
    /// Whether the attempt repeats one whose response was lost.
    repeated: bool,
}

impl Deref for Answer {
    type Target = answer::Answer;

    fn deref(&self) -> &answer::Answer {
        &self.answer
    }
}

/// Sends a message's request and reads the response.
pub(super) async fn send(delivery: &Delivery, request: Request) -> Result<Answer, Failure> {
    let answer = fetch(delivery.env(), request).await;
    Ok(Answer {
        answer: answer.map_err(|error| failure(&error))?,
        repeated: delivery.unknown(),
    })
}

impl Answer {
    /// The failure that an unsuccessful response means.
    pub(super) fn failure(&self) -> Failure {
        let (status, after) = (self.status, self.after);
        let error = self.text();
        match status {
            StatusCode::TOO_MANY_REQUESTS => Failure::throttled(error, after),
            StatusCode::SERVICE_UNAVAILABLE if after.is_some() => Failure::throttled(error, after),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
                Failure::refused(error).retry_after(after)
            }
            // The receiver may have failed after it had done its work, and a gateway cannot know.
            _ if status.is_server_error() => Failure::unknown(error).retry_after(after),
            // The attempt whose response was lost may still be running there.
            StatusCode::CONFLICT if self.repeated => Failure::unknown(error).retry_after(after),
            _ => Failure::permanent(error),
        }
    }

    /// The same, for a receiver that may later accept whatever it has refused.
    pub(super) fn passing_failure(&self) -> Failure {
        let failure = self.failure();
        match failure.kind() {
            FailureKind::Permanent => Failure::refused(failure.error()).retry_after(self.after),
            _ => failure,
        }
    }
}

/// The failure that an error of the HTTP client means.
pub(super) fn failure(error: &Error) -> Failure {
    let text = error.message();
    match error.kind() {
        ErrorKind::Overloaded => Failure::not_sent(text),
        ErrorKind::Unavailable => Failure::refused(text),
        ErrorKind::Forbidden | ErrorKind::Input | ErrorKind::Limit | ErrorKind::NotFound => {
            Failure::permanent(text)
        }
        _ => Failure::unknown(text),
    }
}
