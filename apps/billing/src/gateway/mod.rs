//! The payment gateway.
//!
//! Contract: a [`Gateway`] moves money at most once for each idempotency key, however often a call with it is repeated.
//! Errors say whether a retry makes sense. The state of a payment is available from [`Gateway::status`] at any time,
//! and from webhooks, which may be duplicated, late or lost.

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

/// A charge: what to pay, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// How much, above zero.
    pub amount: Money,
    /// The gateway's token for the customer's card.
    pub payment_method: String,
    /// What it is for: the payment intent's id.
    pub reference: String,
}

/// The status of a payment at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// Created; no money moves.
    RequiresConfirmation,
    /// Waiting for customer authentication.
    RequiresAction,
    /// In progress.
    Processing,
    /// The money was transferred. Final.
    Succeeded,
    /// No money was transferred. Final.
    Declined,
    /// Canceled before any money moved. Final.
    Canceled,
}

impl PaymentStatus {
    /// Returns whether the status is final.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Declined | Self::Canceled)
    }
}

/// A payment at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The gateway's id for it.
    pub id: String,
    /// Its status.
    pub status: PaymentStatus,
    /// How much.
    pub amount: Money,
    /// What it is for.
    pub reference: String,
    /// The decline code, such as `insufficient_funds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<String>,
    /// Where the customer authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_url: Option<String>,
}

impl Payment {
    /// A payment that the gateway rejected on creation: it has no id there.
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

/// The content of a gateway webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayEvent {
    /// The same for each copy of the event.
    pub id: String,
    /// The payment as of the event.
    pub payment: Payment,
}

/// Why a call failed, and whether to retry.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum GatewayError {
    /// It was not accepted; a retry may be.
    #[error("the gateway is busy: {text}")]
    Busy {
        /// The gateway's message.
        text: String,
        /// The requested wait.
        after: Option<Duration>,
    },
    /// It may have been accepted. The same call with the same key finds out.
    #[error("the gateway's answer is lost: {text}")]
    Unknown {
        /// The cause.
        text: String,
    },
    /// It was rejected, and a retry would be, too.
    #[error("the gateway refuses: {text}")]
    Refused {
        /// The reason.
        text: String,
    },
}

impl GatewayError {
    /// Returns whether to retry with the same call and key.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// The wait requested by the gateway.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => *after,
            _ => None,
        }
    }
}

/// A call of a gateway about a payment, or another subject.
pub type Asking<T = Payment> = LocalFuture<Result<T, GatewayError>>;

/// An adapter to a payment gateway. Inside an object its calls leave once earlier writes are durable.
pub trait Gateway: Send + Sync + 'static {
    /// Creates a payment. No money moves. The same key gives the same payment.
    fn create(&self, env: &Env, key: &str, charge: &Charge) -> Asking;

    /// Moves the money, or returns what is missing. The same key moves it once.
    fn confirm(&self, env: &Env, key: &str, payment: &str) -> Asking;

    /// Cancels a payment that is not in progress.
    fn cancel(&self, env: &Env, key: &str, payment: &str) -> Asking;

    /// The status of a payment.
    fn status(&self, env: &Env, payment: &str) -> Asking;

    /// Refunds a successful payment, up to its amount. The same key gives the same refund.
    fn refund(&self, env: &Env, key: &str, charge: &RefundCharge) -> Asking<Refund>;

    /// The status of a refund.
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
