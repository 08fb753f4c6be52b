//! Refunds at the gateway.

use serde::{Deserialize, Serialize};

use crate::Money;

/// A refund to request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundCharge {
    /// The payment's id at the gateway.
    pub payment: String,
    /// How much, above zero.
    pub amount: Money,
    /// What it is for: the refund's id.
    pub reference: String,
}

/// The status of a refund at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    /// It is on its way.
    Pending,
    /// The money was returned. Final.
    Succeeded,
    /// The money was not returned. Final.
    Failed,
}

/// A refund at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The gateway's id for it.
    pub id: String,
    /// The payment's id at the gateway.
    pub payment: String,
    /// Its status.
    pub status: RefundStatus,
    /// How much.
    pub amount: Money,
    /// What it is for.
    pub reference: String,
    /// The failure code, such as `expired_card`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The content of a gateway webhook about a refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundEvent {
    /// The same for each copy of the event.
    pub id: String,
    /// The refund as of the event.
    pub refund: Refund,
}
