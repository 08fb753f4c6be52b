//! What a resource's chain comes to, and what is decided from it.
//!
//! Contract: pure. `apply` depends on nothing but the state and the outcome, and refuses only what it cannot read: what was
//! accepted once replays for ever. `validate` has the rules of today, which a new outcome has to keep. Decisions depend on nothing but the state and
//! what they are given, change nothing, and say what to write. The objects around them do.

mod catalogue;
mod credit_note;
mod customer;
mod invoice;
mod metadata;
mod payment_intent;
mod refund;
mod subscription;
mod terms;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{CalendarError, MoneyError, Time};

pub use catalogue::{NewPrice, NewProduct, Price, Product};
pub use credit_note::{CreditEffect, CreditNote};
pub use customer::{Customer, NewCustomer, SetPaymentMethod, Subscribed};
pub use invoice::{Attempted, Draft, Invoice};
pub use metadata::{Annotation, Metadata};
pub use payment_intent::{NewIntent, PaymentIntent, Refunded, Settled};
pub use refund::{NewRefund, Refund, RefundEnd, RefundOrder, RefundSettled, RefundTo};
pub use subscription::{
    Attempt, Canceled, Changed, Collected, Created, Credited, GivenBack, GivenUp, Invoiced, Moment,
    Owed, Paused, PaymentResult, Plan, Preview, Report, Resumed, Subscription, Upcoming, Verdict,
};

pub use terms::{Policy, Terms};

/// Why a payment ended whose customer pays with another card.
pub const CARD_REPLACED: &str = "card_replaced";

/// Why a payment failed whose customer has not said what to pay with.
pub const NO_PAYMENT_METHOD: &str = "no_payment_method";

/// Days after the first failure on which a payment is tried again, unless the subscription's terms say otherwise.
pub const DUNNING_DAYS: [u32; 4] = [1, 3, 5, 7];

/// Days between two attempts, at least: after a week without the node they do not all follow at once.
pub const MIN_DUNNING_DAYS: u32 = 1;

/// Days after the first failure until service ends, unless the subscription's terms say otherwise.
pub const GRACE_DAYS: u32 = 14;

/// Hours that a first invoice may wait for its payment.
pub const INCOMPLETE_HOURS: u32 = 23;

/// Characters of a name or a description, at most.
pub const MAX_NAME: usize = 200;

/// Lines of changes of plan that wait for the next invoice, at most: what orders that invoice fits
/// [`MAX_METADATA_BYTES`](abide::schedule::limits::MAX_METADATA_BYTES) with the longest ids.
pub const MAX_PENDING: usize = 100;

/// Units of a subscription, at most.
pub const MAX_QUANTITY: u32 = 1_000_000;

/// Refunds of one payment, at most: all of them are in its row of the read model.
pub const MAX_REFUNDS: usize = 50;

/// Credit notes of one invoice, at most: all of them are in its row of the read model.
pub const MAX_CREDIT_NOTES: usize = 50;

/// Days of a trial, at most: two years.
pub const MAX_TRIAL_DAYS: u32 = 730;

/// An outcome, as a state takes it.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// What was attempted.
    pub action: &'a str,
    /// What came of it.
    pub outcome: &'a str,
    /// When it was written.
    pub at: Time,
    /// What is known of it, in JSON.
    pub json: &'a str,
}

impl Step<'_> {
    /// What is known of it.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_str(self.json).map_err(|error| {
            Refusal::invalid(format!(
                "`{}` with `{}` has other data: {error}.",
                self.action, self.outcome
            ))
        })
    }
}

/// Why something cannot be decided or taken.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The amount makes no sense.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// The period makes no sense.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    /// What was given makes no sense; the text says what would.
    #[error("{0}")]
    Invalid(String),
}

impl Refusal {
    fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }
}

/// Refuses a name that is empty, too long, or no line of text.
fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let length = name.chars().count();
    if !(1..=MAX_NAME).contains(&length) || name.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "{what} is one line of 1 to {MAX_NAME} characters; this one has {length}."
        )));
    }
    Ok(())
}
