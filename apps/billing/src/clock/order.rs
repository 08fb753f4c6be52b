//! What an outcome of a subscription requires of its invoices.

use abide::Result;
use abide::outcomes::Entry;
use serde::{Deserialize, Serialize};

use crate::states::{
    Attempt, Collected, CreditEffect, CreditNote, Credited, Draft, Invoiced, Subscription,
};

/// An order to collect an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// The invoice's id.
    pub invoice: String,
    /// The attempt to begin, from 1. 0 if nothing is due: the invoice is created as paid.
    pub attempt: u32,
    /// The draft for creating it. None for attempts after the first.
    pub draft: Option<Draft>,
    /// Void it instead: it is not to be paid.
    pub void: bool,
    /// Ask it first what has become of it, because the subscription was restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ask: bool,
    /// Reduce it by a credit note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<CreditNote>,
}

impl Collection {
    /// Asks an invoice, and continues with its latest attempt.
    pub(super) fn question(invoice: &str) -> Self {
        Self {
            invoice: invoice.to_owned(),
            attempt: 0,
            draft: None,
            void: false,
            ask: true,
            credit: None,
        }
    }

    /// A name that is unique within its subscription.
    pub(super) fn name(&self) -> String {
        if let Some(note) = &self.credit {
            return format!("credit {} {}", self.invoice, note.id);
        }
        let what = match (self.void, self.ask) {
            (true, _) => "void",
            (_, true) => "ask",
            _ => "collect",
        };
        format!("{what} {} {}", self.invoice, self.attempt)
    }
}

/// The orders for invoices after an outcome, given the resulting subscription.
pub fn order(entry: &Entry, subscription: &Subscription) -> Result<Vec<Collection>> {
    match (entry.action.as_str(), entry.outcome.as_str()) {
        ("bill", "invoiced") => {
            let Invoiced { draft } = entry.data()?;
            let invoice = draft.id();
            Ok(vec![Collection {
                attempt: u32::from(subscription.owed.contains_key(&invoice)),
                invoice,
                draft: Some(draft),
                void: false,
                ask: false,
                credit: None,
            }])
        }
        ("retry", "attempted") => {
            let Attempt { invoice, attempt } = entry.data()?;
            Ok(vec![Collection {
                invoice,
                attempt,
                draft: None,
                void: false,
                ask: false,
                credit: None,
            }])
        }
        ("collect", "voided" | "cleared") => {
            let Collected {
                invoice, attempt, ..
            } = entry.data()?;
            Ok(vec![Collection {
                invoice,
                attempt,
                draft: None,
                void: true,
                ask: false,
                credit: None,
            }])
        }
        ("credit", "reduced") => {
            let credited: Credited = entry.data()?;
            let note = CreditNote {
                id: credited.id,
                amount: credited.amount,
                effect: CreditEffect::Reduced,
                refund: None,
                reason: credited.reason,
            };
            Ok(vec![Collection {
                invoice: credited.invoice,
                attempt: 0,
                draft: None,
                void: false,
                ask: false,
                credit: Some(note),
            }])
        }
        ("restore", "restored") => {
            let asked = subscription.asks.iter();
            Ok(asked.map(|invoice| Collection::question(invoice)).collect())
        }
        _ => Ok(Vec::new()),
    }
}
