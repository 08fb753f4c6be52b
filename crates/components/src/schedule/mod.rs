//! Many named timers of an object: one-shot, at intervals, or by a cron expression in a time zone.
//!
//! An object with a [`Schedule`] sets timers in the transaction that changes its state. When one is due, the object's
//! alarm passes it to the object's handler, repeatedly if necessary, until the handler succeeds or the attempts are
//! used up; then it has failed, and waits for an operator.
//!
//! - Setting a timer to the same spec changes nothing, so it can be repeated, for example at each start.
//! - Each attempt is counted on disk before it begins. A handler that crashes the process is not retried forever.
//! - A handler that is called in the alarm has its effect on the object exactly once: its writes and the completion of
//!   the occurrence are one transaction. A background handler, which may await, is called at least once.
//! - No occurrence is lost or repeated because the node was down or its clock was set; [`Misfire`] defines what happens
//!   to missed occurrences, [`Overlap`] to overlapping ones.
//!
//! ```
//! use abide::prelude::*;
//! use abide::schedule::{Firing, ScheduleOptions, Schedule, ScheduleError, Spec};
//! use std::time::Duration;
//!
//! #[durable_object]
//! struct Subscription {
//!     ctx: Ctx,
//!     schedule: Schedule,
//! }
//!
//! impl DurableObject for Subscription {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let schedule = Schedule::open(&ctx, ScheduleOptions::default())?;
//!         let storage = ctx.storage().clone();
//!         // What is written here, and that the timer has gone off, is one transaction.
//!         schedule.on_firing(move |firing: &Firing| match firing.kind.as_str() {
//!             "trial end" => storage.put("trial", &false),
//!             _ => Ok(()),
//!         })?;
//!         schedule.upsert("report", &Spec::cron("report", "0 9 * * MON", "Europe/Berlin"))?;
//!         Ok(Self { ctx, schedule })
//!     }
//! }
//!
//! #[rpc]
//! impl Subscription {
//!     pub async fn start_trial(&self, ends_at: i64) -> Result<(), ScheduleError> {
//!         self.ctx.storage().put("trial", &true)?;
//!         self.schedule.upsert("trial", &Spec::once("trial end", ends_at))?;
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! let host = abide::Host::builder("data").object::<Subscription>();
//! # }
//! ```

mod alarm;
mod calendar;
mod clock;
mod error;
mod history;
mod inner;
pub(crate) mod limits;
mod metrics;
#[cfg(feature = "server")]
mod operations;
mod options;
mod pass;
mod plan;
mod record;
mod rows;
mod runs;
mod schema;
mod settle;
mod spec;
mod timers;
mod timing;

use std::{future::Future, rc::Rc};

use abide::{Ctx, Result};

use abide_component::numbers::rows as count;
use inner::Inner;
use timers::Set;

pub use abide_component::RetryPolicy;
pub use abide_component::{Failure, FailureKind};
pub use error::ScheduleError;
pub use options::ScheduleOptions;
pub use record::{Entry, Firing, Phase, Run, Timer, Upserted};
pub use spec::{Misfire, Overlap, Spec};
pub use timing::Timing;

/// An object's timers. Clones refer to the same schedule.
#[derive(Clone, Debug)]
pub struct Schedule(Rc<Inner>);

impl Schedule {
    /// Opens the schedule of an object, in its constructor; creates its tables, whose names begin with `schedule_`, if
    /// they do not exist. It uses the object's alarm `schedule`. Due occurrences go to the handler that is then set
    /// with [`on_firing`](Self::on_firing) or [`on_firing_in_background`](Self::on_firing_in_background).
    ///
    /// # Errors
    /// [`ErrorKind::Input`](abide::ErrorKind::Input) if an option is invalid or the object already has a schedule,
    /// [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) if this program does not know the version of the tables.
    pub fn open(ctx: &Ctx, options: ScheduleOptions) -> Result<Self> {
        options.check()?;
        let inner = Inner::open(ctx, options)?;
        let asked = Rc::clone(&inner);
        ctx.has_duties(inner::NAME, move || asked.holds());
        inner.mind_clock(inner.now())?;
        inner.arm()?;
        let copied = Rc::clone(&inner);
        ctx.on_activation(move |how| copied.activated(how));
        let schedule = Self(inner);
        #[cfg(feature = "server")]
        schedule.serve_operators(ctx)?;
        Ok(schedule)
    }

