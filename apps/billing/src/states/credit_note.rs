//! Credit notes, which reduce an invoice.

use serde::{Deserialize, Serialize};

use crate::Money;

/// The effect of a credit note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditEffect {
    /// The customer owes less.
    Reduced,
    /// Paid money is refunded.
    Refunded,
    /// Paid money becomes credit for the next invoice.
    Credited,
}

/// A credit note: the data of `credit` of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreditNote {
    /// Its id.
    pub id: String,
    /// How much.
    pub amount: Money,
    /// What it does.
    pub effect: CreditEffect,
    /// The refund that carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CreditNote {
    /// The refund that carries out a credit note.
    pub fn refund_of(note: &str) -> String {
        format!("re_{note}")
    }
}
