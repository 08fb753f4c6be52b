//! Refunds at the gateway.

use serde::{Deserialize, Serialize};

use crate::Money;

/// What is to be given back, of which payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundCharge {
    /// The payment's id at the gateway.
    pub payment: String,
    /// How much, above zero.
    pub amount: Money,
    /// What it is for: the refund's id.
    pub reference: String,
}

/// How a refund stands at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    /// It is on its way.
    Pending,
    /// The money is back. It stays so.
    Succeeded,
    /// The money is not back, and will not be. It stays so.
    Failed,
}

/// A refund at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The gateway's own name for it.
    pub id: String,
    /// The payment's id at the gateway.
    pub payment: String,
    /// How it stands.
    pub status: RefundStatus,
    /// How much.
    pub amount: Money,
    /// What it is for.
    pub reference: String,
    /// Why it failed, in a word: `expired_card`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What a gateway's webhook says of a refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundEvent {
    /// The same for each copy of the event.
    pub id: String,
    /// The refund as it stood when it was written.
    pub refund: Refund,
}
