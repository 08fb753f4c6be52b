//! Credit notes and refunds, as recorded by a subscription.

use serde::{Deserialize, Serialize};

use super::{
    super::{Draft, MAX_PENDING, Refusal},
    Collected, Credited, Subscription, number_of, on_its_way,
};
use crate::{Line, LineKind, Money, MoneyError, Period, Time};

/// Credits that are remembered to detect repeated reports: more than are in progress at a time.
const REMEMBERED: usize = 100;

/// The credited amount of a billed period, which plan changes and pauses must not credit again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// The period's number.
    pub number: u32,
    /// The part that no plan change or pause has withheld yet.
    pub amount: Money,
    /// The part that they have withheld. Resumed service is charged that much less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Money>,
}

impl Subscription {
    /// Returns whether a credit was already recorded.
    pub fn knows_credit(&self, id: &str) -> bool {
        self.credits.iter().any(|known| known == id)
    }

    /// Reduces the amount owed for an invoice; returns the additional outcome of `collect` if nothing is owed any more.
    /// Rejected while a payment of it is running.
    pub fn reduce(
        &self,
        state: &str,
        credited: &Credited,
        at: Time,
    ) -> Result<Option<(&'static str, Collected)>, Refusal> {
        let owed = self.owed(&credited.invoice)?;
        if owed.is_on_its_way() {
            return Err(on_its_way(&credited.invoice));
        }
        let left = owed.amount.minus(credited.amount)?;
        if left.is_negative() || credited.amount.amount() <= 0 {
            return Err(Refusal::invalid(format!(
                "{} is owed for {}: a credit note must be above zero, and at most that amount.",
                owed.amount, credited.invoice
            )));
        }
        if left.amount() > 0 {
            return Ok(None);
        }
        let is_last = self.owed.len() == 1;
        let (lines, restored) = self.lines_of_end(state, is_last, at)?;
        let collected = Collected {
            invoice: credited.invoice.clone(),
            intent: String::new(),
            attempt: owed.attempts,
            amount: Money::zero(owed.amount.currency()),
            reason: None,
            lines,
            restored,
            returned: None,
            revoked: None,
        };
        let outcome = if is_last { "settled" } else { "paid" };
        Ok(Some((outcome, collected)))
    }

    /// Rejects credit if there is no next invoice.
    pub fn may_grant(&self, state: &str) -> Result<(), Refusal> {
        let goes_on = matches!(state, "active" | "past_due" | "unpaid" | "paused");
        if !goes_on || self.cancel_at.is_some() {
            return Err(Refusal::invalid(
                "The subscription has no next invoice for the credit: refund to the card instead.",
            ));
        }
        if self.pending.len() + 1 > MAX_PENDING {
            return Err(Refusal::invalid(format!(
                "{MAX_PENDING} lines are pending for the next invoice: retry when the next period has begun."
            )));
        }
        Ok(())
    }

    /// Returns whether a payment must be refunded: the invoice was voided in the meantime, or the subscription has
    /// ended without providing any service for it. Once true, it stays true.
    pub fn gives_back(&self, id: &str, invoice: &str) -> bool {
        let number = Draft::number_of(id, invoice);
        self.unserved || number.is_some_and(|number| self.voided.contains(&number))
    }

    pub(super) fn credited(&mut self, outcome: &str, credited: &Credited) {
        self.remember(credited);
        match outcome {
            "reduced" => {
                if let Some(owed) = self.owed.get_mut(&credited.invoice) {
                    owed.amount = owed.amount.minus(credited.amount).unwrap_or(owed.amount);
                    owed.reduced = owed
                        .reduced
                        .and_then(|before| before.plus(credited.amount).ok());
                    owed.reduced.get_or_insert(credited.amount);
                }
            }
            "granted" => self.pending.push(Line {
                kind: LineKind::Credit,
                description: format!("Credit note for {}", credited.invoice),
                price: None,
                period: None,
                amount: credited.amount.negated(),
            }),
            _ => {}
        }
    }

    /// Remembers a credit, so that it is neither recorded nor given again.
    pub(super) fn remember(&mut self, credited: &Credited) {
        if self.credits.len() >= REMEMBERED {
            self.credits.remove(0);
        }
        self.credits.push(credited.id.clone());
        self.given_back(&credited.invoice, credited.amount);
    }

    /// Records a credit for the present period.
    fn given_back(&mut self, invoice: &str, amount: Money) {
        let Some(number) = number_of(invoice) else {
            return;
        };
        // An invoice may be credited before its period is entered, or long after. An invoice with only pending lines
        // belongs to no period.
        let is_past = self.period.is_some_and(|period| period.number > number);
        if is_past || self.changes_only == Some(number) {
            return;
        }
        let before = self.given_back.filter(|before| before.number == number);
        let amount = before.map_or(Ok(amount), |before| before.amount.plus(amount));
        let withheld = before.and_then(|before| before.withheld);
        self.given_back = amount.ok().map(|amount| GivenBack {
            number,
            amount,
            withheld,
        });
    }

    /// The part of a credit for the rest of a period that was already credited.
    pub(super) fn withheld(&self, period: &Period, credit: Money) -> Option<Money> {
        let given = self
            .given_back
            .filter(|given| given.number == period.number)?;
        let rest = credit.negated();
        let less = given.amount.minus(rest).ok()?.is_negative();
        let withheld = if less { given.amount } else { rest };
        (withheld.amount() > 0).then_some(withheld)
    }

    /// The part of a charge for the same period that was withheld before: the customer keeps it.
    pub(super) fn restored(&self, period: &Period, charge: Money) -> Option<Money> {
        let given = self
            .given_back
            .filter(|given| given.number == period.number)?;
        let withheld = given.withheld?;
        let less = withheld.minus(charge).ok()?.is_negative();
        let restored = if less { withheld } else { charge };
        (restored.amount() > 0).then_some(restored)
    }

    pub(super) fn withhold(&mut self, withheld: Option<Money>) {
        self.moves(withheld, Money::plus);
    }

    pub(super) fn restore(&mut self, restored: Option<Money>) {
        self.moves(restored, Money::minus);
    }

    /// Moves an amount between credited and withheld. Their sum stays the same.
    fn moves(
        &mut self,
        by: Option<Money>,
        withheld: impl FnOnce(Money, Money) -> Result<Money, MoneyError>,
    ) {
        let (Some(given), Some(by)) = (&mut self.given_back, by) else {
            return;
        };
        let before = given.withheld.unwrap_or(Money::zero(by.currency()));
        let moved = withheld(before, by).and_then(|after| {
            let left = given.amount.plus(before)?.minus(after)?;
            Ok((left, after))
        });
        if let Ok((left, after)) = moved {
            given.amount = left;
            given.withheld = Some(after).filter(|after| !after.is_zero());
        }
    }
}
