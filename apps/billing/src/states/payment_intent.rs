//! Payments of an invoice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MAX_REFUNDS, Metadata, RefundEnd, RefundOrder, Refusal, SetPaymentMethod, Step};
use crate::Money;

/// The data of `create` of a payment intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewIntent {
    /// The invoice's id.
    pub invoice: String,
    /// The subscription's id.
    pub subscription: String,
    /// The customer's id.
    pub customer: String,
    /// Which attempt to pay the invoice it is, from 1.
    pub attempt: u32,
    /// How much.
    pub amount: Money,
}

/// The data of `confirm`, `settle` and `authenticate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// The payment's id at the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
    /// The decline code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<String>,
    /// Where the customer authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_url: Option<String>,
}

/// A refund, as recorded in the payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refunded {
    /// The order.
    pub order: RefundOrder,
    /// Whether the money was returned.
    #[serde(default)]
    pub succeeded: bool,
    /// Why it failed, if it did: then its amount can be refunded again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One payment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentIntent {
    /// What it was created with.
    pub intent: Option<NewIntent>,
    /// What it is paid with.
    pub payment_method: Option<String>,
    /// The payment's id at the gateway.
    pub payment: Option<String>,
    /// The latest decline code.
    pub decline: Option<String>,
    /// Where the customer authenticates, while it waits for that.
    pub action_url: Option<String>,
    /// Its refunds, by their id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refunds: BTreeMap<String, Refunded>,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl PaymentIntent {
    /// What it was created with.
    pub fn terms(&self) -> Result<&NewIntent, Refusal> {
        let intent = self.intent.as_ref();
        intent.ok_or_else(|| Refusal::invalid("The payment has not been created."))
    }

    /// The amount of the payment that has not been refunded or reserved.
    pub fn refundable(&self) -> Result<Money, Refusal> {
        let paid = self.terms()?.amount;
        let stands = |refund: &&Refunded| refund.failure.is_none();
        let refunds = self.refunds.values().filter(stands);
        let gone = Money::sum(paid.currency(), refunds.map(|refund| refund.order.amount))?;
        Ok(paid.minus(gone)?)
    }

    /// Rejects a refund that is invalid, or exceeds the remaining amount.
    pub fn may_refund(&self, order: &RefundOrder) -> Result<(), Refusal> {
        order.check()?;
        if self.refunds.contains_key(&order.refund) {
            return Err(Refusal::invalid(format!(
                "{} already exists with different content.",
                order.refund
            )));
        }
        if self.refunds.len() >= MAX_REFUNDS {
            return Err(Refusal::invalid(format!(
                "A payment may have at most {MAX_REFUNDS} refunds."
            )));
        }
        let left = self.refundable()?;
        if left.minus(order.amount)?.is_negative() {
            return Err(Refusal::invalid(format!(
                "{left} of the payment can be refunded, not {}.",
                order.amount
            )));
        }
        Ok(())
    }

    fn ended(&mut self, end: RefundEnd) {
        if let Some(refund) = self.refunds.get_mut(&end.refund) {
            refund.succeeded = end.failure.is_none();
            refund.failure = end.failure;
        }
    }

    /// Rejects an invalid new outcome.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "attach" => step.data::<SetPaymentMethod>()?.check(),
            "refund" if step.outcome == "requested" => self.may_refund(&step.data()?),
            _ => Ok(()),
        }
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" => self.intent = Some(step.data()?),
            "attach" => {
                let set: SetPaymentMethod = step.data()?;
                self.payment_method = Some(set.payment_method);
            }
            "confirm" | "settle" | "authenticate" => {
                let settled: Settled = step.data()?;
                self.payment = settled.payment.or(self.payment.take());
                self.decline = settled.decline;
                self.action_url = settled.action_url;
            }
            "cancel" => self.action_url = None,
            "refund" if step.outcome == "requested" => {
                let order: RefundOrder = step.data()?;
                let refunded = Refunded {
                    order: order.clone(),
                    succeeded: false,
                    failure: None,
                };
                self.refunds.insert(order.refund, refunded);
            }
            "refund" => self.ended(step.data()?),
            _ => {}
        }
        Ok(())
    }
}