    /// Sets a timer, in the transaction of the current poll. If the timer of this name already has the same spec,
    /// nothing changes, whatever its state; only a timer of [`Spec::after`] that has ended waits again.
    ///
    /// A timer with another spec is replaced. An occurrence that has already gone off finishes, and is not repeated; a
    /// failed one is dropped. A timer with the same timing that repeats, or still waits, keeps its times.
    pub fn upsert(&self, name: &str, spec: &Spec) -> Result<Upserted, ScheduleError> {
        let inner = &self.0;
        let now = inner.now();
        let rows = &inner.rows;
        let known = rows.named(name)?;
        let is_same = known
            .as_ref()
            .is_some_and(|set| set.spec.0 == *spec && !(set.ended && spec.timing.is_relative()));
        if is_same {
            return Ok(Upserted::Unchanged);
        }
        if !(1..=limits::MAX_NAME_BYTES).contains(&name.len()) {
            return Err(ScheduleError::Invalid(format!(
                "the name has {} bytes: give it 1 to {}",
                name.len(),
                limits::MAX_NAME_BYTES
            )));
        }
        spec.check(now)?;
        rows.storage.transaction(|| {
            inner.mind_clock(now)?;
            let anchor = spec.timing.anchor(now);
            let first = spec.timing.first(anchor, now);
            let first = first.map_err(ScheduleError::Invalid)?;
            let (upserted, event) = match known {
                None => {
                    if rows.count()? >= limits::MAX_TIMERS {
                        return Err(ScheduleError::Full {
                            max: limits::MAX_TIMERS,
                        });
                    }
                    let source = inner.source();
                    rows.insert((name, &source), spec, anchor, first, now)?;
                    (Upserted::Created, "created")
                }
                Some(set) => {
                    let keeps = (spec.timing.repeats() || spec.timing.is_relative())
                        && spec.timing == set.spec.0.timing;
                    let (anchor, due_at) = match set.due_at.filter(|_| keeps) {
                        Some(due_at) => (set.anchor, Some(due_at)),
                        None => (anchor, first),
                    };
                    let source = inner.source();
                    rows.replace((set.id, &source), spec, anchor, due_at, now)?;
                    (Upserted::Replaced, "replaced")
                }
            };
            rows.note(name, event, first, None, now)?;
            inner.arm()?;
            Ok(upserted)
        })
    }

    /// Removes a timer, and its failed occurrences. An occurrence that has already gone off finishes, and is not
    /// repeated. True if there was one.
    pub fn cancel(&self, name: &str) -> Result<bool> {
        let inner = &self.0;
        inner.rows.storage.transaction(|| {
            let Some(set) = inner.rows.named(name)? else {
                return Ok(false);
            };
            inner.rows.remove(set.id)?;
            inner
                .rows
                .note(name, "canceled", set.due_at, None, inner.now())?;
            inner.arm()?;
            Ok(true)
        })
    }

    /// A timer.
    pub fn get(&self, name: &str) -> Result<Option<Timer>> {
        self.0.rows.timer(name)
    }

    /// Timers in the order of their names, after a name; at most `limit`, and at most 1,000.
    pub fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Timer>> {
        self.0.rows.timers_after(after.unwrap_or(""), page(limit))
    }

    /// Failed occurrences, and those after which a timer could not continue because its next time is unknown, oldest
    /// first, after an id; at most `limit`, and at most 1,000.
    pub fn failed(&self, after: Option<i64>, limit: usize) -> Result<Vec<Run>> {
        self.0.rows.failed(after.unwrap_or(0), page(limit))
    }

    /// Events, newest first, of one timer or of all, before an id; at most `limit`, and at most 1,000.
    pub fn history(
        &self,
        timer: Option<&str>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        self.0
            .rows
            .history(timer, before.unwrap_or(i64::MAX), page(limit))
    }

    /// When something is due next, in milliseconds since 1970.
    pub fn next(&self) -> Result<Option<i64>> {
        Ok(self.0.rows.next()?.0)
    }

    /// Makes a timer go off at once. A one-shot timer does so instead of at its time; one that has finished, or
    /// repeats, does so in addition to its times.
    pub fn run_now(&self, name: &str) -> Result<(), ScheduleError> {
        self.change(name, "asked", |inner, set, now| {
            let spec = &set.spec.0;
            if let Some(due_at) = set.due_at.filter(|_| !spec.timing.repeats()) {
                let plan = timers::Plan {
                    due_at: Some(due_at),
                    fire_at: Some(now),
                    queued: true,
                    behind: false,
                };
                return Ok(inner.rows.plan(set.id, plan)?);
            }
            if spec.overlap != Overlap::Allow && inner.rows.is_busy(set)? {
                return Err(ScheduleError::Busy {
                    name: set.name.clone(),
                });
            }
            inner.rows.reopen(set.id)?;
            Ok(inner.rows.begin_asked(set, now)?)
        })
    }

