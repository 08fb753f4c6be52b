//! Refunds: money of a payment that goes back to the customer.

use serde::{Deserialize, Serialize};

use super::{Metadata, NewIntent, Refusal, Step, check_name};
use crate::Money;

/// Where the money of a refund goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundTo {
    /// To where it came from, through the gateway.
    #[default]
    Card,
    /// To the next invoice of the subscription, as credit.
    Balance,
}

/// What a payment intent is asked for.
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
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.amount.amount() <= 0 {
            return Err(Refusal::invalid("A refund is above zero."));
        }
        match &self.reason {
            Some(reason) => check_name("A reason", reason),
            None => Ok(()),
        }
    }
}

/// What came of a refund, as its payment intent hears it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefundEnd {
    /// The refund's id.
    pub refund: String,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What `create` of a refund says.
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

    /// The id of the refund of what of a payment nobody owed any more when its money came.
    pub fn late_id(intent: &str) -> String {
        format!("re_{intent}_late")
    }

    /// The refund of what a credit note took off an invoice that this payment had paid a moment before.
    pub fn late_note_id(intent: &str, note: &str) -> String {
        format!("{}_{note}", Self::late_id(intent))
    }

    /// Whether a refund is of money of this payment that nobody owed.
    pub fn is_late(refund: &str, intent: &str) -> bool {
        let rest = refund.strip_prefix(&Self::late_id(intent));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    }

    /// What its intent is asked for.
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

/// What `submit` and `settle` of a refund say.
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
    /// What somebody else wants to know of it.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Refund {
    /// Refuses a new outcome that makes no sense.
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
