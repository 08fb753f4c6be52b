//! The gateway's payments.
//!
//! Contract: a key belongs to one call and gives the same payment each time; a finished payment never changes.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{card::Card, mischief::percent_of};
use crate::gateway::{Charge, Payment, PaymentStatus};

/// Status queries of a slow payment that are answered with "processing".
const SLOW_QUESTIONS: u32 = 2;

/// The totals of all payments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Paid.
    pub succeeded: u64,
    /// Declined.
    pub declined: u64,
    /// Canceled.
    pub canceled: u64,
    /// Unfinished.
    pub open: u64,
}

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("There is no such payment.")]
    NotFound,
    #[error("A POST must have an Idempotency-Key.")]
    NoKey,
    #[error("The key belongs to another request.")]
    KeyReused,
    #[error("Not a valid charge: {0}.")]
    NoCharge(String),
    #[error("The refunds exceed the amount of the payment.")]
    TooMuch,
    #[error("The payment is being processed, or is finished.")]
    TooLate,
}

impl Refusal {
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::KeyReused | Self::NoCharge(_) | Self::TooMuch => 422,
            Self::NoKey => 400,
            // 409 would mean that an earlier attempt may still be running.
            Self::TooLate => 403,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    payment: Payment,
    card: Card,
    key: String,
    questions: u32,
}

/// The request that a key was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Create,
    Confirm,
    Cancel,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Book {
    seed: u64,
    entries: Vec<Entry>,
    /// The payment and the request of each key.
    keys: HashMap<String, (usize, Act)>,
    /// Payments waiting for customer authentication.
    waiting: BTreeSet<usize>,
    events: u64,
    /// Counts changes.
    changes: u64,
}

