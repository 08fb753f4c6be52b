//! The data of a subscription's outcomes.

use serde::{Deserialize, Serialize};

use super::super::{Draft, MAX_QUANTITY, Refusal, Terms};
use crate::{Every, Line, Money, Time};

/// What a subscription provides, and its price: the price's terms, copied when it was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The price's id.
    pub price: String,
    /// The product's id.
    pub product: String,
    /// What one unit costs for one period.
    pub unit_amount: Money,
    /// How many units.
    pub quantity: u32,
    /// How often it is billed.
    pub every: Every,
}

impl Plan {
    /// What a period costs.
    pub fn amount(&self) -> Result<Money, Refusal> {
        Ok(self.unit_amount.times(self.quantity)?)
    }

    /// Rejects invalid input.
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=MAX_QUANTITY).contains(&self.quantity) {
            return Err(Refusal::invalid(format!(
                "A quantity must be 1 to {MAX_QUANTITY}; this one is {}.",
                self.quantity
            )));
        }
        self.every.check()?;
        Ok(self.amount()?.check()?)
    }
}

/// The data of `create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    /// The customer's id.
    pub customer: String,
    /// What is subscribed to.
    pub plan: Plan,
    /// When it was created.
    pub at: Time,
    /// When the trial ends and the first period begins, if there is a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_end: Option<Time>,
    /// Its terms, if they differ from the original defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}

/// The data of `bill`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoiced {
    /// The invoice to create.
    pub draft: Draft,
}

/// The data of `change`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The plan from now on.
    pub plan: Plan,
    /// The lines on the next invoice for the rest of this period.
    pub lines: Vec<Line>,
    /// The part of the rest of this period that a credit note or a refund had already credited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Money>,
    /// The amount by which the next invoice charges less, because it had been withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Money>,
    /// The new anchor, if periods have another length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Time>,
}

/// The data of `resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// When it takes effect.
    pub at: Time,
    /// The lines on the next invoice for the rest of a skipped period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// The part that is not charged, because a credit note or a refund had credited it and a pause had withheld that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Money>,
    /// Whether dunning restarts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
}

/// The data of `collect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// The invoice's id.
    pub invoice: String,
    /// The payment intent's id; empty if nothing was due, or the invoice need not be paid.
    pub intent: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How much.
    pub amount: Money,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The lines on the next invoice for the rest of a skipped period, if this resumes service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// The part that is not charged, because a credit note or a refund had credited it and the end of service had
    /// withheld that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Money>,
    /// Credit that the invoice has used, and that is returned because the invoice need not be paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Money>,
    /// The line on the next invoice because another one had credited part of a period that need not be paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Line>,
}

/// The data of `retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The invoice's id.
    pub invoice: String,
    /// Which attempt begins: 2 for the first retry.
    pub attempt: u32,
}

/// The data of `end_trial`, `expire` and others: a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// When it takes effect.
    pub at: Time,
}

/// The data of `pause` and `end_grace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// When it takes effect.
    pub at: Time,
    /// The credit on the next invoice for the rest of the period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// The part of it that a credit note or a refund had already credited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Money>,
}

/// The data of `cancel` when the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canceled {
    /// When it takes effect.
    pub at: Time,
    /// Whether this was before its first payment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unserved: bool,
}

/// The data of `credit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credited {
    /// The credit note's id, or that of the refund.
    pub id: String,
    /// The invoice's id.
    pub invoice: String,
    /// How much.
    pub amount: Money,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The data of `give_up`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    /// The invoice's id.
    pub invoice: String,
}
