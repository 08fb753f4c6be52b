//! Proration of plan changes, pauses and resumptions.

use super::{
    super::{MAX_PENDING, Refusal},
    Changed, Paused, Plan, Resumed, Subscription,
};
use crate::{Line, LineKind, Money, Period, Time, proration};

impl Subscription {
    /// A plan change at a moment: credits the rest of the period for the old plan and charges it for the new one.
    /// During a trial, and where the period is not billed, both are nothing.
    pub fn change(&self, state: &str, plan: Plan, at: Time) -> Result<Changed, Refusal> {
        plan.check()?;
        let old = self.plan()?;
        let (before, after) = (old.amount()?, plan.amount()?);
        if before.currency() != after.currency() {
            return Err(Refusal::invalid(format!(
                "The subscription is in {}: a plan in {} requires a new subscription.",
                before.currency(),
                after.currency()
            )));
        }
        let is_longer = old.every != plan.every && self.anchor.is_some();
        if is_longer && self.cancel_at.is_some() {
            return Err(Refusal::invalid(
                "The subscription ends with its period: revoke the cancellation before changing the length of its periods.",
            ));
        }
        // The new period begins now, and is billed in full.
        let anchor = is_longer.then_some(at);
        let is_billed = Self::is_billed(state) && !self.skipped && !self.waived;
        let Some(period) = self.period.filter(|_| is_billed) else {
            return self.can_be_billed(Changed {
                plan,
                lines: Vec::new(),
                withheld: None,
                restored: None,
                anchor,
            });
        };
        let mut change = proration::change(before, after, &period, at)?;
        if is_longer {
            change.charge = Money::zero(after.currency());
        }
        // What service costs less by was given back before, perhaps; what it costs more by had been withheld.
        let net = change.net()?;
        let withheld = self.withheld(&period, net);
        if let Some(withheld) = withheld {
            change.credit = change.credit.plus(withheld)?;
        }
        let restored = self.restored(&period, net);
        if let Some(restored) = restored {
            change.charge = change.charge.minus(restored)?;
        }
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
        // One more for a pause or the end of grace, and one when service continues.
        if self.pending.len() + lines.len() + 2 > MAX_PENDING {
            return Err(too_many(self.pending.len()));
        }
        self.can_be_billed(Changed {
            plan,
            lines,
            withheld,
            restored,
            anchor,
        })
    }

    /// Rejects a change whose next invoice would exceed the maximum amount.
    fn can_be_billed(&self, changed: Changed) -> Result<Changed, Refusal> {
        if self.anchor.is_some() {
            let mut after = self.clone();
            after.changed(changed.clone());
            after.next_invoice("")?.lines.check()?;
        }
        Ok(changed)
    }

    /// The data of a pause.
    pub fn pause(&self, at: Time) -> Result<Paused, Refusal> {
        // One line now, and one when service continues.
        if self.pending.len() + 2 > MAX_PENDING {
            return Err(too_many(self.pending.len()));
        }
        self.stop(at)
    }

    /// The data of a temporary end of service: credits the rest of a billed period.
    pub fn stop(&self, at: Time) -> Result<Paused, Refusal> {
        let mut withheld = None;
        let lines = match self.period {
            Some(period) if !self.skipped && !self.waived => {
                let plan = self.plan()?;
                let mut amount = proration::rest(plan.amount()?, &period, at)?.negated();
                withheld = self.withheld(&period, amount);
                if let Some(withheld) = withheld {
                    amount = amount.plus(withheld)?;
                }
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
            lines: lines.collect(),
            withheld,
        })
    }

    /// The lines on the next invoice if service resumes at a moment: the rest of the period, if it was skipped. Also
    /// the part of it that is not charged, because it had been credited.
    fn rest_of_skipped(&self, at: Time) -> Result<(Vec<Line>, Option<Money>), Refusal> {
        let Some(period) = self.period.filter(|_| self.skipped && !self.waived) else {
            return Ok((Vec::new(), None));
        };
        let plan = self.plan()?;
        let mut amount = proration::rest(plan.amount()?, &period, at)?;
        let restored = self.restored(&period, amount);
        if let Some(restored) = restored {
            amount = amount.minus(restored)?;
        }
        let line = Line {
            kind: LineKind::ProrationCharge,
            description: format!("Remaining time of {} × {}", plan.quantity, plan.product),
            price: Some(plan.price.clone()),
            period: Some(rest_of(&period, at)),
            amount,
        };
        Ok((vec![line], restored))
    }

    /// The same when a debt is settled: service resumes if it had ended because of it.
    pub(super) fn lines_of_end(
        &self,
        state: &str,
        is_last: bool,
        at: Time,
    ) -> Result<(Vec<Line>, Option<Money>), Refusal> {
        if is_last && state == "unpaid" {
            self.rest_of_skipped(at)
        } else {
            Ok((Vec::new(), None))
        }
    }

    /// The outcome of `resume` after a pause. A customer who owes money after a failed payment is dunned.
    pub fn resumed(&self, at: Time) -> Result<(&'static str, Resumed), Refusal> {
        let has_failed = self.owed.values().any(|owed| owed.since.is_some());
        let outcome = if has_failed { "owing" } else { "resumed" };
        let (lines, restored) = self.rest_of_skipped(at)?;
        let resumed = Resumed {
            at,
            lines,
            restored,
            anew: outcome == "owing",
        };
        Ok((outcome, resumed))
    }
}

pub(super) fn too_many(pending: usize) -> Refusal {
    Refusal::invalid(format!(
        "{pending} lines are pending for the next invoice, and the limit is {MAX_PENDING}: retry when the next period has begun."
    ))
}

/// The rest of a period from a moment on.
fn rest_of(period: &Period, at: Time) -> Period {
    Period {
        start: at.whole_second().max(period.start).min(period.end),
        ..*period
    }
}
