//! An invoice as a model knows it.

use crate::ledger::calendar::DAY;

/// Days after the first failure on which a payment is tried again.
const RETRIES: [i64; 4] = [1, 3, 5, 7];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Open,
    WrittenOff,
    Paid,
    Void,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::WrittenOff => "uncollectible",
            Self::Paid => "paid",
            Self::Void => "void",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Invoice {
    /// What it came to when it was issued.
    pub(super) issued: i64,
    pub(crate) due: i64,
    pub(crate) status: Status,
    /// Attempts that were ordered.
    pub(crate) attempts: u32,
    /// The last of them that the bank has heard of.
    pub(crate) begun: u32,
    /// The credit that it has used.
    pub(super) used: i64,
    /// Whether it is for a period, and not for changes alone.
    pub(super) is_of_period: bool,
    pub(super) failed: u32,
    pub(super) since: Option<i64>,
    pub(super) failed_at: i64,
    /// Attempts that had failed when its days began anew.
    pub(super) before: u32,
    /// What was paid, and has not gone back.
    pub(crate) paid: i64,
    /// Whether its last attempt waits for its customer.
    pub(super) is_asked: bool,
    /// What was paid beyond what was owed.
    pub(crate) surplus: i64,
}

impl Invoice {
    pub(crate) fn is_owed(&self) -> bool {
        matches!(self.status, Status::Open | Status::WrittenOff)
    }

    pub(super) fn is_on_its_way(&self) -> bool {
        self.failed != self.attempts
    }

    /// When it is tried again.
    pub(super) fn next_try(&self) -> Option<i64> {
        let since = self.since?;
        if self.status != Status::Open || self.is_on_its_way() {
            return None;
        }
        match self.failed - self.before {
            0 => Some(since),
            failures => {
                let days = RETRIES.get(usize::try_from(failures).unwrap() - 1)?;
                Some((since + days * DAY).max(self.failed_at + DAY))
            }
        }
    }
}
