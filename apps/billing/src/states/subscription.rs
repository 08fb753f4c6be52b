//! Subscriptions: what is billed when, and what a payment means.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    DUNNING_DAYS, Draft, GRACE_DAYS, INCOMPLETE_HOURS, MAX_PENDING, MAX_QUANTITY, Refusal, Step,
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
    /// When the first attempt failed.
    pub since: Option<Time>,
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
    /// What its periods are counted from.
    pub anchor: Option<Anchor>,
    /// The period it is in; none before the first.
    pub period: Option<Period>,
    /// Whether that was skipped: nothing of it was billed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
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
        let wanted = if skipped {
            self.next
        } else {
            self.next.wrapping_sub(1)
        };
        if period.number != wanted {
            return Err(Refusal::invalid(format!(
                "Period {wanted} comes next, not {}: a period is billed before it is entered.",
                period.number
            )));
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
            ("end_trial", _) => self.count_from(step.data::<Moment>()?.at),
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
            ("resume", _) => {
                self.serve_again(step.data::<Resumed>()?.lines);
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
            let owed = Owed {
                amount: totals.due,
                attempts: 1,
                failed: 0,
                asked: 0,
                since: None,
            };
            self.owed.insert(draft.id(), owed);
        }
        Ok(())
    }

    fn advanced(&mut self, period: Period, skipped: bool) {
        self.next = period.number + 1;
        self.period = Some(period);
        self.skipped = skipped;
    }

    fn attempted(&mut self, attempt: &Attempt) {
        if let Some(owed) = self.owed.get_mut(&attempt.invoice) {
            owed.attempts = attempt.attempt;
        }
    }

    fn collected(&mut self, outcome: &str, collected: &Collected, at: Time) {
        if matches!(outcome, "paid" | "settled" | "voided" | "cleared") {
            self.owed.remove(&collected.invoice);
        } else if let Some(owed) = self.owed.get_mut(&collected.invoice) {
            if outcome == "failed" {
                owed.failed = owed.failed.max(collected.attempt);
                if broken(Variant::RetryDaysFromLast) {
                    owed.since = None;
                }
                owed.since.get_or_insert(at);
            } else {
                owed.asked = owed.asked.max(collected.attempt);
            }
        }
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
        let amount = plan.amount()?;
        let mut lines = Lines::new(amount.currency());
        lines.add(Line {
            kind: LineKind::Period,
            description: format!("{} × {}", plan.quantity, plan.product),
            price: Some(plan.price.clone()),
            period: Some(period),
            amount,
        })?;
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
        let is_billed = Self::is_billed(state) && !self.skipped;
        let Some(period) = self.period.filter(|_| is_billed) else {
            return Ok(Changed {
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
            return Err(Refusal::invalid(format!(
                "{} lines wait for the next invoice, and {MAX_PENDING} fit: change the plan when the next period has begun.",
                self.pending.len()
            )));
        }
        Ok(Changed { plan, lines })
    }

    /// What goes on the next invoice if service begins again at a moment: the rest of the period, if that was skipped.
    fn rest_of_skipped(&self, at: Time) -> Result<Vec<Line>, Refusal> {
        let Some(period) = self.period.filter(|_| self.skipped) else {
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
        Ok((outcome, Resumed { at, lines }))
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
            return Err(Refusal::invalid(format!(
                "A payment of {invoice} is on its way: wait until it has ended."
            )));
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
        if owed.failed == 0 || owed.is_on_its_way() {
            return None;
        }
        let retry = usize::try_from(owed.failed).ok()?.checked_sub(1)?;
        let at = owed.since?.plus_days(*DUNNING_DAYS.get(retry)?);
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
        self.created_at
            .plus(i64::from(INCOMPLETE_HOURS) * 60 * 60 * 1_000)
    }

    /// When what is paid for ends: of the trial, or of the present period.
    pub fn paid_until(&self) -> Option<Time> {
        self.period.map(|period| period.end).or(self.trial_end)
    }
}

/// A period from a moment of it on.
fn rest_of(period: &Period, at: Time) -> Period {
    Period {
        start: at.whole_second().max(period.start).min(period.end),
        ..*period
    }
}
