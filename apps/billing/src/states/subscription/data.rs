//! What the outcomes of a subscription's chain say.

use serde::{Deserialize, Serialize};

use super::super::{Draft, MAX_QUANTITY, Refusal, Terms};
use crate::{Every, Line, Money, Time};

/// What a subscription gives, and for how much. The price's own words, copied when it was chosen.
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

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=MAX_QUANTITY).contains(&self.quantity) {
            return Err(Refusal::invalid(format!(
                "A quantity is 1 to {MAX_QUANTITY}; this one is {}.",
                self.quantity
            )));
        }
        self.every.check()?;
        Ok(self.amount()?.check()?)
    }
}

/// What `create` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    /// The customer's id.
    pub customer: String,
    /// What is subscribed to.
    pub plan: Plan,
    /// Since when.
    pub at: Time,
    /// When the trial ends and the first period begins, if there is a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_end: Option<Time>,
    /// Its terms, if they are not those that every subscription had once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}

/// What `bill` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoiced {
    /// The invoice that is to be created.
    pub draft: Draft,
}

/// What `change` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The plan from now on.
    pub plan: Plan,
    /// What the next invoice has for the rest of this period.
    pub lines: Vec<Line>,
    /// What of the rest of this period a credit note or a refund had given back before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Money>,
    /// What of it the next invoice charges less for, because it had been withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Money>,
    /// Since when periods are counted anew, if they have another length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Time>,
}

/// What `resume` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// When it takes effect.
    pub at: Time,
    /// What the next invoice has for the rest of a period that was skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// What of it is not charged, because a credit note or a refund had given it back and a pause had withheld that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Money>,
    /// Whether dunning of what is owed begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
}

/// What `collect` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// The invoice's id.
    pub invoice: String,
    /// The payment intent's id; empty if nothing was due, or nobody is to pay.
    pub intent: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How much.
    pub amount: Money,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the next invoice has for the rest of a period that was skipped, if service begins again with this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// What of it is not charged, because a credit note or a refund had given it back and the end of service had withheld that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Money>,
    /// Credit that the invoice has used, and that comes back because nobody is to pay it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Money>,
    /// What the next invoice has because another one gave something back of a period that nobody is to pay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Line>,
}

/// What `retry` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The invoice's id.
    pub invoice: String,
    /// Which attempt begins: 2 for the first retry.
    pub attempt: u32,
}

/// What `end_trial`, `expire` and others say: a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// When it takes effect.
    pub at: Time,
}

/// What `pause` and `end_grace` say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// When it takes effect.
    pub at: Time,
    /// What the next invoice gives back for the rest of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<Line>>,
    /// What of it a credit note or a refund had given back before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Money>,
}

/// What `cancel` says of an end that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canceled {
    /// When it takes effect.
    pub at: Time,
    /// Whether that was before its first payment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unserved: bool,
}

/// What `credit` says.
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

/// What `give_up` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    /// The invoice's id.
    pub invoice: String,
}
