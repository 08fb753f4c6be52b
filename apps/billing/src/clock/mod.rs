//! The billing clock: what of a subscription happens by itself, and when.
//!
//! Contract: the timers of a subscription follow from what its chain has come to, and from nothing else: [`Timer::at`]
//! tells which there are to be, and after each outcome the schedule is set to that. When one goes off, [`due`] tells what is to be
//! written, from the chain as it is then: so a timer that goes off late, or again, writes nothing that is not right. What is
//! written, and that the timer has gone off, is one transaction; no period is billed twice, and none is left out, however
//! late a node is: each follows from the one before.
//!
//! An invoice is another object. What an outcome wants of it, [`order`] tells; it is ordered in the outcome's transaction, and
//! asked for by RPC until the invoice has answered.

mod due;
mod order;
mod payments;
mod timers;

use std::{future::Future, time::Duration};

use abide::{Result, State};
use abide::{
    outcomes::Entry,
    schedule::{self, Failure, Firing, Options, Phase, RetryPolicy, Schedule, ScheduleError, Spec},
};
use serde_json::Value;

use crate::{
    BillingError, Time,
    broken::{Variant, broken},
    states::{Refusal, Subscription},
};

use due::overdue;
pub use due::{Write, cancel, due, unserved};
pub use order::{Collection, order};
pub use payments::{AnyPayments, Payments};
pub use timers::Timer;

/// Timers that one call catches up with: ten years of days. What is left follows with the next.
const MAX_CATCH_UP: u32 = 3_660;

/// Attempts at what a timer wants until a person has to look: some four days.
const PATIENCE: u32 = 100;

/// Attempts at what an outcome has ordered of an invoice: some forty days. Until it is done somebody may be served who is not
/// asked to pay, so that goes on while a person looks.
const ORDER_ATTEMPTS: u32 = 1_000;

/// The kind of the schedule's timers that ask an invoice for something. Those of the others are their names.
const COLLECT: &str = "collect";

/// A subscription's timers. Clones are the same.
#[derive(Clone, Debug)]
pub struct Clock {
    state: State,
    schedule: Schedule,
}

/// The subscription, as the clock needs it.
pub trait Subject {
    /// Its id.
    fn id(&self) -> &str;

    /// The state it is in, and what is known of it.
    fn live(&self) -> Result<(&'static str, Subscription)>;

    /// Writes an outcome of an action to its chain.
    fn write(&self, action: &str, outcome: &str, data: &Value) -> Result<()>;

    /// Has an invoice created, if it is not, and an attempt to collect it begun, if it has not; or has it voided. It is called
    /// again until it succeeds.
    fn collect(&self, order: Collection) -> impl Future<Output = Result<(), Failure>>;

    /// Tells that a timer does not succeed, with the error, to whoever looks for such.
    fn fails(&self, timer: &str, error: &str) -> impl Future<Output = ()>;
}

impl Clock {
    /// Opens the clock of a subscription, in its object's constructor.
    pub fn open(state: &State) -> Result<Self> {
        let options = Options::default().retry(attempts(PATIENCE));
        Ok(Self {
            state: state.clone(),
            schedule: Schedule::open(state, options)?,
        })
    }

    /// The timers that are set, by their names.
    pub fn timers(&self) -> Result<Vec<schedule::Timer>> {
        self.schedule.list(None, schedule::limits::MAX_PAGE)
    }

    /// Has a timer that has failed tried again; the timers then.
    pub fn retry(&self, name: &str) -> Result<Vec<schedule::Timer>, BillingError> {
        match self.schedule.retry(name) {
            Err(ScheduleError::NotFailed { .. } | ScheduleError::NotFound { .. }) => Err(
                BillingError::invalid(format!("No timer “{name}” has failed.")),
            ),
            retried => {
                retried.map_err(abide::Error::from)?;
                Ok(self.timers()?)
            }
        }
    }

