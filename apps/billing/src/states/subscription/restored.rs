//! A subscription that was restored: what its invoices say of what it has forgotten.
//!
//! Contract: a restore rewinds a subscription and not its invoices, which have the ids of the periods that they bill.
//! So an invoice that the subscription bills may exist, and one that it owes may be paid. It asks each of them before
//! anything else happens, and takes their word: an invoice of the undone future stands, and is never issued twice.

use serde::{Deserialize, Serialize};

use super::{
    super::{CreditEffect, Invoice, Refusal},
    Credited, Owed, Subscription, number_of,
};
use crate::{Line, LineKind, Money, Time};

/// The data of `restore` with `restored`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restored {
    /// When it was restored.
    pub at: Time,
    /// The time of the last outcome that was restored.
    pub to_at: Time,
    /// The bookmark of the state that was restored.
    pub to: String,
    /// The timeline that began. It is also the bookmark of the state that was left.
    pub timeline: String,
}

/// The data of `copy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// The object that was copied.
    pub origin: String,
    /// The bookmark of the state that was copied.
    pub bookmark: String,
}

/// The data of `restore` with `found`: what an invoice has said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The invoice's id.
    pub invoice: String,
    /// What has become of it. None if it does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debt: Option<Debt>,
    /// The line on the next invoice, if the invoice was issued over another amount than this chain has billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// The credit notes that have reduced it, and that the chain does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Credited>,
}

/// What is owed for an invoice, as the invoice says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Debt {
    /// How much.
    pub amount: Money,
    /// The amount deducted by credit notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Money>,
    /// Attempts that have begun.
    pub attempts: u32,
}

impl Subscription {
    /// What an invoice says that exists, in a state; or that it does not exist.
    pub fn found(&self, id: &str, invoice: Option<(&str, &Invoice)>) -> Result<Found, Refusal> {
        let mut found = Found {
            invoice: id.to_owned(),
            debt: None,
            line: None,
            notes: Vec::new(),
        };
        let Some((state, invoice)) = invoice else {
            return Ok(found);
        };
        let (Some(draft), Some(amount)) = (&invoice.draft, invoice.due) else {
            return Ok(found);
        };
        let reduced = invoice.credit_notes.values();
        let reduced: Vec<_> = reduced
            .filter(|note| note.effect == CreditEffect::Reduced)
            .collect();
        let sum = Money::sum(amount.currency(), reduced.iter().map(|note| note.amount))?;
        let known = self.owed.get(id);
        let billed = known.map_or(Ok(Money::zero(amount.currency())), Owed::issued)?;
        let issued = draft.totals()?.due;
        if known.is_none() && issued.is_zero() {
            return Ok(found);
        }
        found.debt = Some(Debt {
            amount,
            reduced: Some(sum).filter(|sum| !sum.is_zero()),
            attempts: invoice.attempts.max(1),
        });
        found.line = self
            .correction(id, billed.minus(issued)?)
            .filter(|_| state != "void");
        found.notes = reduced
            .into_iter()
            .filter(|note| !self.knows_credit(&note.id))
            .map(|note| Credited {
                id: note.id.clone(),
                invoice: id.to_owned(),
                amount: note.amount,
                reason: note.reason.clone(),
            })
            .collect();
        Ok(found)
    }

    /// The line for the amount that an invoice was issued under what this chain has billed for it.
    fn correction(&self, invoice: &str, less: Money) -> Option<Line> {
        let of_period = self.changes_only != number_of(invoice);
        (!less.is_zero()).then(|| Line {
            kind: if less.is_negative() {
                LineKind::ProrationCredit
            } else {
                LineKind::ProrationCharge
            },
            description: format!("{invoice} was issued before a restore"),
            price: None,
            period: number_of(invoice)
                .filter(|_| of_period)
                .and_then(|number| self.numbered(number)),
            amount: less,
        })
    }

    /// It was restored: whatever it owes may be paid.
    pub(super) fn begins_again(&mut self) {
        self.restored = true;
        self.asks = self.owed.keys().cloned().collect();
    }

    pub(super) fn has_found(&mut self, found: Found) {
        self.asks.remove(&found.invoice);
        let used = self.covered.remove(&found.invoice);
        if let Some(debt) = found.debt {
            let changes_only = self.changes_only == number_of(&found.invoice);
            let owed = self.owed.entry(found.invoice);
            let owed = owed.or_insert_with(|| Owed {
                used,
                ..Owed::new(debt.amount, changes_only)
            });
            owed.amount = debt.amount;
            owed.reduced = debt.reduced;
            owed.attempts = owed.attempts.max(debt.attempts);
        }
        self.pending.extend(found.line);
        for note in found.notes {
            self.remember(&note);
        }
    }

    /// The attempt to collect an invoice that has begun, or is to begin, and has not ended.
    pub fn open_attempt(&self, invoice: &str) -> Option<u32> {
        let owed = self.owed.get(invoice)?;
        owed.is_on_its_way().then_some(owed.attempts)
    }
}