impl Book {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            entries: Vec::new(),
            keys: HashMap::new(),
            waiting: BTreeSet::new(),
            events: 0,
            changes: 0,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Payment> {
        self.entries.iter().map(|entry| entry.payment.clone())
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = Payment> {
        let waiting = self.waiting.iter();
        waiting.map(|number| self.entries[*number].payment.clone())
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for entry in &self.entries {
            *match entry.payment.status {
                PaymentStatus::Succeeded => &mut tally.succeeded,
                PaymentStatus::Declined => &mut tally.declined,
                PaymentStatus::Canceled => &mut tally.canceled,
                _ => &mut tally.open,
            } += 1;
        }
        tally
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn event_id(&mut self) -> String {
        self.events += 1;
        format!("evt_{}", self.events)
    }

    pub(super) fn create(&mut self, key: &str, body: &[u8]) -> Result<Payment, Refusal> {
        let refuse = |why: String| Refusal::NoCharge(why);
        let charge: Charge =
            serde_json::from_slice(body).map_err(|error| refuse(error.to_string()))?;
        let card = Card::named(&charge.payment_method)
            .ok_or_else(|| refuse(format!("there is no card {}", charge.payment_method)))?;
        if charge.amount.amount() <= 0 {
            return Err(refuse("the amount is not above zero".to_owned()));
        }
        if let Some(number) = self.known(key, Act::Create)? {
            let entry = &self.entries[number];
            let same = entry.payment.amount == charge.amount
                && entry.payment.reference == charge.reference
                && entry.card == card;
            return same
                .then(|| entry.payment.clone())
                .ok_or(Refusal::KeyReused);
        }
        let number = self.entries.len();
        self.changes += 1;
        self.keys.insert(key.to_owned(), (number, Act::Create));
        let payment = Payment {
            id: format!("pay_{}", number + 1),
            status: PaymentStatus::RequiresConfirmation,
            amount: charge.amount,
            reference: charge.reference,
            decline: None,
            action_url: None,
        };
        self.entries.push(Entry {
            payment: payment.clone(),
            card,
            key: key.to_owned(),
            questions: 0,
        });
        Ok(payment)
    }

    /// Moves the money; returns whether this changed anything.
    pub(super) fn confirm(&mut self, key: &str, id: &str) -> Result<(Payment, bool), Refusal> {
        let number = self.find(id)?;
        if let Some(known) = self.known(key, Act::Confirm)? {
            return if known == number {
                Ok((self.entries[number].payment.clone(), false))
            } else {
                Err(Refusal::KeyReused)
            };
        }
        let entry = &mut self.entries[number];
        if entry.payment.status != PaymentStatus::RequiresConfirmation {
            return Err(Refusal::TooLate);
        }
        self.changes += 1;
        self.keys.insert(key.to_owned(), (number, Act::Confirm));
        let payment = &mut entry.payment;
        match entry.card {
            Card::Slow => payment.status = PaymentStatus::Processing,
            Card::Secured => {
                payment.status = PaymentStatus::RequiresAction;
                payment.action_url = Some(format!("/pay/{}", payment.id));
                self.waiting.insert(number);
            }
            Card::Declined => decline(payment, "card_declined"),
            // Depends on the client's key, not on the order of payments.
            Card::Flaky(percent) if percent_of(self.seed, &entry.key) < percent => {
                decline(payment, "insufficient_funds");
            }
            Card::Good | Card::Unrefundable | Card::Flaky(_) => {
                payment.status = PaymentStatus::Succeeded;
            }
        }
        Ok((payment.clone(), true))
    }

    pub(super) fn cancel(&mut self, key: &str, id: &str) -> Result<Payment, Refusal> {
        let number = self.find(id)?;
        if let Some(known) = self.known(key, Act::Cancel)? {
            return if known == number {
                Ok(self.entries[number].payment.clone())
            } else {
                Err(Refusal::KeyReused)
            };
        }
        let payment = &mut self.entries[number].payment;
        match payment.status {
            PaymentStatus::RequiresConfirmation | PaymentStatus::RequiresAction => {
                payment.status = PaymentStatus::Canceled;
                payment.action_url = None;
                self.changes += 1;
                self.waiting.remove(&number);
                self.keys.insert(key.to_owned(), (number, Act::Cancel));
                Ok(payment.clone())
            }
            PaymentStatus::Canceled => Ok(payment.clone()),
            _ => Err(Refusal::TooLate),
        }
    }

    /// A payment, and its card.
    pub(super) fn paid_with(&self, id: &str) -> Result<(&Payment, Card), Refusal> {
        let entry = &self.entries[self.find(id)?];
        Ok((&entry.payment, entry.card))
    }

    pub(super) fn status(&mut self, id: &str) -> Result<Payment, Refusal> {
        let number = self.find(id)?;
        let entry = &mut self.entries[number];
        if entry.payment.status == PaymentStatus::Processing {
            self.changes += 1;
            entry.questions += 1;
            if entry.questions > SLOW_QUESTIONS {
                entry.payment.status = PaymentStatus::Succeeded;
            }
        }
        Ok(entry.payment.clone())
    }

    pub(super) fn authenticate(&mut self, id: &str, succeeds: bool) -> Option<Payment> {
        let number = self.find(id).ok()?;
        let payment = &mut self.entries[number].payment;
        if payment.status != PaymentStatus::RequiresAction {
            return None;
        }
        payment.action_url = None;
        self.changes += 1;
        self.waiting.remove(&number);
        if succeeds {
            payment.status = PaymentStatus::Succeeded;
        } else {
            decline(payment, "authentication_failed");
        }
        Some(payment.clone())
    }

    fn find(&self, id: &str) -> Result<usize, Refusal> {
        let number: usize = id
            .strip_prefix("pay_")
            .and_then(|number| number.parse().ok())
            .ok_or(Refusal::NotFound)?;
        let number = number.checked_sub(1).ok_or(Refusal::NotFound)?;
        (number < self.entries.len())
            .then_some(number)
            .ok_or(Refusal::NotFound)
    }

    fn known(&self, key: &str, act: Act) -> Result<Option<usize>, Refusal> {
        match self.keys.get(key) {
            None => Ok(None),
            Some((number, before)) if *before == act => Ok(Some(*number)),
            Some(_) => Err(Refusal::KeyReused),
        }
    }
}

fn decline(payment: &mut Payment, why: &str) {
    payment.status = PaymentStatus::Declined;
    payment.decline = Some(why.to_owned());
}
