//! The gateway's refunds.
//!
//! Contract: the refunds of a payment never exceed its amount; a key gives the same refund each time; a finished refund
//! never changes.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    book::{Book, Refusal},
    card::Card,
};
use crate::gateway::{PaymentStatus, Refund, RefundCharge, RefundStatus};

/// Status queries of a slow refund that are answered with "pending".
const SLOW_QUESTIONS: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    refund: Refund,
    questions: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Refunds {
    entries: Vec<Entry>,
    /// The refund of each key.
    keys: HashMap<String, usize>,
    /// Counts changes.
    changes: u64,
}

impl Refunds {
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Refund> {
        self.entries.iter().map(|entry| entry.refund.clone())
    }

    /// Refunds a payment; returns whether this changed anything.
    pub(super) fn create(
        &mut self,
        book: &Book,
        key: &str,
        body: &[u8],
    ) -> Result<(Refund, bool), Refusal> {
        let charge: RefundCharge =
            serde_json::from_slice(body).map_err(|error| Refusal::NoCharge(error.to_string()))?;
        if let Some(number) = self.keys.get(key) {
            let refund = &self.entries[*number].refund;
            let same = refund.payment == charge.payment
                && refund.amount == charge.amount
                && refund.reference == charge.reference;
            return same
                .then(|| (refund.clone(), false))
                .ok_or(Refusal::KeyReused);
        }
        let (payment, card) = book.paid_with(&charge.payment)?;
        if payment.status != PaymentStatus::Succeeded {
            return Err(Refusal::TooLate);
        }
        let stands = |refund: &Refund| {
            refund.payment == charge.payment && refund.status != RefundStatus::Failed
        };
        let gone: i64 = self.all().filter(stands).map(|r| r.amount.amount()).sum();
        let is_within = charge.amount.currency() == payment.amount.currency()
            && charge.amount.amount() > 0
            && gone + charge.amount.amount() <= payment.amount.amount();
        if !is_within {
            return Err(Refusal::TooMuch);
        }
        let status = match card {
            Card::Slow => RefundStatus::Pending,
            Card::Unrefundable => RefundStatus::Failed,
            _ => RefundStatus::Succeeded,
        };
        let number = self.entries.len();
        let refund = Refund {
            id: format!("ref_{}", number + 1),
            payment: charge.payment,
            status,
            amount: charge.amount,
            reference: charge.reference,
            failure: (status == RefundStatus::Failed).then(|| "closed_card".to_owned()),
        };
        self.changes += 1;
        self.keys.insert(key.to_owned(), number);
        self.entries.push(Entry {
            refund: refund.clone(),
            questions: 0,
        });
        Ok((refund, true))
    }

    /// The status of a refund; returns whether it changed.
    pub(super) fn status(&mut self, id: &str) -> Result<(Refund, bool), Refusal> {
        let found = self.entries.iter_mut().find(|entry| entry.refund.id == id);
        let entry = found.ok_or(Refusal::NotFound)?;
        let mut changed = false;
        if entry.refund.status == RefundStatus::Pending {
            self.changes += 1;
            entry.questions += 1;
            if entry.questions > SLOW_QUESTIONS {
                entry.refund.status = RefundStatus::Succeeded;
                changed = true;
            }
        }
        Ok((entry.refund.clone(), changed))
    }
}
