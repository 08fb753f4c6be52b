//! The result of an attempt or a poll.

use super::{Failure, FailureKind, Polled, Submitted, claim::Claim};

/// The result of an attempt or a poll.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Submitted(Result<Submitted, Failure>),
    Polled(Result<Polled, Failure>),
    /// The message was ended meanwhile: the result no longer matters.
    Interrupted,
}

impl Outcome {
    /// A failed attempt, or a failed poll if the claim's operation runs.
    pub(super) fn failed(claim: &Claim, failure: Failure) -> Self {
        match claim.operation {
            Some(_) => Self::Polled(Err(failure)),
            None => Self::Submitted(Err(failure)),
        }
    }

    fn failure_kind(&self) -> Option<FailureKind> {
        match self {
            Self::Submitted(Err(failure)) | Self::Polled(Err(failure)) => Some(failure.kind()),
            _ => None,
        }
    }

    /// True if this node was overloaded.
    pub(super) fn could_not_leave(&self) -> bool {
        self.failure_kind() == Some(FailureKind::NotSent)
    }

    /// True if this side stopped it before there was a response.
    pub(super) fn was_cut_off(&self) -> bool {
        self.was_interrupted() || self.failure_kind() == Some(FailureKind::CutOff)
    }

    /// True if its message was ended meanwhile.
    pub(super) fn was_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted)
    }

    /// Whether the destination has responded; `None` if nothing was sent to it.
    pub(super) fn is_answer(&self) -> Option<bool> {
        match self {
            Self::Submitted(Err(failure)) => match failure.kind() {
                FailureKind::NotSent | FailureKind::CutOff => None,
                FailureKind::Temporary => Some(false),
                _ => Some(true),
            },
            Self::Submitted(Ok(_)) => Some(true),
            Self::Polled(_) | Self::Interrupted => None,
        }
    }

    /// True if the message has arrived.
    pub(super) fn is_delivery(&self) -> bool {
        matches!(
            self,
            Self::Submitted(Ok(Submitted::Done)) | Self::Polled(Ok(Polled::Done))
        )
    }
}