    /// Sets the timers to what the chain has come to, and orders what its newest outcome wants. Call it with each outcome,
    /// in its transaction.
    pub fn follow(&self, entry: &Entry, state: &str, subscription: &Subscription) -> Result<()> {
        for timer in Timer::ALL {
            let name = timer.name();
            match timer.at(state, subscription)? {
                Some(Time(at)) => drop(self.schedule.upsert(name, &Spec::once(name, at))?),
                None if broken(Variant::TimersKept) => {}
                None => drop(self.schedule.cancel(name)?),
            }
        }
        match order(entry, subscription)? {
            Some(order) => self.place(&order, entry),
            None => Ok(()),
        }
    }

    /// Has an invoice asked for what an outcome orders, until it has answered.
    fn place(&self, order: &Collection, entry: &Entry) -> Result<()> {
        let spec = Spec::once(COLLECT, self.due_at(entry)).metadata(order)?;
        let spec = spec.retry(attempts(order_attempts()));
        self.schedule.upsert(&order.name(), &spec)?;
        Ok(())
    }

    /// When what an outcome orders is due. A chain's time does not go back when the clock is set back; what it orders is due now.
    fn due_at(&self, entry: &Entry) -> i64 {
        if broken(Variant::OrderPutOff) {
            return entry.ts;
        }
        entry.ts.min(Time::now(&**self.state.env().clock()).0)
    }

    /// Has what is due seen to, in the background. To be called in the object's constructor.
    pub fn serve<S: Subject + Clone + 'static>(&self, subject: S) -> Result<()> {
        let state = self.state.clone();
        self.schedule
            .on_firing_in_background(move |firing: Firing| {
                let (state, subject) = (state.clone(), subject.clone());
                async move {
                    let done = if firing.kind == COLLECT {
                        let collected = subject.collect(firing.metadata()?).await;
                        if broken(Variant::OrderNotRepeated) {
                            Ok(())
                        } else {
                            collected
                        }
                    } else {
                        // No `await`: it is one transaction with the timer's end.
                        go_off(&state, &subject, &firing)
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

fn order_attempts() -> u32 {
    if broken(Variant::OrderGivenUp) {
        return PATIENCE;
    }
    ORDER_ATTEMPTS
}

/// So many attempts, of which the later ones are an hour apart.
fn attempts(most: u32) -> RetryPolicy {
    RetryPolicy::Exponential {
        base: Duration::from_secs(2),
        max: Duration::from_hours(1),
        max_attempts: most,
    }
}

/// Whether a person has to look at a timer: it was given up, or has been tried in vain for long.
pub fn is_in_trouble(timer: &schedule::Timer) -> bool {
    let run = timer.run.as_ref();
    let is_late = run.is_some_and(|run| run.attempts >= PATIENCE && run.last_error.is_some());
    timer.phase == Phase::Failed || is_late
}

/// Writes what is due, in the order of its times: what happens at a moment finds everything that was to happen before. False if
/// there is more than one call writes.
///
/// # Errors
/// If the chain does not take it.
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

/// Writes what a timer that goes off wants.
fn go_off(state: &State, subject: &impl Subject, firing: &Firing) -> Result<(), Failure> {
    let Some(timer) = Timer::named(&firing.kind) else {
        return Err(Failure::permanent(format!(
            "no timer of a subscription is called `{}`",
            firing.kind
        )));
    };
    let now = Time::now(&**state.env().clock());
    state.storage().transaction_sync(|| {
        let (phase, subscription) = subject.live()?;
        let refused = |refusal: Refusal| Failure::permanent(refusal.to_string());
        let at = timer.at(phase, &subscription).map_err(refused)?;
        if at.is_some_and(|at| now < at) && !broken(Variant::SetBackTaken) {
            // It would be taken for one that has gone off.
            return Err(Failure::again("the clock was set back: it is not time yet"));
        }
        // What is left has a timer that is due.
        catch_up(subject, now)?;
        Ok(())
    })
}
