//! Refunds: money of a payment that is returned to the customer.

use serde::{Deserialize, Serialize};

use super::{Metadata, NewIntent, Refusal, Step, check_name};
use crate::Money;

/// Where the money of a refund goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundTo {
    /// Back through the gateway.
    #[default]
    Card,
    /// Credit for the next invoice of the subscription.
    Balance,
}

/// The order of a refund from a payment intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefundOrder {
    /// The refund's id.
    pub refund: String,
    /// How much of the payment.
    pub amount: Money,
    /// Where it goes.
    #[serde(default)]
    pub to: RefundTo,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The credit note that it carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_note: Option<String>,
}

impl RefundOrder {
    /// Rejects invalid input.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.amount.amount() <= 0 {
            return Err(Refusal::invalid("A refund must be above zero."));
        }
        match &self.reason {
            Some(reason) => check_name("A reason", reason),
            None => Ok(()),
        }
    }
}

/// The result of a refund, reported to its payment intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefundEnd {
    /// The refund's id.
    pub refund: String,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The data of `create` of a refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRefund {
    /// The payment intent's id.
    pub payment_intent: String,
    /// The invoice's id.
    pub invoice: String,
    /// The subscription's id.
    pub subscription: String,
    /// The customer's id.
    pub customer: String,
    /// How much.
    pub amount: Money,
    /// Where it goes.
    #[serde(default)]
    pub to: RefundTo,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The credit note that it carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_note: Option<String>,
}

impl NewRefund {
    /// The refund that is ordered of an intent.
    pub fn of(id: &str, intent: &NewIntent, order: RefundOrder) -> Self {
        Self {
            payment_intent: id.to_owned(),
            invoice: intent.invoice.clone(),
            subscription: intent.subscription.clone(),
            customer: intent.customer.clone(),
            amount: order.amount,
            to: order.to,
            reason: order.reason,
            credit_note: order.credit_note,
        }
    }

    /// The id of the refund of a payment that arrived when nothing was owed any more.
    pub fn late_id(intent: &str) -> String {
        format!("re_{intent}_late")
    }

    /// The id of the refund of a credit note on an invoice that this payment had just paid.
    pub fn late_note_id(intent: &str, note: &str) -> String {
        format!("{}_{note}", Self::late_id(intent))
    }

    /// Returns whether a refund is of a payment that was not owed.
    pub fn is_late(refund: &str, intent: &str) -> bool {
        let rest = refund.strip_prefix(&Self::late_id(intent));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    }

    /// The order for its intent.
    pub fn order(&self, refund: &str) -> RefundOrder {
        RefundOrder {
            refund: refund.to_owned(),
            amount: self.amount,
            to: self.to,
            reason: self.reason.clone(),
            credit_note: self.credit_note.clone(),
        }
    }
}

/// The data of `submit` and `settle` of a refund.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefundSettled {
    /// The refund's id at the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<String>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A refund.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// What it was created with.
    pub terms: Option<NewRefund>,
    /// Its id at the gateway.
    pub refund: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Refund {
    /// Rejects an invalid new outcome.
    #[allow(clippy::unused_self, reason = "as every state has it")]
    pub fn validate(&self, _step: &Step<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" => self.terms = Some(step.data()?),
            "submit" | "settle" => {
                let settled: RefundSettled = step.data()?;
                self.refund = settled.refund.or(self.refund.take());
                self.failure = settled.failure;
            }
            _ => {}
        }
        Ok(())
    }
}
