//! The outcomes that a timer writes when it fires.

use serde::Serialize;
use serde_json::Value;

use super::Timer;
use crate::{
    Period, Time,
    states::{Canceled, Collected, Draft, Invoiced, Moment, Refusal, Subscription},
};

/// An outcome to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The action.
    pub action: &'static str,
    /// Its outcome.
    pub outcome: &'static str,
    /// The outcome's data.
    pub data: Value,
}

impl Write {
    fn new(
        action: &'static str,
        outcome: &'static str,
        data: &impl Serialize,
    ) -> Result<Self, Refusal> {
        let data =
            serde_json::to_value(data).map_err(|error| Refusal::Invalid(error.to_string()))?;
        Ok(Self {
            action,
            outcome,
            data,
        })
    }
}

/// The overdue timer with the earliest time.
pub(super) fn overdue(
    state: &str,
    subscription: &Subscription,
    now: Time,
) -> Result<Option<Timer>, Refusal> {
    let mut first: Option<(Time, Timer)> = None;
    for timer in Timer::ALL {
        if let Some(at) = timer.at(state, subscription)?.filter(|at| *at <= now)
            && first.is_none_or(|(earliest, _)| at < earliest)
        {
            first = Some((at, timer));
        }
    }
    Ok(first.map(|(_, timer)| timer))
}

/// The outcomes that a firing timer writes to the chain of a subscription. None if it is no longer due, or not yet.
pub fn due(
    timer: Timer,
    id: &str,
    state: &str,
    subscription: &Subscription,
    now: Time,
) -> Result<Vec<Write>, Refusal> {
    let Some(at) = timer.at(state, subscription)?.filter(|at| *at <= now) else {
        return Ok(Vec::new());
    };
    let moment = Moment { at };
    match timer {
        Timer::Expire => {
            let mut writes = vec![Write::new("expire", "expired", &moment)?];
            writes.extend(unserved(state, subscription, at)?);
            Ok(writes)
        }
        Timer::Cancel => cancel(id, state, subscription, at),
        Timer::Trial => Ok(vec![Write::new("end_trial", "incomplete", &moment)?]),
        Timer::TrialNotice => Ok(vec![Write::new("notify", "trial_will_end", &moment)?]),
        Timer::Upcoming => Ok(vec![Write::new("notify", "upcoming", &moment)?]),
        Timer::Grace => end_grace(subscription, at),
        Timer::Dunning => dunning(subscription, at),
        Timer::Period => period(id, state, subscription),
    }
}

/// Ends a subscription at a moment, with an invoice for pending lines.
pub fn cancel(
    id: &str,
    state: &str,
    subscription: &Subscription,
    at: Time,
) -> Result<Vec<Write>, Refusal> {
    let mut writes = Vec::new();
    if matches!(state, "active" | "past_due" | "unpaid" | "paused")
        && let Some(draft) = subscription.last_invoice(id)?
    {
        writes.push(Write::new("bill", "invoiced", &Invoiced { draft })?);
    }
    let is_unserved = state == "incomplete";
    let end = Canceled {
        at,
        unserved: is_unserved,
    };
    writes.push(Write::new("cancel", "canceled", &end)?);
    if is_unserved {
        writes.extend(unserved(state, subscription, at)?);
    }
    Ok(writes)
}

/// Invoices for service that was never provided need not be paid.
pub fn unserved(state: &str, subscription: &Subscription, at: Time) -> Result<Vec<Write>, Refusal> {
    let cleared = subscription.unserved(state, at)?.into_iter();
    cleared
        .map(|(outcome, cleared)| Write::new("collect", outcome, &cleared))
        .collect()
}

/// The end of the grace period, with the rest of the billing period.
fn end_grace(subscription: &Subscription, at: Time) -> Result<Vec<Write>, Refusal> {
    let stop = subscription.stop(at)?;
    Ok(vec![Write::new("end_grace", "ended", &stop)?])
}

/// An attempt to collect each invoice whose retry day has come.
fn dunning(subscription: &Subscription, by: Time) -> Result<Vec<Write>, Refusal> {
    let invoices = subscription.owed.keys();
    let next = invoices.filter_map(|invoice| subscription.next_attempt(invoice));
    next.filter(|(at, _)| *at <= by)
        .map(|(_, attempt)| Write::new("retry", "attempted", &attempt))
        .collect()
}

/// Bills and enters the next period, or skips it.
fn period(id: &str, state: &str, subscription: &Subscription) -> Result<Vec<Write>, Refusal> {
    let Some(period) = subscription.next_period()? else {
        return Ok(Vec::new());
    };
    if !Subscription::is_billed(state) {
        return skipped(id, subscription, &period);
    }
    billed(id, state, subscription, &period)
}

/// Pending lines are billed at each boundary, so that pausing cannot postpone them.
fn skipped(id: &str, subscription: &Subscription, period: &Period) -> Result<Vec<Write>, Refusal> {
    let mut writes = Vec::new();
    if let Some(draft) = subscription.last_invoice(id)? {
        writes.push(Write::new("bill", "invoiced", &Invoiced { draft })?);
    }
    writes.push(Write::new("advance", "skipped", period)?);
    Ok(writes)
}

fn billed(
    id: &str,
    state: &str,
    subscription: &Subscription,
    period: &Period,
) -> Result<Vec<Write>, Refusal> {
    let draft = subscription.next_invoice(id)?;
    let settled = settled(state, subscription, &draft)?;
    let mut writes = vec![Write::new("bill", "invoiced", &Invoiced { draft })?];
    writes.push(Write::new("advance", "advanced", period)?);
    writes.extend(settled);
    Ok(writes)
}

/// What pays a first invoice over nothing: no payment will report.
fn settled(
    state: &str,
    subscription: &Subscription,
    draft: &Draft,
) -> Result<Option<Write>, Refusal> {
    let due = draft.totals()?.due;
    let is_free = subscription.owed.is_empty() && due.is_zero();
    if state != "incomplete" || !is_free {
        return Ok(None);
    }
    let free = Collected {
        invoice: draft.id(),
        intent: String::new(),
        attempt: 0,
        amount: due,
        reason: None,
        lines: Vec::new(),
        restored: None,
        returned: None,
        revoked: None,
    };
    Write::new("collect", "settled", &free).map(Some)
}
