//! Customers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Metadata, Refusal, Step, check_name};
use crate::Time;

/// The data of `create` and `update` of a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewCustomer {
    /// Who it is.
    pub name: String,
    /// Their e-mail address.
    pub email: String,
    /// The gateway's token for their card. Without it, payments fail until it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_method: Option<String>,
}

impl NewCustomer {
    /// Rejects invalid input.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("A customer's name", &self.name)?;
        check_name("An e-mail address", &self.email)?;
        let parts: Vec<&str> = self.email.split('@').collect();
        let is_address = matches!(&*parts, [user, host] if !user.is_empty() && !host.is_empty());
        if !is_address || self.email.contains(char::is_whitespace) {
            return Err(Refusal::invalid(format!(
                "“{}” is not an e-mail address.",
                self.email
            )));
        }
        match &self.payment_method {
            Some(method) => check_name("A payment method", method),
            None => Ok(()),
        }
    }
}

/// The data of `set_payment_method`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPaymentMethod {
    /// The gateway's token for the card.
    pub payment_method: String,
}

impl SetPaymentMethod {
    /// Rejects invalid input.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("A payment method", &self.payment_method)
    }
}

/// The data of `subscribe` and `leave`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribed {
    /// The subscription's id.
    pub subscription: String,
}

/// Who pays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Customer {
    /// Who it is.
    pub name: String,
    /// Their e-mail address.
    pub email: String,
    /// The gateway's token for their card.
    pub payment_method: Option<String>,
    /// Subscriptions that may be ongoing, and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub subscriptions: BTreeMap<String, Time>,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Customer {
    /// Rejects an invalid new outcome.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" | "update" => step.data::<NewCustomer>()?.check(),
            "set_payment_method" => step.data::<SetPaymentMethod>()?.check(),
            "delete" => self.may_be_deleted(),
            _ => Ok(()),
        }
    }

    fn may_be_deleted(&self) -> Result<(), Refusal> {
        match self.subscriptions.keys().next() {
            Some(one) => Err(Refusal::invalid(format!(
                "The customer has ongoing subscriptions, such as {one}: end them first."
            ))),
            None => Ok(()),
        }
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" | "update" => {
                let new: NewCustomer = step.data()?;
                self.name = new.name;
                self.email = new.email;
                self.payment_method = new.payment_method.or(self.payment_method.take());
            }
            "set_payment_method" => {
                let set: SetPaymentMethod = step.data()?;
                self.payment_method = Some(set.payment_method);
            }
            "subscribe" => {
                let Subscribed { subscription } = step.data()?;
                self.subscriptions.insert(subscription, step.at);
            }
            "leave" => {
                let Subscribed { subscription } = step.data()?;
                self.subscriptions.remove(&subscription);
            }
            _ => {}
        }
        Ok(())
    }
}
