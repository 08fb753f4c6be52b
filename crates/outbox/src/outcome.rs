//! How an attempt or a poll ended.

use super::{Failure, Polled, Submitted, claim::Claim, deliver::Fate};

/// How an attempt or a poll ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Submitted(Result<Submitted, Failure>),
    Polled(Result<Polled, Failure>),
}

impl Outcome {
    /// An attempt, or a poll if the claim's operation runs, that has failed.
    pub(super) fn failed(claim: &Claim, failure: Failure) -> Self {
        match claim.operation {
            Some(_) => Self::Polled(Err(failure)),
            None => Self::Submitted(Err(failure)),
        }
    }

    fn fate(&self) -> Option<Fate> {
        match self {
            Self::Submitted(Err(failure)) | Self::Polled(Err(failure)) => Some(failure.fate),
            _ => None,
        }
    }

    /// True if this node had too much to do.
    pub(super) fn could_not_leave(&self) -> bool {
        self.fate() == Some(Fate::NotSent)
    }

    /// True if this end was cut off.
    pub(super) fn was_cut_off(&self) -> bool {
        self.fate() == Some(Fate::CutOff)
    }

    /// Whether the destination has answered; none if nothing was asked of it.
    pub(super) fn is_answer(&self) -> Option<bool> {
        match self {
            Self::Submitted(Err(failure)) => match failure.fate {
                Fate::NotSent | Fate::CutOff => None,
                Fate::Unknown => Some(false),
                Fate::Refused | Fate::Throttled | Fate::Permanent => Some(true),
            },
            Self::Submitted(Ok(_)) => Some(true),
            Self::Polled(_) => None,
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
