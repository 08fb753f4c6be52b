//! Interprets the response to an attempt.

use std::ops::Deref;

use abide::{Request, http::StatusCode};
use abide_component::answer::{self, fetch};

pub(super) use answer::End;

use crate::{Delivery, Failure};

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
        answer: answer?,
        repeated: delivery.unknown(),
    })
}

impl Answer {
    /// The failure that an unsuccessful response means.
    pub(super) fn failure(&self) -> Failure {
        // The attempt whose response was lost may still be running there.
        if self.repeated && self.status == StatusCode::CONFLICT {
            return Failure::temporary(self.text()).retry_after(self.after);
        }
        Failure::of_answer(&self.answer)
    }

    /// The same, for a receiver that may later accept whatever it has refused.
    pub(super) fn passing_failure(&self) -> Failure {
        let failure = self.failure();
        if failure.is_permanent() {
            Failure::refused(failure.message()).retry_after(self.after)
        } else {
            failure
        }
    }
}
