//! Debts: what is owed of an invoice, and when it is collected again.

use serde::{Deserialize, Serialize};

use super::{
    super::{CARD_REPLACED, MIN_DUNNING_DAYS, Refusal},
    Attempt, Collected, Subscription, is_zero,
};
use crate::{
    Money, Time,
    broken::{Variant, broken},
};

/// What is owed of one invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// How much.
    pub amount: Money,
    /// What credit notes have taken off it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Money>,
    /// Attempts that have begun; the first begins with the invoice.
    pub attempts: u32,
    /// The last attempt that has failed; 0 for none.
    pub failed: u32,
    /// The last attempt for which the customer was asked to prove who they are; 0 for none.
    pub asked: u32,
    /// When the first attempt failed, or service went on after a pause for which that was waited.
    pub since: Option<Time>,
    /// When the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,
    /// Attempts that had failed when dunning began anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before: u32,
    /// Whether it bills no period, but only what waited for an invoice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_only: bool,
    /// Whether it was written off: nobody is asked for it any more, and who wants to can still pay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Credit that it has used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Money>,
    /// What changes of its period came to on later invoices; below zero it was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Money>,
}

impl Owed {
    /// Whether the last attempt that has begun has not ended.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.failed != self.attempts && !broken(Variant::AttemptBesideAttempt)
    }

    /// Whether so much pays it: what is owed now, or was before a credit note. What is too much goes back.
    pub(super) fn is_paid_with(&self, amount: Money) -> bool {
        let most = self
            .reduced
            .map_or(Ok(self.amount), |reduced| self.amount.plus(reduced));
        let pays = amount.currency() == self.amount.currency()
            && (self.amount.amount()..=most.map_or(0, Money::amount)).contains(&amount.amount());
        pays || broken(Variant::AmountUnchecked)
    }

    /// An attempt has failed.
    pub(super) fn fail(&mut self, collected: &Collected, at: Time) {
        if collected.reason.as_deref() == Some(CARD_REPLACED) {
            // No card was refused.
            self.before += 1;
        }
        self.failed = self.failed.max(collected.attempt);
        if broken(Variant::RetryDaysFromLast) {
            self.since = None;
        }
        self.since.get_or_insert(at);
        self.failed_at = Some(at);
    }

    /// The time of an attempt, some days after the last. Days that passed while nobody was there are no days on which somebody
    /// was asked.
    fn not_at_once(&self, at: Time) -> Time {
        match self.failed_at {
            Some(failed) if !broken(Variant::DunningBurst) => {
                at.max(failed.plus_days(MIN_DUNNING_DAYS))
            }
            _ => at,
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
    /// The next attempt to collect an invoice whose last one has failed, and when; none if the days are used up.
    pub fn next_attempt(&self, invoice: &str) -> Option<(Time, Attempt)> {
        let owed = self.owed.get(invoice)?;
        let is_given_up = owed.given_up && !broken(Variant::GivenUpCharged);
        if owed.failed == 0 || owed.is_on_its_way() || is_given_up {
            return None;
        }
        let since = owed.since?;
        let failures = usize::try_from(owed.failed.checked_sub(owed.before)?).ok()?;
        let at = match failures.checked_sub(1) {
            // Service went on after a pause.
            None => return Some((since, owed.next(invoice))),
            Some(retry) => since.plus_days(*self.terms.dunning_days.get(retry)?),
        };
        Some((owed.not_at_once(at), owed.next(invoice)))
    }

    /// The attempt to collect an invoice that begins when somebody wants to pay; none while one is on its way.
    pub fn attempt_now(&self, invoice: &str) -> Result<Option<Attempt>, Refusal> {
        let owed = self.owed(invoice)?;
        Ok((!owed.is_on_its_way()).then(|| owed.next(invoice)))
    }

    /// When service ends unless all is paid: so many days after the first of the failures that stand.
    pub fn grace_end(&self) -> Option<Time> {
        let since = self.owed.values().filter_map(|owed| owed.since).min()?;
        Some(since.plus_days(self.terms.grace_days))
    }
}
