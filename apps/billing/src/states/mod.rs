//! The states of resources, and the decisions based on them.
//!
//! Contract: pure. `apply` depends only on the state and the outcome, and rejects only what it cannot parse: what was
//! once accepted replays forever. `validate` has the current rules, which apply to new outcomes. Decisions depend only
//! on the state and their arguments, change nothing, and return what to write. The objects around them perform it.

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
    Attempt, Canceled, Changed, Collected, Copied, Created, Credited, Debt, Found, GivenBack,
    GivenUp, Invoiced, Moment, Owed, Paused, PaymentResult, Plan, Preview, Report, Restored,
    Resumed, Subscription, Upcoming, Verdict,
};

pub use terms::{Policy, Terms};

/// The failure code of a payment whose customer pays with another card.
pub const CARD_REPLACED: &str = "card_replaced";

/// The failure code of a payment without a payment method.
pub const NO_PAYMENT_METHOD: &str = "no_payment_method";

/// Days after the first failure on which a payment is retried, by default.
pub const DUNNING_DAYS: [u32; 4] = [1, 3, 5, 7];

/// Minimum number of days between two attempts: after a week of downtime they do not all follow at once.
pub const MIN_DUNNING_DAYS: u32 = 1;

/// Days after the first failure until service ends, by default.
pub const GRACE_DAYS: u32 = 14;

/// Hours that a first invoice may wait for its payment.
pub const INCOMPLETE_HOURS: u32 = 23;

/// Maximum length of a name or a description in characters.
pub const MAX_NAME: usize = 200;

/// Maximum number of pending lines of plan changes: the order of their invoice fits
/// [`MAX_METADATA_BYTES`](abide::limits::schedule::MAX_METADATA_BYTES) with the longest ids.
pub const MAX_PENDING: usize = 100;

/// Maximum quantity of a subscription.
pub const MAX_QUANTITY: u32 = 1_000_000;

/// Maximum number of refunds of one payment: all of them are in its row of the read model.
pub const MAX_REFUNDS: usize = 50;

/// Maximum number of credit notes of one invoice: all of them are in its row of the read model.
pub const MAX_CREDIT_NOTES: usize = 50;

/// Maximum length of a trial in days: two years.
pub const MAX_TRIAL_DAYS: u32 = 730;

/// An outcome, as passed to a state.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The action.
    pub action: &'a str,
    /// Its outcome.
    pub outcome: &'a str,
    /// When it was written.
    pub at: Time,
    /// The outcome's data, in JSON.
    pub json: &'a str,
}

impl Step<'_> {
    /// The outcome's data.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_str(self.json).map_err(|error| {
            Refusal::invalid(format!(
                "The data of `{}` with `{}` is not valid: {error}.",
                self.action, self.outcome
            ))
        })
    }
}

/// Why something is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The amount is invalid.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// The period is invalid.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    /// The input is invalid; the text says what would be valid.
    #[error("{0}")]
    Invalid(String),
}

impl Refusal {
    fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }
}

/// Rejects a name that is empty, too long, or has several lines.
fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    let length = name.chars().count();
    if !(1..=MAX_NAME).contains(&length) || name.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "{what} must be one line of 1 to {MAX_NAME} characters; this one has {length}."
        )));
    }
    Ok(())
}