    /// Retries all failed occurrences of a timer at once, with fresh counts of attempts. A timer whose next time was
    /// unknown continues, if it is known now.
    pub fn retry(&self, name: &str) -> Result<(), ScheduleError> {
        self.change(name, "redriven", |inner, set, now| {
            let goes_on = match inner.rows.stuck(set.id)? {
                Some(stuck) => inner.go_on(set, &stuck, now)?,
                None => Ok(false),
            };
            if inner.rows.revive(set.id, now)? || goes_on.map_err(ScheduleError::Invalid)? {
                return Ok(());
            }
            Err(ScheduleError::NotFailed {
                name: set.name.clone(),
            })
        })
    }

    /// Discards all failed occurrences of a timer. One whose next time is unknown is finished.
    pub fn discard(&self, name: &str) -> Result<(), ScheduleError> {
        self.change(name, "discarded", |inner, set, now| {
            if inner.rows.discard(set.id)? {
                return Ok(inner.rows.rest(set.id, now)?);
            }
            Err(ScheduleError::NotFailed {
                name: set.name.clone(),
            })
        })
    }

    /// Sets a handler that is called for each due occurrence, one at a time. Call this in the object's constructor,
    /// once; the handler owns clones of what it needs of the object, such as its storage.
    ///
    /// The handler's writes and the completion of the occurrence are one transaction. If it returns an error, its
    /// writes are rolled back, and the attempt has failed. If it panics, the attempt has failed, with a mark by which the log
    /// has the panic's text, and the object restarts, because its memory may be in any state; the others continue. A handler
    /// may set and cancel timers, including its own.
    pub fn on_firing<E: Into<Failure>>(
        &self,
        handler: impl Fn(&Firing) -> Result<(), E> + 'static,
    ) -> Result<()> {
        let (inner, handler) = (Rc::clone(&self.0), Rc::new(handler));
        self.0.ctx.on_alarm(inner::NAME, move |_| {
            let (inner, handler) = (Rc::clone(&inner), Rc::clone(&handler));
            async move { inner.see_to(|firing| handler(firing)).await }
        })
    }

    /// The same, for handlers that await: they run in the background, several at a time, and do not block the alarm.
    ///
    /// A handler's writes after its last `await` and the completion of the occurrence are one transaction; earlier
    /// writes remain whatever happens, even if it panics, which fails the attempt like any error. An attempt that takes
    /// longer than [`ScheduleOptions::timeout`] is dropped at its current await, and has failed.
    ///
    /// ```
    /// # use abide::prelude::*;
    /// # use abide::schedule::{Firing, ScheduleOptions, Schedule};
    /// # #[durable_object]
    /// # struct Pages { schedule: Schedule }
    /// # impl DurableObject for Pages {
    /// fn new(ctx: Ctx, _env: Env) -> Result<Self> {
    ///     let schedule = Schedule::open(&ctx, ScheduleOptions::default())?;
    ///     schedule.on_firing_in_background(move |firing: Firing| {
    ///         let ctx = ctx.clone();
    ///         async move {
    ///             let page = abide::http::Request::get("https://example.com/")
    ///                 .header("idempotency-key", &firing.key)
    ///                 .body(Body::empty())?;
    ///             let answer = ctx.env().fetch(page).await?;
    ///             ctx.storage().put("status", &answer.status().as_u16())
    ///         }
    ///     })?;
    ///     Ok(Self { schedule })
    /// }
    /// # }
    /// # #[rpc]
    /// # impl Pages {}
    /// # fn main() {}
    /// ```
    pub fn on_firing_in_background<F, E>(
        &self,
        handler: impl Fn(Firing) -> F + 'static,
    ) -> Result<()>
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Into<Failure>,
    {
        let (inner, handler) = (Rc::clone(&self.0), Rc::new(handler));
        self.0.ctx.on_alarm(inner::NAME, move |_| {
            let handler = Rc::clone(&handler);
            std::future::ready(inner.see_to_in_background(move |firing| handler(firing)))
        })
    }

    fn change(
        &self,
        name: &str,
        event: &str,
        f: impl FnOnce(&Inner, &Set, i64) -> Result<(), ScheduleError>,
    ) -> Result<(), ScheduleError> {
        let inner = &self.0;
        let now = inner.now();
        inner.rows.storage.transaction(|| {
            inner.mind_clock(now)?;
            let Some(set) = inner.rows.named(name)? else {
                return Err(ScheduleError::NotFound {
                    name: name.to_owned(),
                });
            };
            f(inner, &set, now)?;
            inner.rows.note(name, event, None, None, now)?;
            Ok(inner.arm()?)
        })
    }
}

/// A number of rows, as SQL takes it.
fn page(limit: usize) -> i64 {
    count(limit.min(limits::MAX_PAGE))
}
