//! What an outcome of a subscription wants of its invoices.

use abide::Result;
use abide::outcomes::Entry;
use serde::{Deserialize, Serialize};

use crate::states::{
    Attempt, Collected, CreditEffect, CreditNote, Credited, Draft, Invoiced, Subscription,
};

/// An invoice is to be collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// The invoice's id.
    pub invoice: String,
    /// The attempt that is to begin, from 1. 0 if nothing is due: the invoice is created, and is paid.
    pub attempt: u32,
    /// What it is created with. None with attempts after the first.
    pub draft: Option<Draft>,
    /// Nobody is to pay it: it is voided instead.
    #[serde(default)]
    pub void: bool,
    /// A credit note lessens it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<CreditNote>,
}

impl Collection {
    /// What tells it from all others of its subscription.
    pub(super) fn name(&self) -> String {
        if let Some(note) = &self.credit {
            return format!("credit {} {}", self.invoice, note.id);
        }
        let what = if self.void { "void" } else { "collect" };
        format!("{what} {} {}", self.invoice, self.attempt)
    }
}

/// What an outcome wants of an invoice, by the subscription after it.
pub fn order(entry: &Entry, subscription: &Subscription) -> Result<Option<Collection>> {
    match (entry.action.as_str(), entry.outcome.as_str()) {
        ("bill", "invoiced") => {
            let Invoiced { draft } = entry.data()?;
            let invoice = draft.id();
            Ok(Some(Collection {
                attempt: u32::from(subscription.owed.contains_key(&invoice)),
                invoice,
                draft: Some(draft),
                void: false,
                credit: None,
            }))
        }
        ("retry", "attempted") => {
            let Attempt { invoice, attempt } = entry.data()?;
            Ok(Some(Collection {
                invoice,
                attempt,
                draft: None,
                void: false,
                credit: None,
            }))
        }
        ("collect", "voided" | "cleared") => {
            let Collected {
                invoice, attempt, ..
            } = entry.data()?;
            Ok(Some(Collection {
                invoice,
                attempt,
                draft: None,
                void: true,
                credit: None,
            }))
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
            Ok(Some(Collection {
                invoice: credited.invoice,
                attempt: 0,
                draft: None,
                void: false,
                credit: Some(note),
            }))
        }
        _ => Ok(None),
    }
}
