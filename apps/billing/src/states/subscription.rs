//! Subscriptions: what is billed when, and what a payment means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    DUNNING_DAYS, Draft, GRACE_DAYS, INCOMPLETE_HOURS, MAX_PENDING, MAX_QUANTITY, MIN_DUNNING_DAYS,
    Refusal, Step,
};
use crate::{
    Anchor, Every, Line, LineKind, Lines, Money, Period, Time,
    broken::{Variant, broken},
    proration,
};

/// What a subscription gives, and for how much. The price's own words, copied when it was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The price's id.
    pub price: String,
    /// The product's id.
    pub product: String,
    /// What one unit costs for one period.
    pub unit_amount: Money,
    /// How many units.
    pub quantity: u32,
    /// How often it is billed.
    pub every: Every,
}

impl Plan {
    /// What a period costs.
    pub fn amount(&self) -> Result<Money, Refusal> {
        Ok(self.unit_amount.times(self.quantity)?)
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=MAX_QUANTITY).contains(&self.quantity) {
            return Err(Refusal::invalid(format!(
                "A quantity is 1 to {MAX_QUANTITY}; this one is {}.",
                self.quantity
            )));
        }
        self.every.check()?;
        Ok(self.amount()?.check()?)
    }
}

/// What `create` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Created {
    /// The customer's id.
    pub customer: String,
    /// What is subscribed to.
    pub plan: Plan,
    /// Since when.
    pub at: Time,
    /// When the trial ends and the first period begins, if there is a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_end: Option<Time>,
}

/// What `bill` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoiced {
    /// The invoice that is to be created.
    pub draft: Draft,
}

/// What `change` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The plan from now on.
    pub plan: Plan,
    /// What the next invoice has for the rest of this period.
    pub lines: Vec<Line>,
}

/// What `resume` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// When it takes effect.
    pub at: Time,
    /// What the next invoice has for the rest of a period that was skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// Whether dunning of what is owed begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
}

/// What `collect` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// The invoice's id.
    pub invoice: String,
    /// The payment intent's id; empty if nothing was due, or nobody is to pay.
    pub intent: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How much.
    pub amount: Money,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the next invoice has for the rest of a period that was skipped, if service begins again with this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
}

/// What `retry` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The invoice's id.
    pub invoice: String,
    /// Which attempt begins: 2 for the first retry.
    pub attempt: u32,
}

/// What `end_trial`, `cancel` and others say: a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// When it takes effect.
    pub at: Time,
}

/// What `pause` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// When it takes effect.
    pub at: Time,
    /// What the next invoice gives back for the rest of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<Line>>,
}

/// What `give_up` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    /// The invoice's id.
    pub invoice: String,
}

/// What is owed of one invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// How much.
    pub amount: Money,
    /// Attempts that have begun; the first begins with the invoice.
    pub attempts: u32,
    /// The last attempt that has failed; 0 for none.
    pub failed: u32,
    /// The last attempt for which the customer was asked to prove who they are; 0 for none.
    pub asked: u32,
    /// When the first attempt failed, or service went on after a pause for which that was waited.
    pub since: Option<Time>,
    /// When the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,
    /// Attempts that had failed when dunning began anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before: u32,
    /// Whether it bills no period, but only what waited for an invoice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_only: bool,
    /// Whether it was written off: nobody is asked for it any more, and who wants to can still pay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Owed {
    /// Whether the last attempt that has begun has not ended.
    fn is_on_its_way(&self) -> bool {
        self.failed != self.attempts && !broken(Variant::AttemptBesideAttempt)
    }

    fn next(&self, invoice: &str) -> Attempt {
        Attempt {
            invoice: invoice.to_owned(),
            attempt: self.attempts + 1,
        }
    }
}

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
    /// What came of it.
    pub verdict: Verdict,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The money is there.
    Paid,
    /// It is not, and this attempt is over.
    Failed,
    /// The customer must prove who they are.
    RequiresAction,
}

