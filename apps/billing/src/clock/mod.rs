//! The billing clock: what happens in a subscription on its own, and when.
//!
//! Contract: the timers of a subscription follow from the state of its chain, and from nothing else. [`Timer::at`]
//! computes them, and after each outcome the schedule is updated. When a timer fires, [`due`] computes what to write
//! from the current chain, so a timer that fires late or repeatedly writes nothing wrong. The outcomes and the
//! completion of the timer are one transaction. No period is billed twice, and none is skipped, however late a node is:
//! each follows from the previous one.
//!
//! An invoice is another object. [`order`] computes what an outcome requires of it; the order is stored in the
//! outcome's transaction, and sent by RPC until the invoice has answered.

mod due;
mod order;
mod payments;
mod timers;

use std::{future::Future, time::Duration};

use abide::{Ctx, Result};
use abide::{
    outcomes::Entry,
    schedule::{
        self, Failure, Firing, Phase, RetryPolicy, Schedule, ScheduleError, ScheduleOptions, Spec,
    },
};
use serde_json::Value;

use crate::{
    BillingError, Time,
    states::{Refusal, Subscription},
};

use due::overdue;
pub use due::{Write, cancel, due, unserved};
pub use order::{Collection, order};
pub use payments::{AnyPayments, Payments};
pub use timers::Timer;

/// Timers that one call catches up with: ten years of days. The rest follows with the next call.
const MAX_CATCH_UP: u32 = 3_660;

/// Attempts of a timer before an operator must look at it: about four days.
const PATIENCE: u32 = 100;

/// Attempts to send an invoice what an outcome has ordered: about forty days. Until it succeeds, a customer may be
/// served without being charged, so attempts continue while an operator investigates.
const ORDER_ATTEMPTS: u32 = 1_000;

/// The kind of the schedule's timers that send orders to invoices. The kinds of the others are their names.
const COLLECT: &str = "collect";

/// A subscription's timers. Clones are the same.
#[derive(Clone, Debug)]
pub struct Clock {
    ctx: Ctx,
    schedule: Schedule,
}

/// The subscription, as the clock uses it.
pub trait Subject {
    /// Its id.
    fn id(&self) -> &str;

    /// The current state and its data.
    fn live(&self) -> Result<(&'static str, Subscription)>;

    /// Writes an outcome of an action to its chain.
    fn write(&self, action: &str, outcome: &str, data: &Value) -> Result<()>;

    /// Creates an invoice and begins an attempt to collect it, each only if that has not been done; or voids the
    /// invoice. It is called until it succeeds.
    fn collect(&self, order: Collection) -> impl Future<Output = Result<(), Failure>>;

    /// Reports that a timer keeps failing, with the error.
    fn fails(&self, timer: &str, error: &str) -> impl Future<Output = ()>;
}

impl Clock {
    /// Opens the clock of a subscription, in its object's constructor.
    pub fn open(ctx: &Ctx) -> Result<Self> {
        let options = ScheduleOptions::default().retry(attempts(PATIENCE));
        Ok(Self {
            ctx: ctx.clone(),
            schedule: Schedule::open(ctx, options)?,
        })
    }

    /// The timers that are set, by their names.
    pub fn timers(&self) -> Result<Vec<schedule::Timer>> {
        self.schedule.list(None, abide::limits::schedule::MAX_PAGE)
    }

    /// Retries a failed timer; returns all timers.
    pub fn retry(&self, name: &str) -> Result<Vec<schedule::Timer>, BillingError> {
        match self.schedule.retry(name) {
            Err(ScheduleError::NotFailed { .. } | ScheduleError::NotFound { .. }) => Err(
                BillingError::invalid(format!("There is no failed timer “{name}”.")),
            ),
            retried => {
                retried.map_err(abide::Error::from)?;
                Ok(self.timers()?)
            }
        }
    }

    /// Updates the timers from the chain, and stores the orders of its newest outcome. Call it with each outcome, in
    /// its transaction.
    pub fn follow(&self, entry: &Entry, state: &str, subscription: &Subscription) -> Result<()> {
        self.set_all(state, subscription)?;
        for order in order(entry, subscription)? {
            self.place(&order, self.due_at(entry))?;
        }
        Ok(())
    }

    /// Sets the timers again, which an activation has dropped: they follow from the chain, and are not another's work.
    pub fn follow_again(&self, state: &str, subscription: &Subscription) -> Result<()> {
        self.set_all(state, subscription)?;
        let now = Time::now(&**self.ctx.env().clock()).0;
        for invoice in &subscription.asks {
            self.place(&Collection::question(invoice), now)?;
        }
        Ok(())
    }

