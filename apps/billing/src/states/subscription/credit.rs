//! Credit notes and refunds, as a subscription hears of them.

use serde::{Deserialize, Serialize};

use super::{
    super::{Draft, MAX_PENDING, Refusal},
    Collected, Credited, Subscription, number_of, on_its_way,
};
use crate::{
    Line, LineKind, Money, MoneyError, Period, Time,
    broken::{Variant, broken},
};

/// Credits that are remembered, so that one that is told again counts once: more than are on their way at a time.
const REMEMBERED: usize = 100;

/// What was given back of a period that was billed. No change of plan and no pause gives it back again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// The period's number.
    pub number: u32,
    /// How much of it no change and no pause has withheld yet.
    pub amount: Money,
    /// How much of it they have. What is served again is charged for less by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Money>,
}

impl Subscription {
    /// Whether a credit was told before.
    pub fn knows_credit(&self, id: &str) -> bool {
        self.credits.iter().any(|known| known == id) && !broken(Variant::CreditTwice)
    }

    /// Less is owed of an invoice: what is to be written to `collect` beside that, if nothing is owed of it any more. Not while
    /// a payment of it is on its way.
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
        if (left.is_negative() && !broken(Variant::CreditUnbounded))
            || credited.amount.amount() <= 0
        {
            return Err(Refusal::invalid(format!(
                "{} is owed for {}: a credit note is above zero, and at most over that.",
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

    /// Refuses credit for which there is no next invoice.
    pub fn may_grant(&self, state: &str) -> Result<(), Refusal> {
        let goes_on = matches!(state, "active" | "past_due" | "unpaid" | "paused");
        if !goes_on || self.cancel_at.is_some() {
            return Err(Refusal::invalid(
                "The subscription has no next invoice that credit could be on: refund to the card.",
            ));
        }
        if self.pending.len() + 1 > MAX_PENDING {
            return Err(Refusal::invalid(format!(
                "{MAX_PENDING} lines wait for the next invoice: ask again when the next period has begun."
            )));
        }
        Ok(())
    }

    /// Whether the money of a payment goes back: the invoice was voided meanwhile, or the subscription has ended and nothing was
    /// ever served for it. Once it is so it stays so.
    pub fn gives_back(&self, id: &str, invoice: &str) -> bool {
        if broken(Variant::LateMoneyKept) {
            return false;
        }
        let number = Draft::number_of(id, invoice);
        self.unserved || number.is_some_and(|number| self.voided.contains(&number))
    }

    pub(super) fn credited(&mut self, outcome: &str, credited: Credited) {
        if self.credits.len() >= REMEMBERED {
            self.credits.remove(0);
        }
        self.credits.push(credited.id);
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
        if !broken(Variant::GivenBackTwice) {
            self.given_back(&credited.invoice, credited.amount);
        }
    }

    /// What was given back of the present period.
    fn given_back(&mut self, invoice: &str, amount: Money) {
        let Some(number) = number_of(invoice) else {
            return;
        };
        // An invoice may be credited before its period is entered, or long after. One that has only what waited for it is of
        // no period.
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

    /// What of a credit for the rest of a period was given back before.
    pub(super) fn withheld(&self, period: &Period, credit: Money) -> Option<Money> {
        let given = self
            .given_back
            .filter(|given| given.number == period.number)?;
        let rest = credit.negated();
        let less = given.amount.minus(rest).ok()?.is_negative();
        let withheld = if less { given.amount } else { rest };
        (withheld.amount() > 0).then_some(withheld)
    }

    /// What of a charge for the same period was withheld before: it stays with the customer.
    pub(super) fn restored(&self, period: &Period, charge: Money) -> Option<Money> {
        let given = self
            .given_back
            .filter(|given| given.number == period.number)?;
        let withheld = given.withheld?;
        let less = withheld.minus(charge).ok()?.is_negative();
        let restored = if less { withheld } else { charge };
        (restored.amount() > 0 && !broken(Variant::NoteClawedBack)).then_some(restored)
    }

    pub(super) fn withhold(&mut self, withheld: Option<Money>) {
        self.moves(withheld, Money::plus);
    }

    pub(super) fn restore(&mut self, restored: Option<Money>) {
        self.moves(restored, Money::minus);
    }

    /// Changes how much is withheld of what was given back. Both together stay the same.
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
