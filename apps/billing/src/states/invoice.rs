//! Invoices.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    CreditEffect, CreditNote, MAX_CREDIT_NOTES, Metadata, NewIntent, PaymentResult, Refusal, Step,
    Verdict,
};
use crate::{Line, LineKind, Lines, Money, MoneyError, Period, Totals};

/// The data of `create` of an invoice, as decided by its subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// The subscription's id.
    pub subscription: String,
    /// The customer's id.
    pub customer: String,
    /// The billed period.
    pub period: Period,
    /// Its lines.
    pub lines: Lines,
}

impl Draft {
    /// The id of the invoice: one for each period of a subscription, so nothing is billed twice.
    pub fn id(&self) -> String {
        Self::id_of(&self.subscription, self.period.number)
    }

    /// The id of the invoice of a period.
    pub fn id_of(subscription: &str, number: u32) -> String {
        format!("in_{subscription}_{number}")
    }

    /// The number of the period that an invoice of a subscription bills, if its id encodes one.
    pub fn number_of(subscription: &str, invoice: &str) -> Option<u32> {
        let rest = invoice.strip_prefix("in_")?.strip_prefix(subscription)?;
        let number = rest.strip_prefix('_')?.parse().ok()?;
        (Self::id_of(subscription, number) == invoice).then_some(number)
    }

    /// The credit that it uses, left over from other periods.
    pub fn used(&self) -> Result<Option<Money>, MoneyError> {
        let others = self.lines.all().iter();
        let others = others.filter(|line| line.kind != LineKind::Period);
        let others = others.map(|line| line.amount);
        let net = Money::sum(self.lines.currency(), others)?;
        Ok(net.is_negative().then(|| net.negated()))
    }

    /// Its totals.
    pub fn totals(&self) -> Result<Totals, MoneyError> {
        self.lines.totals()
    }
}

/// The data of `pay` of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempted {
    /// The payment intent's id.
    pub intent: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The part of the payment that exceeds the amount owed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surplus: Option<Money>,
}

