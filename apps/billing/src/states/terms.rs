//! Terms: when payments are tried again, how long service goes on without them, and what is too little to be charged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DUNNING_DAYS, GRACE_DAYS, Refusal};
use crate::Currency;

/// Retries of a payment, at most.
pub(super) const MAX_RETRIES: usize = 10;

/// Days of dunning and of grace, at most: a quarter.
pub(super) const MAX_GRACE_DAYS: u32 = 92;

/// Days before something of which a notice tells, at most.
pub(super) const MAX_NOTICE_DAYS: u32 = 30;

/// The terms of a subscription, as they were when it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Days after the first failure on which a payment is tried again, in order.
    pub dunning_days: Vec<u32>,
    /// Days after the first failure until service ends.
    pub grace_days: u32,
    /// An invoice over less, in the minor unit, is not charged: the next one has it.
    #[serde(default)]
    pub minimum_charge: i64,
    /// Days before the end of a trial on which that is told; 0 for never.
    #[serde(default)]
    pub trial_notice_days: u32,
    /// Days before a period on which its invoice is told of; 0 for never.
    #[serde(default)]
    pub upcoming_notice_days: u32,
}

impl Default for Terms {
    /// Those of subscriptions that have not said any.
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

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Refusal> {
        let days = &self.dunning_days;
        let in_order = days.windows(2).all(|two| two[0] < two[1]);
        let in_range = days.iter().all(|day| (1..=MAX_GRACE_DAYS).contains(day));
        if days.len() > MAX_RETRIES || !in_order || !in_range {
            return Err(Refusal::invalid(format!(
                "Days of dunning are at most {MAX_RETRIES}, in order, each 1 to {MAX_GRACE_DAYS}."
            )));
        }
        if self.grace_days > MAX_GRACE_DAYS {
            return Err(Refusal::invalid(format!(
                "Days of grace are 0 to {MAX_GRACE_DAYS}; these are {}.",
                self.grace_days
            )));
        }
        if self.trial_notice_days.max(self.upcoming_notice_days) > MAX_NOTICE_DAYS {
            return Err(Refusal::invalid(format!(
                "A notice comes 0 to {MAX_NOTICE_DAYS} days before."
            )));
        }
        if self.minimum_charge < 0 {
            return Err(Refusal::invalid("A minimum charge is zero or more."));
        }
        Ok(())
    }
}

/// The terms of new subscriptions, to be shared with [`HostBuilder::with`](abide::server::HostBuilder::with). A node
/// without has the default ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The terms, but for the minimum charge.
    pub terms: Terms,
    /// Minimum charges in the minor unit, by the code of the currency.
    pub minimum_charges: BTreeMap<String, i64>,
    /// Whether other currencies have one, too: half of a unit, or 50 of one that has no parts.
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
