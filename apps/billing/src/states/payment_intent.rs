//! Payments of an invoice.

use serde::{Deserialize, Serialize};

use super::{Refusal, SetPaymentMethod, Step};
use crate::Money;

/// What `create` of a payment intent says.
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

/// What `confirm`, `settle` and `authenticate` say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// The payment's id at the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
    /// Why it was declined, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<String>,
    /// Where the customer goes to prove who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_url: Option<String>,
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
    /// Why it was declined last.
    pub decline: Option<String>,
    /// Where the customer goes to prove who they are, while it waits for that.
    pub action_url: Option<String>,
}

impl PaymentIntent {
    /// Refuses a new outcome that makes no sense.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "attach" => step.data::<SetPaymentMethod>()?.check(),
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
            _ => {}
        }
        Ok(())
    }
}
