//! Payment reports, and invoices that are paid or waived.

use serde::{Deserialize, Serialize};

use super::{
    super::{Draft, MAX_PENDING, Refusal},
    Collected, Owed, Subscription, number_of,
    proration::too_many,
};
use crate::{Line, LineKind, Money, Time};

/// What a payment reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaymentResult {
    /// The invoice's id.
    pub invoice: String,
    /// The payment intent's id.
    pub intent: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How much.
    pub amount: Money,
    /// The result.
    pub verdict: Verdict,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl PaymentResult {
    /// Whether it is about one of this many attempts.
    pub(in crate::states) fn is_of_one_of(&self, attempts: u32) -> bool {
        (1..=attempts).contains(&self.attempt)
    }

    /// Whether a failure is news when the last that was reported is of this attempt.
    pub(in crate::states) fn is_news_after(&self, failed: u32) -> bool {
        self.attempt > failed
    }
}

/// The result of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The money was transferred.
    Paid,
    /// No money was transferred, and this attempt is over.
    Failed,
    /// The customer must authenticate.
    RequiresAction,
}

/// What a report means for a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// New: write it as this outcome of `collect`.
    News(&'static str, Box<Collected>),
    /// Already reported, or superseded.
    Old,
}

impl Subscription {
    /// The outcome of `collect` for an invoice that need not be paid.
    pub fn cleared(
        &self,
        state: &str,
        invoice: &str,
        at: Time,
    ) -> Result<(&'static str, Collected), Refusal> {
        let owed = self.owed(invoice)?;
        let is_last = self.owed.len() == 1;
        let is_waived =
            !owed.changes_only && self.period.map(|period| period.number) == number_of(invoice);
        // For a waived period, the rest is free, too.
        let (lines, restored) = if is_waived {
            (Vec::new(), None)
        } else {
            self.lines_of_end(state, is_last, at)?
        };
        let cleared = Collected {
            invoice: invoice.to_owned(),
            intent: String::new(),
            attempt: owed.attempts,
            amount: owed.amount,
            reason: None,
            lines,
            restored,
            returned: owed.used,
            revoked: self.revoked(invoice, owed),
        };
        Ok((if is_last { "cleared" } else { "voided" }, cleared))
    }

    /// The same for voiding on request. A running attempt must end first, and a first invoice ends with its
    /// subscription.
    pub fn void(
        &self,
        state: &str,
        invoice: &str,
        at: Time,
    ) -> Result<(&'static str, Collected), Refusal> {
        let owed = self.owed(invoice)?;
        if owed.is_on_its_way() {
            return Err(on_its_way(invoice));
        }
        if state == "incomplete" {
            return Err(Refusal::invalid(
                "The first invoice of a subscription cannot be voided: end the subscription instead.",
            ));
        }
        if self.pending.len() >= MAX_PENDING {
            return Err(too_many(self.pending.len()));
        }
        self.cleared(state, invoice, at)
    }

    /// What was given back of the period of an invoice, on others, if the invoice is not to be paid.
    fn revoked(&self, invoice: &str, owed: &Owed) -> Option<Line> {
        let given_back = owed.changed.filter(|changed| changed.is_negative())?;
        let period = number_of(invoice).and_then(|number| self.numbered(number));
        (!owed.changes_only).then(|| Line {
            kind: LineKind::ProrationCharge,
            description: format!("Unused time of {invoice}, which is void"),
            price: None,
            period,
            amount: given_back.negated(),
        })
    }

    /// The invoices to void of a subscription that ended before its first payment, except those with a running attempt.
    pub fn unserved(
        &self,
        state: &str,
        at: Time,
    ) -> Result<Vec<(&'static str, Collected)>, Refusal> {
        let owed = self.owed.iter().filter(|(_, owed)| !owed.is_on_its_way());
        owed.map(|(invoice, _)| self.cleared(state, invoice, at))
            .collect()
    }

    /// Whether the last invoice that is owed is paid with this one.
    fn owes_one(&self) -> bool {
        self.owed.len() == 1
    }

    /// Returns whether an invoice was billed, and is no longer owed.
    pub fn is_settled(&self, id: &str, invoice: &str) -> bool {
        let number = Draft::number_of(id, invoice);
        number.is_some_and(|number| number < self.next) && !self.owed.contains_key(invoice)
    }

    /// What a payment report means at a moment. A repeated report is ignored.
    pub fn report(
        &self,
        id: &str,
        state: &str,
        result: &PaymentResult,
        at: Time,
    ) -> Result<Report, Refusal> {
        let Some(owed) = self.owed.get(&result.invoice) else {
            // The subscription will ask an invoice of an undone future when it bills it.
            return if self.restored || self.is_settled(id, &result.invoice) {
                Ok(Report::Old)
            } else {
                Err(Refusal::invalid(format!(
                    "{} is not an invoice of {id}.",
                    result.invoice
                )))
            };
        };
        if !result.is_of_one_of(owed.attempts) {
            return Err(Refusal::invalid(format!(
                "There was no attempt {} of {}.",
                result.attempt, result.invoice
            )));
        }
        let outcome = match result.verdict {
            Verdict::Paid if !owed.is_paid_with(result.amount) => {
                return Err(Refusal::invalid(format!(
                    "{} is owed for {}, not {}.",
                    owed.amount, result.invoice, result.amount
                )));
            }
            // A successful payment counts, whatever was reported before.
            Verdict::Paid if self.owes_one() => "settled",
            Verdict::Paid => "paid",
            Verdict::Failed if result.is_news_after(owed.failed) => "failed",
            Verdict::RequiresAction if result.attempt > owed.failed.max(owed.asked) => {
                "requires_action"
            }
            _ => return Ok(Report::Old),
        };
        let (lines, restored) = self.lines_of_end(state, outcome == "settled", at)?;
        let collected = Collected {
            invoice: result.invoice.clone(),
            intent: result.intent.clone(),
            attempt: result.attempt,
            amount: result.amount,
            reason: result.reason.clone(),
            lines,
            restored,
            returned: None,
            revoked: None,
        };
        Ok(Report::News(outcome, Box::new(collected)))
    }
}

pub(super) fn on_its_way(invoice: &str) -> Refusal {
    Refusal::invalid(format!(
        "A payment of {invoice} is in progress: wait until it has ended."
    ))
}