/// What a report is to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// News: to be written under this outcome of `collect`.
    News(&'static str, Collected),
    /// Told before, or over since.
    Old,
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The customer's id.
    pub customer: String,
    /// What it gives, and for how much.
    pub plan: Option<Plan>,
    /// Since when.
    pub created_at: Time,
    /// When the trial ends, if there is one.
    pub trial_end: Option<Time>,
    /// Since when what the trial led to waits for its first payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Time>,
    /// What its periods are counted from.
    pub anchor: Option<Anchor>,
    /// The period it is in; none before the first.
    pub period: Option<Period>,
    /// Whether that was skipped: nothing of it was billed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Whether its invoice was voided, or never was: a change of plan gives nothing back and costs nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waived: bool,
    /// The number of the next period to be billed.
    pub next: u32,
    /// Lines that wait for the next invoice.
    pub pending: Vec<Line>,
    /// Credit that the last invoice has left.
    pub carried: Option<Money>,
    /// Invoices that are not paid, by their id.
    pub owed: BTreeMap<String, Owed>,
    /// When it ends, if somebody has said so.
    pub cancel_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
}

impl Subscription {
    /// Whether a state gives the customer what they pay for. Days of grace do.
    pub fn is_entitled(state: &str) -> bool {
        matches!(state, "trialing" | "active")
            || (state == "past_due" && !broken(Variant::GraceUnserved))
    }

    /// Whether a state's periods are billed; those of other states are skipped.
    pub fn is_billed(state: &str) -> bool {
        matches!(state, "incomplete" | "active" | "past_due") || broken(Variant::UnservedBilled)
    }

