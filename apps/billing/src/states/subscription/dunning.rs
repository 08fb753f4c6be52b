//! Debts: the amount owed for an invoice, and when it is collected again.

use serde::{Deserialize, Serialize};

use super::{
    super::{CARD_REPLACED, MIN_DUNNING_DAYS, Refusal},
    Attempt, Collected, Subscription, is_zero,
};
use crate::{Money, MoneyError, Time};

/// The debt of one invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// How much.
    pub amount: Money,
    /// The amount deducted by credit notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Money>,
    /// Attempts that have begun; the first begins with the invoice.
    pub attempts: u32,
    /// The last attempt that has failed; 0 for none.
    pub failed: u32,
    /// The latest attempt that required customer authentication; 0 for none.
    pub asked: u32,
    /// When the first attempt failed, or when service resumed after a pause that had postponed it.
    pub since: Option<Time>,
    /// When the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,
    /// Attempts that had failed when dunning restarted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before: u32,
    /// Whether it bills no period, but only pending lines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_only: bool,
    /// Whether it was written off: no further attempts are made, but the customer can still pay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Credit that it has used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Money>,
    /// The total of later changes of its period on other invoices; credits are negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Money>,
}

impl Owed {
    /// The debt of an invoice whose first attempt begins.
    pub(super) fn new(amount: Money, changes_only: bool) -> Self {
        Self {
            amount,
            reduced: None,
            attempts: 1,
            failed: 0,
            asked: 0,
            since: None,
            failed_at: None,
            before: 0,
            changes_only,
            given_up: false,
            used: None,
            changed: None,
        }
    }

    /// The amount that it was issued over, before credit notes.
    pub(super) fn issued(&self) -> Result<Money, MoneyError> {
        self.reduced
            .map_or(Ok(self.amount), |reduced| self.amount.plus(reduced))
    }

    /// Returns whether the latest attempt has not ended.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.failed != self.attempts
    }

    /// Returns whether an amount pays it: the amount owed now, or before a credit note. Any excess is refunded.
    pub(super) fn is_paid_with(&self, amount: Money) -> bool {
        let most = self.issued();
        amount.currency() == self.amount.currency()
            && (self.amount.amount()..=most.map_or(0, Money::amount)).contains(&amount.amount())
    }

    /// An attempt has failed.
    pub(super) fn fail(&mut self, collected: &Collected, at: Time) {
        if collected.reason.as_deref() == Some(CARD_REPLACED) {
            // No card was refused.
            self.before += 1;
        }
        self.failed = self.failed.max(collected.attempt);
        self.since.get_or_insert(at);
        self.failed_at = Some(at);
    }

    /// The time of an attempt, some days after the last. Days of downtime do not count, because no attempt was made
    /// on them.
    fn not_at_once(&self, at: Time) -> Time {
        match self.failed_at {
            Some(failed) => at.max(failed.plus_days(MIN_DUNNING_DAYS)),
            None => at,
        }
    }

    pub(super) fn next(&self, invoice: &str) -> Attempt {
        Attempt {
            invoice: invoice.to_owned(),
            attempt: self.attempts + 1,
        }
    }
}

impl Subscription {
    /// The next attempt to collect an invoice whose latest one has failed, and when; none if the days are used up.
    pub fn next_attempt(&self, invoice: &str) -> Option<(Time, Attempt)> {
        let owed = self.owed.get(invoice)?;
        if owed.failed == 0 || owed.is_on_its_way() || owed.given_up {
            return None;
        }
        let since = owed.since?;
        let failures = usize::try_from(owed.failed.checked_sub(owed.before)?).ok()?;
        let at = match failures.checked_sub(1) {
            // Service resumed after a pause.
            None => return Some((since, owed.next(invoice))),
            Some(retry) => since.plus_days(*self.terms.dunning_days.get(retry)?),
        };
        Some((owed.not_at_once(at), owed.next(invoice)))
    }

    /// The attempt to collect an invoice that begins on request; none while one is running.
    pub fn attempt_now(&self, invoice: &str) -> Result<Option<Attempt>, Refusal> {
        let owed = self.owed(invoice)?;
        Ok((!owed.is_on_its_way()).then(|| owed.next(invoice)))
    }

    /// When service ends unless everything is paid: the days of grace after the first current failure.
    pub fn grace_end(&self) -> Option<Time> {
        let since = self.owed.values().filter_map(|owed| owed.since).min()?;
        Some(since.plus_days(self.terms.grace_days))
    }
}