    fn set_all(&self, state: &str, subscription: &Subscription) -> Result<()> {
        for timer in Timer::ALL {
            let name = timer.name();
            match timer.at(state, subscription)? {
                Some(Time(at)) => drop(self.schedule.upsert(name, &Spec::once(name, at))?),
                None => drop(self.schedule.cancel(name)?),
            }
        }
        Ok(())
    }

    /// Has an invoice asked for what an outcome orders, until it has answered.
    fn place(&self, order: &Collection, at: i64) -> Result<()> {
        let spec = if order.ask {
            // Two restores in one moment both ask.
            Spec::after(COLLECT, Duration::ZERO)
        } else {
            Spec::once(COLLECT, at)
        };
        let spec = spec.metadata(order)?;
        let spec = spec.retry(attempts(ORDER_ATTEMPTS));
        self.schedule.upsert(&order.name(), &spec)?;
        Ok(())
    }

    /// When an outcome's order is due. A chain's time does not go back when the clock is set back; its orders are due now.
    fn due_at(&self, entry: &Entry) -> i64 {
        entry.ts.min(Time::now(&**self.ctx.env().clock()).0)
    }

    /// Runs due timers in the background. Call it in the object's constructor.
    pub fn serve<S: Subject + Clone + 'static>(&self, subject: S) -> Result<()> {
        let ctx = self.ctx.clone();
        self.schedule
            .on_firing_in_background(move |firing: Firing| {
                let (ctx, subject) = (ctx.clone(), subject.clone());
                async move {
                    let done = if firing.kind == COLLECT {
                        subject.collect(firing.metadata()?).await
                    } else {
                        // No `await`: it is one transaction with the timer's end.
                        go_off(&ctx, &subject, &firing)
                    };
                    if let Err(failure) = &done
                        && (failure.is_permanent() || firing.attempt >= PATIENCE)
                    {
                        subject.fails(&firing.timer, failure.message()).await;
                    }
                    done
                }
            })
    }
}

/// This many attempts, the later ones an hour apart.
fn attempts(most: u32) -> RetryPolicy {
    RetryPolicy::Exponential {
        base: Duration::from_secs(2),
        max: Duration::from_hours(1),
        max_attempts: most,
    }
}

/// Returns whether an operator must look at a timer: it was given up, or has failed for a long time.
pub fn is_in_trouble(timer: &schedule::Timer) -> bool {
    let run = timer.run.as_ref();
    let is_late = run.is_some_and(|run| run.attempts >= PATIENCE && run.last_error.is_some());
    timer.phase == Phase::Failed || is_late
}

/// Writes everything that is due, in chronological order: what happens at a moment sees everything before it. Returns
/// false if there is more than one call writes.
///
/// # Errors
/// If the chain rejects it.
pub fn catch_up(subject: &impl Subject, now: Time) -> Result<bool> {
    let refused = |refusal: Refusal| abide::Error::from(refusal);
    for _ in 0..MAX_CATCH_UP {
        let (phase, subscription) = subject.live()?;
        let Some(timer) = overdue(phase, &subscription, now).map_err(refused)? else {
            return Ok(true);
        };
        for write in due(timer, subject.id(), phase, &subscription, now).map_err(refused)? {
            subject.write(write.action, write.outcome, &write.data)?;
        }
    }
    Ok(false)
}

/// Writes the outcomes of a firing timer.
fn go_off(ctx: &Ctx, subject: &impl Subject, firing: &Firing) -> Result<(), Failure> {
    let Some(timer) = Timer::named(&firing.kind) else {
        return Err(Failure::permanent(format!(
            "no timer of a subscription is called `{}`",
            firing.kind
        )));
    };
    let now = Time::now(&**ctx.env().clock());
    ctx.storage().transaction(|| {
        let (phase, subscription) = subject.live()?;
        let refused = |refusal: Refusal| Failure::permanent(refusal.to_string());
        let at = timer.at(phase, &subscription).map_err(refused)?;
        if at.is_some_and(|at| now < at) {
            // Otherwise it would count as having fired.
            return Err(Failure::temporary(
                "the clock was set back: it is not time yet",
            ));
        }
        // The rest has a timer that is due.
        catch_up(subject, now)?;
        Ok(())
    })
}
