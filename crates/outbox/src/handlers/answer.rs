//! Interprets the response to an attempt.

use std::ops::Deref;

use abide::{Error, Request, http::StatusCode};
use abide_component::{
    Fault, FaultKind as FaultIs,
    answer::{self, fetch},
};

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
        // The attempt whose response was lost may still be running there.
        if self.repeated && self.status == StatusCode::CONFLICT {
            return Failure::unknown(self.text()).retry_after(self.after);
        }
        Fault::of_answer(&self.answer).into()
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
    Fault::of_error(error).into()
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let failure = match fault.kind {
            FaultIs::NotSent => Self::not_sent(fault.text),
            FaultIs::Throttled => Self::throttled(fault.text, fault.after),
            FaultIs::Refused => Self::refused(fault.text),
            FaultIs::Unknown => Self::unknown(fault.text),
            FaultIs::Permanent => return Self::permanent(fault.text),
        };
        failure.retry_after(fault.after)
    }
}
