//! Terms: when payments are retried, how long service continues without them, and the minimum charge.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DUNNING_DAYS, GRACE_DAYS, Refusal};
use crate::Currency;

/// Maximum number of retries of a payment.
pub(super) const MAX_RETRIES: usize = 10;

/// Maximum days of dunning and of grace: a quarter.
pub(super) const MAX_GRACE_DAYS: u32 = 92;

/// Maximum number of days of advance notice.
pub(super) const MAX_NOTICE_DAYS: u32 = 30;

/// The terms of a subscription as of its creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Days after the first failure on which a payment is retried, in order.
    pub dunning_days: Vec<u32>,
    /// Days after the first failure until service ends.
    pub grace_days: u32,
    /// An invoice below this amount, in the minor unit, is not charged, but moved to the next one.
    pub minimum_charge: i64,
    /// Days of advance notice of the end of a trial; 0 for none.
    pub trial_notice_days: u32,
    /// Days of advance notice of a period's invoice; 0 for none.
    pub upcoming_notice_days: u32,
}

impl Default for Terms {
    /// The terms of subscriptions without explicit ones.
    fn default() -> Self {
        Self {
            dunning_days: DUNNING_DAYS.to_vec(),
            grace_days: GRACE_DAYS,
            minimum_charge: 0,
            trial_notice_days: 0,
            upcoming_notice_days: 0,
        }
    }
}

impl Terms {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Rejects invalid terms.
    pub fn check(&self) -> Result<(), Refusal> {
        let days = &self.dunning_days;
        let in_order = days.windows(2).all(|two| two[0] < two[1]);
        let in_range = days.iter().all(|day| (1..=MAX_GRACE_DAYS).contains(day));
        if days.len() > MAX_RETRIES || !in_order || !in_range {
            return Err(Refusal::invalid(format!(
                "There may be at most {MAX_RETRIES} days of dunning, in ascending order, each from 1 to {MAX_GRACE_DAYS}."
            )));
        }
        if self.grace_days > MAX_GRACE_DAYS {
            return Err(Refusal::invalid(format!(
                "Days of grace must be from 0 to {MAX_GRACE_DAYS}, not {}.",
                self.grace_days
            )));
        }
        if self.trial_notice_days.max(self.upcoming_notice_days) > MAX_NOTICE_DAYS {
            return Err(Refusal::invalid(format!(
                "An advance notice must be 0 to {MAX_NOTICE_DAYS} days before the event."
            )));
        }
        if self.minimum_charge < 0 {
            return Err(Refusal::invalid("A minimum charge must be zero or more."));
        }
        Ok(())
    }
}

/// The terms of new subscriptions, to be shared with [`HostBuilder::with`](abide::server::HostBuilder::with). A node
/// without them uses the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The terms, except for the minimum charge.
    pub terms: Terms,
    /// Minimum charges in the minor unit, by the code of the currency.
    pub minimum_charges: BTreeMap<String, i64>,
    /// Whether other currencies have a minimum charge, too: half of a unit, or 50 if it has no minor unit.
    pub has_minimum: bool,
}

impl Policy {
    /// The terms of a subscription in a currency.
    pub fn terms(&self, currency: Currency) -> Terms {
        let known = self.minimum_charges.get(currency.code()).copied();
        let half = match currency.digits() {
            0 => 50,
            digits => 5 * 10_i64.pow(u32::from(digits) - 1),
        };
        Terms {
            minimum_charge: known.unwrap_or(if self.has_minimum { half } else { 0 }),
            ..self.terms.clone()
        }
    }
}