/// An invoice for a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    /// What it was created with.
    pub draft: Option<Draft>,
    /// The amount to pay.
    pub due: Option<Money>,
    /// The latest attempt that has begun; 0 before the first.
    pub attempts: u32,
    /// The latest attempt that failed, which is the number of failures; 0 for none.
    pub failures: u32,
    /// The latest attempt that required customer authentication; 0 for none.
    pub asked: u32,
    /// The intent that paid it.
    pub paid_by: Option<String>,
    /// The part of that payment that exceeded the amount owed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surplus: Option<Money>,
    /// Intents whose payments arrived when nothing was owed any more.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub late: BTreeSet<String>,
    /// Its credit notes, by their id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credit_notes: BTreeMap<String, CreditNote>,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Invoice {
    /// The id of the intent of an attempt.
    pub fn intent(invoice: &str, attempt: u32) -> String {
        format!("pi_{invoice}_{attempt}")
    }

    /// Its lines; none before it was created.
    pub fn lines(&self) -> &[Line] {
        self.draft.as_ref().map_or(&[], |draft| draft.lines.all())
    }

    /// The payment for an attempt: the next one, or one that has begun.
    pub fn attempt(&self, id: &str, attempt: u32) -> Result<NewIntent, Refusal> {
        let (Some(draft), Some(amount)) = (&self.draft, self.due) else {
            return Err(Refusal::invalid("The invoice has not been created."));
        };
        if !(1..=self.attempts + 1).contains(&attempt) {
            return Err(Refusal::invalid(format!(
                "The next attempt of {id} is {}, not {attempt}.",
                self.attempts + 1
            )));
        }
        Ok(NewIntent {
            invoice: id.to_owned(),
            subscription: draft.subscription.clone(),
            customer: draft.customer.clone(),
            attempt,
            amount,
        })
    }

    /// What a payment's report means: an outcome of `pay`, or nothing if it was already reported.
    pub fn report(
        &self,
        id: &str,
        state: &str,
        result: &PaymentResult,
    ) -> Result<Option<(&'static str, Attempted)>, Refusal> {
        let refuse = |text: String| Err(Refusal::invalid(text));
        if result.invoice != id || result.intent != Self::intent(id, result.attempt) {
            return refuse(format!("{} is not a payment of {id}.", result.intent));
        }
        if !result.is_of_one_of(self.attempts) {
            return refuse(format!("There was no attempt {} of {id}.", result.attempt));
        }
        let outcome = match result.verdict {
            Verdict::Paid if self.paid_by.as_ref() == Some(&result.intent) => return Ok(None),
            Verdict::Paid if self.late.contains(&result.intent) => return Ok(None),
            Verdict::Paid if matches!(state, "paid" | "void") => "late",
            Verdict::Paid if !self.is_paid_with(result.amount) => {
                return refuse(format!("{id} does not amount to {}.", result.amount));
            }
            Verdict::Paid => "paid",
            _ if matches!(state, "paid" | "void") => return Ok(None),
            Verdict::Failed if result.is_news_after(self.failures) => "failed",
            Verdict::RequiresAction if result.attempt > self.failures.max(self.asked) => {
                "requires_action"
            }
            _ => return Ok(None),
        };
        let attempted = Attempted {
            intent: result.intent.clone(),
            attempt: result.attempt,
            reason: result.reason.clone(),
            surplus: self.surplus_of(result).filter(|_| outcome == "paid"),
        };
        Ok(Some((outcome, attempted)))
    }

    /// Returns whether an amount pays it: the amount due now, or before a credit note.
    fn is_paid_with(&self, amount: Money) -> bool {
        let due = self.due.unwrap_or_else(|| Money::zero(amount.currency()));
        let reduced = self.credit_notes.values();
        let reduced = reduced.filter(|note| note.effect == CreditEffect::Reduced);
        let most = reduced.fold(due.amount(), |most, note| {
            most.saturating_add(note.amount.amount())
        });
        amount.currency() == due.currency() && (due.amount()..=most).contains(&amount.amount())
    }

    fn surplus_of(&self, result: &PaymentResult) -> Option<Money> {
        let surplus = result.amount.minus(self.due?).ok()?;
        (surplus.amount() > 0).then_some(surplus)
    }

    /// The part of a payment to refund because nothing, or less, was owed.
    pub fn gives_back(&self, result: &PaymentResult) -> Option<Money> {
        if self.late.contains(&result.intent) {
            return Some(result.amount);
        }
        self.surplus
            .filter(|_| self.paid_by.as_ref() == Some(&result.intent))
    }

    /// The amount that can still be credited: what is due, or what was paid and not refunded by another credit note.
    pub fn creditable(&self, state: &str) -> Result<Money, Refusal> {
        let due = self
            .due
            .ok_or_else(|| Refusal::invalid("The invoice has not been created."))?;
        if state != "paid" {
            return Ok(due);
        }
        let back = self.credit_notes.values();
        let back = back.filter(|note| note.effect != CreditEffect::Reduced);
        Ok(due.minus(Money::sum(due.currency(), back.map(|note| note.amount))?)?)
    }

    /// Rejects a credit note that exceeds that amount.
    pub fn may_credit(&self, state: &str, amount: Money) -> Result<(), Refusal> {
        if self.credit_notes.len() >= MAX_CREDIT_NOTES {
            return Err(Refusal::invalid(format!(
                "An invoice may have at most {MAX_CREDIT_NOTES} credit notes."
            )));
        }
        let left = self.creditable(state)?;
        if amount.amount() <= 0 || left.minus(amount)?.is_negative() {
            return Err(Refusal::invalid(format!(
                "A credit note for the invoice must be above zero, and at most {left}."
            )));
        }
        Ok(())
    }

    fn credited(&mut self, outcome: &str, note: CreditNote) {
        if outcome == "withdrawn" {
            self.credit_notes.remove(&note.id);
            return;
        }
        if note.effect == CreditEffect::Reduced {
            self.due = self.due.and_then(|due| due.minus(note.amount).ok());
        }
        self.credit_notes.insert(note.id.clone(), note);
    }

    /// Rejects an invalid new outcome.
    #[allow(clippy::unused_self, reason = "as every state has it")]
    pub fn validate(&self, _step: &Step<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        match step.action {
            "create" => {
                let draft: Draft = step.data()?;
                self.due = Some(draft.totals()?.due);
                self.draft = Some(draft);
            }
            "pay" => {
                let attempted: Attempted = step.data()?;
                match step.outcome {
                    "attempted" => self.attempts = self.attempts.max(attempted.attempt),
                    "failed" => self.failures = self.failures.max(attempted.attempt),
                    "requires_action" => self.asked = self.asked.max(attempted.attempt),
                    "paid" => {
                        self.paid_by = Some(attempted.intent);
                        self.surplus = attempted.surplus;
                    }
                    "late" => {
                        self.late.insert(attempted.intent);
                    }
                    _ => {}
                }
            }
            "credit" => self.credited(step.outcome, step.data()?),
            _ => {}
        }
        Ok(())
    }
}
