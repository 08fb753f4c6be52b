//! Credit notes: what an invoice is lessened by.

use serde::{Deserialize, Serialize};

use crate::Money;

/// What a credit note does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditEffect {
    /// Less is owed.
    Reduced,
    /// Money that was paid goes back.
    Refunded,
    /// Money that was paid is credit for the next invoice.
    Credited,
}

/// A credit note. What `credit` of an invoice says.
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