    /// Refuses a new outcome that makes no sense.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match (step.action, step.outcome) {
            ("create", _) => {
                let created: Created = step.data()?;
                created.plan.check()?;
                let begin = created.trial_end.unwrap_or(created.at);
                Anchor::new(begin, created.plan.every)?;
                Ok(())
            }
            ("change", _) => step.data::<Changed>()?.plan.check(),
            ("bill", _) => self.may_bill(&step.data::<Invoiced>()?.draft),
            ("advance", outcome) => self.may_advance(&step.data()?, outcome == "skipped"),
            ("retry", _) => self.may_attempt(&step.data()?),
            ("give_up", _) => self.may_give_up(&step.data::<GivenUp>()?.invoice),
            _ => Ok(()),
        }
    }

    fn may_bill(&self, draft: &Draft) -> Result<(), Refusal> {
        if draft.period.number != self.next && !broken(Variant::NumberUnchecked) {
            return Err(Refusal::invalid(format!(
                "Period {} is to be billed next, not {}.",
                self.next, draft.period.number
            )));
        }
        Ok(())
    }

    fn may_advance(&self, period: &Period, skipped: bool) -> Result<(), Refusal> {
        let billed = period.number.checked_add(1) == Some(self.next);
        let is_next = period.number == self.next;
        let was_entered = self
            .period
            .is_some_and(|known| period.number <= known.number);
        if was_entered || !(billed || (skipped && is_next)) {
            return Err(Refusal::invalid(format!(
                "Period {} does not come next: a period is billed before it is entered, and entered once.",
                period.number
            )));
        }
        Ok(())
    }

    /// Nobody gives up what is being paid.
    pub fn may_give_up(&self, invoice: &str) -> Result<(), Refusal> {
        if self.owed(invoice)?.is_on_its_way() {
            return Err(on_its_way(invoice));
        }
        Ok(())
    }

    fn may_attempt(&self, attempt: &Attempt) -> Result<(), Refusal> {
        let owed = self.owed(&attempt.invoice)?;
        if attempt.attempt != owed.attempts + 1 || owed.is_on_its_way() {
            return Err(Refusal::invalid(format!(
                "Attempt {} of {} has not ended, or attempt {} is not the one after it.",
                owed.attempts, attempt.invoice, attempt.attempt
            )));
        }
        Ok(())
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        match (step.action, step.outcome) {
            ("create", _) => self.created(step.data()?),
            ("end_trial", outcome) => {
                self.waits_since = Some(step.at).filter(|_| outcome == "incomplete");
                self.count_from(step.data::<Moment>()?.at)
            }
            ("bill", _) => self.invoiced(step.data()?),
            ("advance", outcome) => {
                self.advanced(step.data()?, outcome == "skipped");
                Ok(())
            }
            ("retry", _) => {
                self.attempted(&step.data()?);
                Ok(())
            }
            ("collect", outcome) => {
                let collected: Collected = step.data()?;
                self.collected(outcome, &collected, step.at);
                self.serve_again(collected.lines);
                Ok(())
            }
            ("pause", _) => {
                self.paused(step.data::<Paused>()?.lines);
                Ok(())
            }
            ("resume", _) => {
                let resumed: Resumed = step.data()?;
                if resumed.anew && !broken(Variant::OldDebtDue) {
                    self.dun_anew(resumed.at);
                }
                self.serve_again(resumed.lines);
                Ok(())
            }
            ("give_up", _) => {
                let GivenUp { invoice } = step.data()?;
                if let Some(owed) = self.owed.get_mut(&invoice) {
                    owed.given_up = true;
                }
                Ok(())
            }
            ("change", _) => {
                let changed: Changed = step.data()?;
                self.plan = Some(changed.plan);
                self.pending.extend(changed.lines);
                Ok(())
            }
            ("cancel", "scheduled") => {
                self.cancel_at = Some(step.data::<Moment>()?.at);
                Ok(())
            }
            ("cancel", "unscheduled") => {
                self.cancel_at = None;
                Ok(())
            }
            ("cancel", "canceled") | ("expire", _) => {
                self.ended_at = Some(step.at);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn created(&mut self, created: Created) -> Result<(), Refusal> {
        self.customer = created.customer;
        self.created_at = created.at;
        self.trial_end = created.trial_end;
        self.plan = Some(created.plan);
        match created.trial_end {
            Some(_) => Ok(()),
            None => self.count_from(created.at),
        }
    }

    fn count_from(&mut self, at: Time) -> Result<(), Refusal> {
        self.anchor = Some(Anchor::of(at, self.plan()?.every));
        Ok(())
    }

    fn invoiced(&mut self, invoiced: Invoiced) -> Result<(), Refusal> {
        let draft = invoiced.draft;
        let totals = draft.totals()?;
        self.next += 1;
        self.pending.clear();
        self.carried = Some(totals.left)
            .filter(|left| !left.is_zero())
            .filter(|_| !broken(Variant::CreditLost));
        if !totals.due.is_zero() {
            let lines = draft.lines.all();
            let owed = Owed {
                amount: totals.due,
                attempts: 1,
                failed: 0,
                asked: 0,
                since: None,
                failed_at: None,
                before: 0,
                changes_only: !lines.iter().any(|line| line.kind == LineKind::Period),
                given_up: false,
            };
            self.owed.insert(draft.id(), owed);
        }
        Ok(())
    }

    fn advanced(&mut self, period: Period, skipped: bool) {
        self.next = period.number + 1;
        self.period = Some(period);
        self.skipped = skipped;
        self.waived = false;
    }

    /// Nobody is served the rest of the period, and nobody pays for it.
    fn paused(&mut self, lines: Option<Vec<Line>>) {
        let Some(lines) = lines else {
            // As it was once: the whole period was paid for.
            return;
        };
        self.skipped |= self.period.is_some() && !self.waived;
        self.pending.extend(lines);
    }

    /// What was owed before a pause is asked for as if it had failed now.
    fn dun_anew(&mut self, at: Time) {
        for owed in self.owed.values_mut().filter(|owed| owed.since.is_some()) {
            owed.since = Some(at);
            owed.before = owed.failed;
        }
    }

    fn attempted(&mut self, attempt: &Attempt) {
        if let Some(owed) = self.owed.get_mut(&attempt.invoice) {
            owed.attempts = attempt.attempt;
        }
    }

    fn collected(&mut self, outcome: &str, collected: &Collected, at: Time) {
        if matches!(outcome, "voided" | "cleared") && !broken(Variant::VoidMints) {
            self.waive(&collected.invoice);
        }
        if matches!(outcome, "paid" | "settled" | "voided" | "cleared") {
            self.owed.remove(&collected.invoice);
        } else if let Some(owed) = self.owed.get_mut(&collected.invoice) {
            if outcome == "failed" {
                owed.failed = owed.failed.max(collected.attempt);
                if broken(Variant::RetryDaysFromLast) {
                    owed.since = None;
                }
                owed.since.get_or_insert(at);
                owed.failed_at = Some(at);
            } else {
                owed.asked = owed.asked.max(collected.attempt);
            }
        }
    }

    /// Nobody pays for the period of an invoice that is owed. So nothing is given back of it either, and nothing is owed for its rest.
    fn waive(&mut self, invoice: &str) {
        if self.owed.get(invoice).is_none_or(|owed| owed.changes_only) {
            return;
        }
        let number = invoice
            .rsplit('_')
            .next()
            .and_then(|number| number.parse().ok());
        let is_of = |period: &Period| Some(period.number) == number;
        self.waived |= self.period.as_ref().is_some_and(is_of);
        let is_change = |line: &Line| line.kind != LineKind::Carried;
        self.pending
            .retain(|line| !(is_change(line) && line.period.as_ref().is_some_and(is_of)));
    }

    /// Service begins again in the middle of a period that was skipped, whose rest is billed.
    fn serve_again(&mut self, lines: Vec<Line>) {
        self.skipped &= lines.is_empty();
        self.pending.extend(lines);
    }

    /// What it gives, and for how much.
    pub fn plan(&self) -> Result<&Plan, Refusal> {
        let plan = self.plan.as_ref();
        plan.ok_or_else(|| Refusal::invalid("The subscription has not been created."))
    }

    /// What its periods are counted from.
    pub fn anchor(&self) -> Result<Anchor, Refusal> {
        self.anchor
            .ok_or_else(|| Refusal::invalid("No period is counted before the trial has ended."))
    }

    /// The next period, to be billed or skipped when it begins. None if the subscription ends before, or is on trial.
    pub fn next_period(&self) -> Result<Option<Period>, Refusal> {
        let Some(anchor) = self.anchor else {
            return Ok(None);
        };
        let period = anchor.period(self.next)?;
        let ends = self.cancel_at.filter(|_| !broken(Variant::EndUnheeded));
        let goes_on = self.ended_at.is_none() && ends.is_none_or(|at| period.start < at);
        Ok(goes_on.then_some(period))
    }

    /// The invoice of the next period.
    pub fn next_invoice(&self, id: &str) -> Result<Draft, Refusal> {
        let plan = self.plan()?;
        let period = self.anchor()?.period(self.next)?;
        let line = Line {
            kind: LineKind::Period,
            description: format!("{} × {}", plan.quantity, plan.product),
            price: Some(plan.price.clone()),
            period: Some(period),
            amount: plan.amount()?,
        };
        self.draft(id, Some(line))
    }

    /// The invoice of what waits for one, where the next period is not billed: it is skipped, or there is none. None if
    /// nothing is due.
    pub fn last_invoice(&self, id: &str) -> Result<Option<Draft>, Refusal> {
        if self.anchor.is_none() || self.pending.is_empty() || broken(Variant::ChangeLeftOut) {
            return Ok(None);
        }
        let draft = self.draft(id, None)?;
        let is_due = !draft.totals()?.due.is_zero();
        Ok(Some(draft).filter(|_| is_due))
    }

    fn draft(&self, id: &str, line: Option<Line>) -> Result<Draft, Refusal> {
        let period = self.anchor()?.period(self.next)?;
        let mut lines = Lines::new(self.plan()?.unit_amount.currency());
        if let Some(line) = line {
            lines.add(line)?;
        }
        let pending = self.pending.iter();
        for line in pending.filter(|_| !broken(Variant::ChangeUnbilled)) {
            lines.add(line.clone())?;
        }
        if let Some(carried) = self.carried {
            lines.add(Line {
                kind: LineKind::Carried,
                description: "Credit of the last invoice".to_owned(),
                price: None,
                period: None,
                amount: carried.negated(),
            })?;
        }
        Ok(Draft {
            subscription: id.to_owned(),
            customer: self.customer.clone(),
            period,
            lines,
        })
    }

    /// A change of plan at a moment: the rest of the period is given back for the old plan and owed for the new one. On
    /// trial, and where nothing of a period is billed, nothing is.
    pub fn change(&self, state: &str, plan: Plan, at: Time) -> Result<Changed, Refusal> {
        plan.check()?;
        let old = self.plan()?;
        let (before, after) = (old.amount()?, plan.amount()?);
        if before.currency() != after.currency() {
            return Err(Refusal::invalid(format!(
                "The subscription is in {}; a plan in {} is another subscription.",
                before.currency(),
                after.currency()
            )));
        }
        if old.every != plan.every && self.anchor.is_some() {
            return Err(Refusal::invalid(
                "A plan with periods of another length is another subscription.",
            ));
        }
        let is_billed = Self::is_billed(state) && !self.skipped && !self.waived;
        let Some(period) = self.period.filter(|_| is_billed) else {
            return self.can_be_billed(Changed {
                plan,
                lines: Vec::new(),
            });
        };
        let change = proration::change(before, after, &period, at)?;
        let rest = rest_of(&period, at);
        let line = |kind, words: &str, plan: &Plan, amount| Line {
            kind,
            description: format!("{words} {} × {}", plan.quantity, plan.product),
            price: Some(plan.price.clone()),
            period: Some(rest),
            amount,
        };
        let lines = vec![
            line(
                LineKind::ProrationCredit,
                "Unused time of",
                old,
                change.credit,
            ),
            line(
                LineKind::ProrationCharge,
                "Remaining time of",
                &plan,
                change.charge,
            ),
        ];
        let lines: Vec<Line> = lines
            .into_iter()
            .filter(|line| !line.amount.is_zero())
            .collect();
        if self.pending.len() + lines.len() > MAX_PENDING {
            return Err(too_many(self.pending.len()));
        }
        self.can_be_billed(Changed { plan, lines })
    }

    /// Refuses a change whose next invoice would be over more than an amount can be.
    fn can_be_billed(&self, changed: Changed) -> Result<Changed, Refusal> {
        if self.anchor.is_some() && !broken(Variant::ChangeUnbounded) {
            let mut after = self.clone();
            after.plan = Some(changed.plan.clone());
            after.pending.extend(changed.lines.iter().cloned());
            after.next_invoice("")?.lines.check()?;
        }
        Ok(changed)
    }

    /// What a pause says: the rest of a period that was billed is given back.
    pub fn pause(&self, at: Time) -> Result<Paused, Refusal> {
        // One line now, and one when service goes on.
        if self.pending.len() + 2 > MAX_PENDING {
            return Err(too_many(self.pending.len()));
        }
        let lines = match self.period {
            Some(period) if !self.skipped && !self.waived && !broken(Variant::PauseBilled) => {
                let plan = self.plan()?;
                let amount = proration::rest(plan.amount()?, &period, at)?.negated();
                let line = Line {
                    kind: LineKind::ProrationCredit,
                    description: format!("Unused time of {} × {}", plan.quantity, plan.product),
                    price: Some(plan.price.clone()),
                    period: Some(rest_of(&period, at)),
                    amount,
                };
                vec![line]
            }
            _ => Vec::new(),
        };
        let lines = lines.into_iter().filter(|line| !line.amount.is_zero());
        Ok(Paused {
            at,
            lines: Some(lines.collect()),
        })
    }

    /// What goes on the next invoice if service begins again at a moment: the rest of the period, if that was skipped.
    fn rest_of_skipped(&self, at: Time) -> Result<Vec<Line>, Refusal> {
        let Some(period) = self.period.filter(|_| self.skipped && !self.waived) else {
            return Ok(Vec::new());
        };
        if broken(Variant::RestUnbilled) {
            return Ok(Vec::new());
        }
        let plan = self.plan()?;
        Ok(vec![Line {
            kind: LineKind::ProrationCharge,
            description: format!("Remaining time of {} × {}", plan.quantity, plan.product),
            price: Some(plan.price.clone()),
            period: Some(rest_of(&period, at)),
            amount: proration::rest(plan.amount()?, &period, at)?,
        }])
    }

    /// The same for the end of a debt: service begins again if it had ended for that.
    fn lines_of_end(&self, state: &str, is_last: bool, at: Time) -> Result<Vec<Line>, Refusal> {
        if is_last && state == "unpaid" {
            self.rest_of_skipped(at)
        } else {
            Ok(Vec::new())
        }
    }

    /// What service that goes on after a pause comes to: an outcome of `resume`. Who owes after a payment that has failed is
    /// dunned.
    pub fn resumed(&self, at: Time) -> Result<(&'static str, Resumed), Refusal> {
        let has_failed = self.owed.values().any(|owed| owed.since.is_some());
        let outcome = if has_failed && !broken(Variant::DebtForgotten) {
            "owing"
        } else {
            "resumed"
        };
        let lines = self.rest_of_skipped(at)?;
        let anew = outcome == "owing";
        Ok((outcome, Resumed { at, lines, anew }))
    }

    /// What it comes to that nobody is to pay an invoice: an outcome of `collect`.
    pub fn cleared(
        &self,
        state: &str,
        invoice: &str,
        at: Time,
    ) -> Result<(&'static str, Collected), Refusal> {
        let owed = self.owed(invoice)?;
        let is_last = self.owed.len() == 1;
        let cleared = Collected {
            invoice: invoice.to_owned(),
            intent: String::new(),
            attempt: owed.attempts,
            amount: owed.amount,
            reason: None,
            lines: self.lines_of_end(state, is_last, at)?,
        };
        Ok((if is_last { "cleared" } else { "voided" }, cleared))
    }

    /// The same for one that somebody voids. One that is on its way is to be waited for, and a first one ends with its
    /// subscription.
    pub fn void(
        &self,
        state: &str,
        invoice: &str,
        at: Time,
    ) -> Result<(&'static str, Collected), Refusal> {
        let owed = self.owed(invoice)?;
        if owed.is_on_its_way() && !broken(Variant::VoidBesideAttempt) {
            return Err(on_its_way(invoice));
        }
        if state == "incomplete" {
            return Err(Refusal::invalid(
                "The first invoice of a subscription is not voided: end the subscription instead.",
            ));
        }
        self.cleared(state, invoice, at)
    }

    /// What is owed of an invoice.
    fn owed(&self, invoice: &str) -> Result<&Owed, Refusal> {
        let owed = self.owed.get(invoice);
        owed.ok_or_else(|| Refusal::invalid(format!("Nothing is owed for {invoice}.")))
    }

    /// What a payment's report means at a moment. A payment that was reported before is no news, however often it is.
    pub fn report(
        &self,
        id: &str,
        state: &str,
        result: &PaymentResult,
        at: Time,
    ) -> Result<Report, Refusal> {
        let Some(owed) = self.owed.get(&result.invoice) else {
            let number = Draft::number_of(id, &result.invoice);
            let was_billed = number.is_some_and(|number| number < self.next);
            return if was_billed {
                Ok(Report::Old)
            } else {
                Err(Refusal::invalid(format!(
                    "{} is no invoice of {id}.",
                    result.invoice
                )))
            };
        };
        let is_known = (1..=owed.attempts).contains(&result.attempt);
        if !is_known && !broken(Variant::NobodysReport) {
            return Err(Refusal::invalid(format!(
                "There was no attempt {} of {}.",
                result.attempt, result.invoice
            )));
        }
        let outcome = match result.verdict {
            Verdict::Paid if result.amount != owed.amount && !broken(Variant::AmountUnchecked) => {
                return Err(Refusal::invalid(format!(
                    "{} is owed for {}, not {}.",
                    owed.amount, result.invoice, result.amount
                )));
            }
            Verdict::Paid if broken(Variant::LateMoneyIgnored) && result.attempt <= owed.failed => {
                return Ok(Report::Old);
            }
            // Money that is there counts, whatever was said before.
            Verdict::Paid if self.owed.len() == 1 || broken(Variant::SettledEarly) => "settled",
            Verdict::Paid => "paid",
            Verdict::Failed if result.attempt > owed.failed || broken(Variant::ReportTwice) => {
                "failed"
            }
            Verdict::RequiresAction if result.attempt > owed.failed.max(owed.asked) => {
                "requires_action"
            }
            _ => return Ok(Report::Old),
        };
        let collected = Collected {
            invoice: result.invoice.clone(),
            intent: result.intent.clone(),
            attempt: result.attempt,
            amount: result.amount,
            reason: result.reason.clone(),
            lines: self.lines_of_end(state, outcome == "settled", at)?,
        };
        Ok(Report::News(outcome, collected))
    }

    /// The next attempt to collect an invoice whose last one has failed, and when; none if the days are used up.
    pub fn next_attempt(&self, invoice: &str) -> Option<(Time, Attempt)> {
        let owed = self.owed.get(invoice)?;
        let is_given_up = owed.given_up && !broken(Variant::GivenUpCharged);
        if owed.failed == 0 || owed.is_on_its_way() || is_given_up {
            return None;
        }
        let since = owed.since?;
        let failures = usize::try_from(owed.failed.checked_sub(owed.before)?).ok()?;
        let at = match failures.checked_sub(1) {
            // Service went on after a pause.
            None => return Some((since, owed.next(invoice))),
            Some(retry) => since.plus_days(*DUNNING_DAYS.get(retry)?),
        };
        // Days that passed while nobody was there are no days on which somebody was asked.
        let after = owed
            .failed_at
            .map(|failed| failed.plus_days(MIN_DUNNING_DAYS));
        let at = after
            .filter(|_| !broken(Variant::DunningBurst))
            .map_or(at, |after| at.max(after));
        Some((at, owed.next(invoice)))
    }

    /// The attempt to collect an invoice that begins when somebody wants to pay; none while one is on its way.
    pub fn attempt_now(&self, invoice: &str) -> Result<Option<Attempt>, Refusal> {
        let owed = self.owed(invoice)?;
        Ok((!owed.is_on_its_way()).then(|| owed.next(invoice)))
    }

    /// When service ends unless all is paid: so many days after the first of the failures that stand.
    pub fn grace_end(&self) -> Option<Time> {
        let since = self.owed.values().filter_map(|owed| owed.since).min()?;
        Some(since.plus_days(GRACE_DAYS))
    }

    /// When a subscription whose first invoice is not paid expires.
    pub fn expires_at(&self) -> Time {
        self.waits_since
            .unwrap_or(self.created_at)
            .plus(i64::from(INCOMPLETE_HOURS) * 60 * 60 * 1_000)
    }

    /// Until when a state's service is certain: until what is paid for ends, or the days of grace, or somebody has said so.
    pub fn entitled_until(&self, state: &str) -> Option<Time> {
        let grace = self
            .grace_end()
            .filter(|_| state == "past_due" && !broken(Variant::GraceUntold));
        let ends = [self.paid_until(), grace, self.cancel_at];
        ends.into_iter().flatten().min()
    }

    /// When what is paid for ends: of the trial, or of the present period.
    pub fn paid_until(&self) -> Option<Time> {
        self.period.map(|period| period.end).or(self.trial_end)
    }
}

fn too_many(pending: usize) -> Refusal {
    Refusal::invalid(format!(
        "{pending} lines wait for the next invoice, and {MAX_PENDING} fit: ask again when the next period has begun."
    ))
}

fn on_its_way(invoice: &str) -> Refusal {
    Refusal::invalid(format!(
        "A payment of {invoice} is on its way: wait until it has ended."
    ))
}

/// A period from a moment of it on.
fn rest_of(period: &Period, at: Time) -> Period {
    Period {
        start: at.whole_second().max(period.start).min(period.end),
        ..*period
    }
}
