//! Subscriptions: what is billed when, and what a payment means.

mod credit;
mod data;
mod dunning;
mod invoices;
mod notices;
mod payments;
mod preview;
mod proration;
mod restored;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use self::payments::on_its_way;
pub use self::{
    credit::GivenBack,
    data::{
        Attempt, Canceled, Changed, Collected, Created, Credited, GivenUp, Invoiced, Moment,
        Paused, Plan, Resumed,
    },
    dunning::Owed,
    payments::{PaymentResult, Report, Verdict},
    preview::{Preview, Upcoming},
    restored::{Copied, Debt, Found, Restored},
};
use super::{Draft, INCOMPLETE_HOURS, Metadata, Refusal, Step, Terms};
use crate::{Anchor, Line, LineKind, Money, Period, Time};

/// A subscription.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact of its history"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The customer's id.
    pub customer: String,
    /// What it provides, and its price.
    pub plan: Option<Plan>,
    /// When it was created.
    pub created_at: Time,
    /// When payments are retried, how long service continues without them, and the minimum charge.
    #[serde(default, skip_serializing_if = "Terms::is_default")]
    pub terms: Terms,
    /// When the trial ends, if there is one.
    pub trial_end: Option<Time>,
    /// Since when the first payment after the trial has been awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Time>,
    /// The moment from which its periods are counted.
    pub anchor: Option<Anchor>,
    /// The number of the period that begins there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
    /// The current period; none before the first.
    pub period: Option<Period>,
    /// Whether it was skipped: nothing of it was billed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Whether its invoice was voided, or never created: a plan change then has no proration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waived: bool,
    /// The number of the next period to be billed.
    pub next: u32,
    /// Pending lines for the next invoice.
    pub pending: Vec<Line>,
    /// Credit left over from the last invoice.
    pub carried: Option<Money>,
    /// Unpaid invoices, by their id.
    pub owed: BTreeMap<String, Owed>,
    /// The scheduled end, if any.
    pub cancel_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Whether it ended before providing any service for what it owed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unserved: bool,
    /// Periods whose invoices need not be paid.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub voided: BTreeSet<u32>,
    /// The newest recorded credit notes and refunds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credits: Vec<String>,
    /// When notice of the end of the trial was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_told: Option<Time>,
    /// The number of the newest period whose invoice was announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upcoming_told: Option<u32>,
    /// The credited amount of the newest billed period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<GivenBack>,
    /// The number of the newest invoice that bills no period, but only pending lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_only: Option<u32>,
    /// Whether it was restored: an invoice that it bills may exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// The invoices that it asks what a restore made it forget. Nothing else happens before they have answered.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub asks: BTreeSet<String>,
    /// The credit that covers what it bills for them, where nothing is left to pay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub covered: BTreeMap<String, Money>,
    /// The client's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Subscription {
    /// Returns whether a state entitles the customer to service. Days of grace do.
    pub fn is_entitled(state: &str) -> bool {
        matches!(state, "trialing" | "active" | "past_due")
    }

    /// Returns whether periods are billed in a state; in others they are skipped.
    pub fn is_billed(state: &str) -> bool {
        matches!(state, "incomplete" | "active" | "past_due")
    }

    /// Rejects an invalid new outcome.
    pub fn validate(&self, step: &Step<'_>) -> Result<(), Refusal> {
        match (step.action, step.outcome) {
            ("create", _) => {
                let created: Created = step.data()?;
                created.plan.check()?;
                created.terms.iter().try_for_each(Terms::check)?;
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
        if draft.period.number != self.next {
            return Err(Refusal::invalid(format!(
                "The next period to bill is {}, not {}.",
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
                "Period {} is not the next one: a period is billed before it is entered, and entered once.",
                period.number
            )));
        }
        Ok(())
    }

    /// An invoice that is being paid cannot be written off.
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
                "Attempt {} of {} has not ended, or attempt {} does not follow it.",
                owed.attempts, attempt.invoice, attempt.attempt
            )));
        }
        Ok(())
    }

    /// Takes an outcome.
    pub fn apply(&mut self, step: &Step<'_>) -> Result<(), Refusal> {
        match (step.action, step.outcome) {
            ("create", _) => self.created(step.data()?),
            ("end_trial", _) => {
                self.waits_since = Some(step.at);
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
                self.collected(outcome, &collected, step.at)?;
                self.serve_again(collected.lines, collected.restored);
                self.pending.extend(collected.revoked);
                Ok(())
            }
            ("pause" | "end_grace", _) => {
                let paused: Paused = step.data()?;
                self.withhold(paused.withheld);
                self.paused(paused.lines);
                Ok(())
            }
            ("resume", _) => {
                let resumed: Resumed = step.data()?;
                if resumed.anew {
                    self.dun_anew(resumed.at);
                }
                self.serve_again(resumed.lines, resumed.restored);
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
                self.changed(step.data()?);
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
            ("cancel", "canceled") => {
                self.ended_at = Some(step.at);
                self.unserved = step.data::<Canceled>().is_ok_and(|end| end.unserved);
                Ok(())
            }
            ("expire", _) => {
                self.ended_at = Some(step.at);
                self.unserved = true;
                Ok(())
            }
            ("notify", "trial_will_end") => {
                self.trial_told = Some(step.at);
                Ok(())
            }
            ("notify", _) => {
                self.upcoming_told = Some(self.next);
                Ok(())
            }
            ("credit", outcome) => {
                self.credited(outcome, &step.data()?);
                Ok(())
            }
            ("restore", "found") => {
                self.has_found(step.data()?);
                Ok(())
            }
            ("restore", _) => {
                self.begins_again();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn created(&mut self, created: Created) -> Result<(), Refusal> {
        self.customer = created.customer;
        self.created_at = created.at;
        self.trial_end = created.trial_end;
        self.terms = created.terms.unwrap_or_default();
        self.plan = Some(created.plan);
        match created.trial_end {
            Some(_) => Ok(()),
            None => self.count_from(created.at),
        }
    }

    fn changed(&mut self, changed: Changed) {
        if let Some(at) = changed.anchor {
            self.anchor = Some(Anchor::of(at, changed.plan.every));
            self.first = self.next;
        }
        self.plan = Some(changed.plan);
        self.withhold(changed.withheld);
        self.restore(changed.restored);
        self.pending.extend(changed.lines);
    }

    fn count_from(&mut self, at: Time) -> Result<(), Refusal> {
        self.anchor = Some(Anchor::of(at, self.plan()?.every));
        Ok(())
    }

    fn invoiced(&mut self, invoiced: Invoiced) -> Result<(), Refusal> {
        let draft = invoiced.draft;
        let totals = draft.totals()?;
        self.count_changes(&draft)?;
        self.next += 1;
        self.pending.clear();
        self.carried = carried(&draft, totals.left)?;
        let lines = draft.lines.all();
        let changes_only = !lines.iter().any(|line| line.kind == LineKind::Period);
        if changes_only {
            self.changes_only = Some(draft.period.number);
        }
        if !totals.due.is_zero() {
            let owed = Owed {
                used: draft.used()?,
                ..Owed::new(totals.due, changes_only)
            };
            self.owed.insert(draft.id(), owed);
        }
        if self.restored {
            if let (true, Some(credit)) = (totals.due.is_zero(), draft.used()?) {
                self.covered.insert(draft.id(), credit.minus(totals.left)?);
            }
            self.asks.insert(draft.id());
        }
        Ok(())
    }

    fn advanced(&mut self, period: Period, skipped: bool) {
        self.next = period.number + 1;
        self.period = Some(period);
        self.skipped = skipped;
        self.waived = false;
    }

    /// The rest of the period is neither served nor charged.
    fn paused(&mut self, lines: Vec<Line>) {
        self.skipped |= self.period.is_some() && !self.waived;
        self.pending.extend(lines);
    }

    /// Treats debts from before a pause as if they had failed now.
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

    /// Counts an invoice's lines for changes of periods whose invoices are owed.
    fn count_changes(&mut self, draft: &Draft) -> Result<(), Refusal> {
        for (invoice, owed) in &mut self.owed {
            let number = number_of(invoice);
            let is_of = |period: &Period| Some(period.number) == number;
            let lines = draft.lines.all().iter().filter(|line| {
                line.kind != LineKind::Period && line.period.as_ref().is_some_and(is_of)
            });
            let before = owed.changed.unwrap_or(Money::zero(draft.lines.currency()));
            let sum = lines
                .map(|line| line.amount)
                .try_fold(before, Money::plus)?;
            owed.changed = Some(sum).filter(|sum| !sum.is_zero());
        }
        Ok(())
    }

    fn collected(&mut self, outcome: &str, collected: &Collected, at: Time) -> Result<(), Refusal> {
        let is_void = matches!(outcome, "voided" | "cleared");
        if is_void {
            self.waive(&collected.invoice);
        }
        if is_void {
            self.voided.extend(number_of(&collected.invoice));
        }
        if matches!(outcome, "paid" | "settled" | "voided" | "cleared") {
            self.owed.remove(&collected.invoice);
        } else if let Some(owed) = self.owed.get_mut(&collected.invoice) {
            if outcome == "failed" {
                owed.fail(collected, at);
            } else {
                owed.asked = owed.asked.max(collected.attempt);
            }
        }
        if let Some(returned) = collected.returned {
            let credit = self
                .carried
                .map_or(Ok(returned), |carried| carried.plus(returned));
            self.carried = Some(credit?);
        }
        Ok(())
    }

    /// Waives the period of an owed invoice: it is neither credited nor charged any more.
    fn waive(&mut self, invoice: &str) {
        if self.owed.get(invoice).is_none_or(|owed| owed.changes_only) {
            return;
        }
        let number = number_of(invoice);
        let is_of = |period: &Period| Some(period.number) == number;
        self.waived |= self.period.as_ref().is_some_and(is_of);
        let is_change = |line: &Line| line.kind != LineKind::Carried;
        self.pending
            .retain(|line| !(is_change(line) && line.period.as_ref().is_some_and(is_of)));
    }

    /// Service resumes in the middle of a skipped period, whose rest is billed.
    fn serve_again(&mut self, lines: Vec<Line>, restored: Option<Money>) {
        self.restore(restored);
        self.skipped &= lines.is_empty();
        self.pending.extend(lines);
    }

    /// What it provides, and its price.
    pub fn plan(&self) -> Result<&Plan, Refusal> {
        let plan = self.plan.as_ref();
        plan.ok_or_else(|| Refusal::invalid("The subscription has not been created."))
    }

    /// The moment from which its periods are counted.
    pub fn anchor(&self) -> Result<Anchor, Refusal> {
        self.anchor
            .ok_or_else(|| Refusal::invalid("There are no periods before the trial has ended."))
    }

    /// The next period, to be billed or skipped when it begins. None if the subscription ends before, or is on trial.
    pub fn next_period(&self) -> Result<Option<Period>, Refusal> {
        if self.anchor.is_none() {
            return Ok(None);
        }
        let period = self.period_after()?;
        let goes_on = self.ended_at.is_none() && self.cancel_at.is_none_or(|at| period.start < at);
        Ok(goes_on.then_some(period))
    }

    /// The next period, whether or not it is billed.
    fn period_after(&self) -> Result<Period, Refusal> {
        let since = self.next.saturating_sub(self.first);
        let period = self.anchor()?.period(since)?;
        Ok(Period {
            number: self.next,
            ..period
        })
    }

    /// The period with this number, if it is counted from the current anchor.
    fn numbered(&self, number: u32) -> Option<Period> {
        let since = number.checked_sub(self.first)?;
        let period = self.anchor?.period(since).ok()?;
        Some(Period { number, ..period })
    }

    /// The debt of an invoice.
    fn owed(&self, invoice: &str) -> Result<&Owed, Refusal> {
        let owed = self.owed.get(invoice);
        owed.ok_or_else(|| Refusal::invalid(format!("Nothing is owed for {invoice}.")))
    }

    /// When a subscription whose first invoice is not paid expires.
    pub fn expires_at(&self) -> Time {
        self.waits_since
            .unwrap_or(self.created_at)
            .plus(i64::from(INCOMPLETE_HOURS) * 60 * 60 * 1_000)
    }

    /// Until when service is certain in a state: the end of the paid period, of the days of grace, or the scheduled
    /// end.
    pub fn entitled_until(&self, state: &str) -> Option<Time> {
        let grace = self.grace_end().filter(|_| state == "past_due");
        let ends = [self.paid_until(), grace, self.cancel_at];
        ends.into_iter().flatten().min()
    }

    /// The end of what is paid: of the trial, or of the current period.
    pub fn paid_until(&self) -> Option<Time> {
        self.period.map(|period| period.end).or(self.trial_end)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The number of the period that an invoice of a subscription bills.
fn number_of(invoice: &str) -> Option<u32> {
    invoice.rsplit('_').next()?.parse().ok()
}

/// What a draft leaves for the next one: credit, and what was too little to be charged, which is owed with it.
fn carried(draft: &Draft, left: Money) -> Result<Option<Money>, Refusal> {
    let carried = left.plus(draft.lines.of_kind(LineKind::Deferred)?)?;
    Ok(Some(carried).filter(|carried| !carried.is_zero()))
}
