//! The live states, as machines whose outcomes are kept in chains.

use abide::Result;
use abide::outcomes::{Declaration, Entry, Machine};

use crate::{
    Money, Time, machines,
    states::{Customer, Invoice, PaymentIntent, Price, Product, Refund, Step, Subscription},
};

/// A live state with data for the read model.
pub trait Live: Clone + Machine {
    /// Its fields in lists.
    fn facts(&self) -> Facts {
        Facts::default()
    }
}

/// The fields of a resource in lists, if it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The customer's id.
    pub customer: Option<String>,
    /// The subscription's id.
    pub subscription: Option<String>,
    /// Its amount.
    pub amount: Option<Money>,
    /// Attempted payments.
    pub attempts: u32,
    /// Failed payments.
    pub failures: u32,
}

fn step(entry: &Entry) -> Step<'_> {
    Step {
        action: &entry.action,
        outcome: &entry.outcome,
        at: Time(entry.ts),
        json: entry.json(),
    }
}

macro_rules! machine {
    ($live:ty, $schema:expr) => {
        impl Machine for $live {
            const SCHEMA: Declaration = $schema;

            fn validate(&self, entry: &Entry) -> Result<()> {
                if entry.action == "annotate" {
                    return Ok(self.metadata.may_take(&step(entry).data()?)?);
                }
                Ok(<$live>::validate(self, &step(entry))?)
            }

            fn apply(&mut self, entry: &Entry) -> Result<()> {
                if entry.action == "annotate" {
                    self.metadata.take(step(entry).data()?);
                    return Ok(());
                }
                Ok(<$live>::apply(self, &step(entry))?)
            }
        }
    };
}

machine!(Product, machines::PRODUCT);
machine!(Price, machines::PRICE);
machine!(Customer, machines::CUSTOMER);
machine!(Subscription, machines::SUBSCRIPTION);
machine!(Invoice, machines::INVOICE);
machine!(PaymentIntent, machines::PAYMENT_INTENT);
machine!(Refund, machines::REFUND);

impl Live for Product {}

impl Live for Customer {}

impl Live for Price {
    fn facts(&self) -> Facts {
        Facts {
            amount: self.terms.as_ref().map(|terms| terms.unit_amount),
            ..Facts::default()
        }
    }
}

impl Live for Subscription {
    fn facts(&self) -> Facts {
        let owed = self.owed.values();
        Facts {
            customer: Some(self.customer.clone()),
            amount: self.plan().ok().and_then(|plan| plan.amount().ok()),
            attempts: owed.clone().map(|owed| owed.attempts).max().unwrap_or(0),
            failures: owed.map(|owed| owed.failed).max().unwrap_or(0),
            ..Facts::default()
        }
    }
}

impl Live for Invoice {
    fn facts(&self) -> Facts {
        let draft = self.draft.as_ref();
        Facts {
            customer: draft.map(|draft| draft.customer.clone()),
            subscription: draft.map(|draft| draft.subscription.clone()),
            amount: self.due,
            attempts: self.attempts,
            failures: self.failures,
        }
    }
}

impl Live for PaymentIntent {
    fn facts(&self) -> Facts {
        let intent = self.intent.as_ref();
        Facts {
            customer: intent.map(|intent| intent.customer.clone()),
            subscription: intent.map(|intent| intent.subscription.clone()),
            amount: intent.map(|intent| intent.amount),
            attempts: intent.map_or(0, |intent| intent.attempt),
            ..Facts::default()
        }
    }
}

impl Live for Refund {
    fn facts(&self) -> Facts {
        let terms = self.terms.as_ref();
        Facts {
            customer: terms.map(|terms| terms.customer.clone()),
            subscription: terms.map(|terms| terms.subscription.clone()),
            amount: terms.map(|terms| terms.amount),
            ..Facts::default()
        }
    }
}
