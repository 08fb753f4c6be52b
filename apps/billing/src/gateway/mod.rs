//! Who takes the money.
//!
//! Contract: a [`Gateway`] moves money at most once for each idempotency key, however often a call with it is repeated; the
//! calls here say whether repeating makes sense. What became of a payment is told by [`Gateway::status`] at any time,
//! and by webhooks that may come twice, late, or not at all.

mod events;
mod http;
mod local;
mod refund;

use std::{fmt, sync::Arc, time::Duration};

use abide::{Env, LocalFuture};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Money;

pub use events::{EventError, EventSecrets, Told};
pub use http::{HttpGateway, PATIENCE};
pub use local::{Card, LocalGateway, Mischief, Tally, server};
pub use refund::{Refund, RefundCharge, RefundEvent, RefundStatus};

/// What is to be paid, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// How much, above zero.
    pub amount: Money,
    /// What the gateway knows the customer's card by.
    pub payment_method: String,
    /// What it is for: the payment intent's id.
    pub reference: String,
}

/// How a payment stands at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// It is known, and no money moves.
    RequiresConfirmation,
    /// The customer must prove who they are.
    RequiresAction,
    /// It is on its way.
    Processing,
    /// The money is there. It stays so.
    Succeeded,
    /// There will be no money. It stays so.
    Declined,
    /// It was taken back before any money moved. It stays so.
    Canceled,
}

impl PaymentStatus {
    /// True if nothing changes any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Declined | Self::Canceled)
    }
}

/// A payment at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The gateway's own name for it.
    pub id: String,
    /// How it stands.
    pub status: PaymentStatus,
    /// How much.
    pub amount: Money,
    /// What it is for.
    pub reference: String,
    /// Why it was declined, in a word: `insufficient_funds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<String>,
    /// Where the customer goes to prove who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_url: Option<String>,
}

impl Payment {
    /// What the gateway would not even make known: it has no name there.
    pub(crate) fn refused(charge: &Charge, why: String) -> Self {
        Self {
            id: String::new(),
            status: PaymentStatus::Declined,
            amount: charge.amount,
            reference: charge.reference.clone(),
            decline: Some(why),
            action_url: None,
        }
    }
}

/// What a gateway's webhook says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayEvent {
    /// The same for each copy of the event.
    pub id: String,
    /// The payment as it stood when it was written.
    pub payment: Payment,
}

/// Why there is no answer, and whether to ask again.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum GatewayError {
    /// It was not taken, and may be later.
    #[error("the gateway is busy: {text}")]
    Busy {
        /// What it said.
        text: String,
        /// How long it asks to be left alone.
        after: Option<Duration>,
    },
    /// It may have been taken. The same call with the same key tells.
    #[error("the gateway's answer is lost: {text}")]
    Unknown {
        /// What went wrong.
        text: String,
    },
    /// It was refused, and will be again.
    #[error("the gateway refuses: {text}")]
    Refused {
        /// Why.
        text: String,
    },
}

impl GatewayError {
    /// True if the same call with the same key makes sense.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// How long the gateway asks to be left alone.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => *after,
            _ => None,
        }
    }
}

/// A call of a gateway about a payment, or about something else.
pub type Asking<T = Payment> = LocalFuture<Result<T, GatewayError>>;

/// An adapter to a payment gateway. Inside an object its calls leave when what was written before them is on disk.
pub trait Gateway: Send + Sync + 'static {
    /// Makes a payment known. No money moves. The same key gives the same payment.
    fn create(&self, env: &Env, key: &str, charge: &Charge) -> Asking;

    /// Moves the money, or says what is missing. The same key moves it once.
    fn confirm(&self, env: &Env, key: &str, payment: &str) -> Asking;

    /// Takes a payment back that is not on its way.
    fn cancel(&self, env: &Env, key: &str, payment: &str) -> Asking;

    /// How a payment stands.
    fn status(&self, env: &Env, payment: &str) -> Asking;

    /// Gives money of a payment back that has succeeded: never more than it was over. The same key gives the same refund.
    fn refund(&self, env: &Env, key: &str, charge: &RefundCharge) -> Asking<Refund>;

    /// How a refund stands.
    fn refund_status(&self, env: &Env, refund: &str) -> Asking<Refund>;
}

/// The gateway of a node, to be shared with [`HostBuilder::with`](abide::server::HostBuilder::with) or
/// [`NodeBuilder::with`](abide::NodeBuilder::with).
#[derive(Clone)]
pub struct AnyGateway(Arc<dyn Gateway>);

impl AnyGateway {
    /// This one.
    pub fn new(gateway: impl Gateway) -> Self {
        Self(Arc::new(gateway))
    }
}

impl std::ops::Deref for AnyGateway {
    type Target = dyn Gateway;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for AnyGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyGateway")
    }
}
