//! Attempts to handle the object's alarms, from the firing to the end.
//!
//! Changes to an alarm's row outside the object's handlers happen in turns that run none of the object's code.

use std::{borrow::Cow, rc::Rc, task::Poll, time::Duration};

use abide_storage::{AlarmEntry, AlarmRow, BegunAttempt, ClockTime, Isolation, ObjectDb};

use super::{Confirmation, Object, Turn};
use crate::{
    AlarmInfo, AlarmRetry, Error, ErrorKind, Event, LocalFuture, Reply, Result, Timeline,
    Timestamp,
    alarms::{AlarmRequest, AlarmStatus, Cause},
    envelope::{Envelope, Replier, Ticket},
    gate::Departure,
    limits::{EVENT_BYTES, MAX_ALARM_ERROR_BYTES},
};

/// The outcome of a request about an alarm.
enum FireOutcome {
    /// An attempt has begun: the handler runs once that is durable.
    Begun(AlarmInfo),
    /// The object starts, to be told of its new timeline, once the attempt is durable.
    Tell(Timeline),
    /// There is nothing more to do.
    Done(Result<Reply>),
}

impl Object {
    /// Handles a request of the scheduler, a reset or an operator.
    pub(crate) fn handle_alarm_request(self: &Rc<Self>, cause: Cause) {
        if self.is_held() || self.prepare() {
            return self.alarm_requests.borrow_mut().push(cause);
        }
        match cause {
            Cause::Due(replier, isolation) => {
                self.answer_alarm_request(replier, || self.begin_attempt(isolation));
            }
            Cause::Rerun(replier, name) => {
                self.answer_alarm_request(replier, || self.rerun(name.as_deref()));
            }
            Cause::Describe(replier, told) => self.answer_alarm_request(replier, || {
                let rows = self.read(ObjectDb::alarms)?.into_iter();
                let set_back = self.worker.store.alarms().set_back();
                let status = rows.map(|(name, row)| AlarmStatus::new(&name, row, set_back));
                // The caller may be gone.
                let _ = told.send(status.collect());
                Ok(FireOutcome::Done(Ok(Reply::Done)))
            }),
            Cause::Broken {
                attempt,
                error,
                _ticket,
            } => {
                let settled = self.alarm_turn(|| self.settle(&attempt, &error));
                if let Err(error) = settled {
                    tracing::warn!(
                        class = self.binding.class_name.as_str(), id = %self.id, %error,
                        "cannot record the end of an alarm's attempt; the alarm is retried at its retry time"
                    );
                }
            }
        }
    }

    fn answer_alarm_request(
        self: &Rc<Self>,
        replier: Replier,
        f: impl FnOnce() -> Result<FireOutcome>,
    ) {
        let mut replier = Some(replier);
        let turn = self.alarm_turn(|| {
            let outcome = f()?;
            if let Some(replier) = replier.take() {
                // The output gate releases it when the attempt is durable.
                let begin = |event, replier| {
                    Departure::Call(Envelope {
                        from_outside: false,
                        binding: self.binding.index,
                        id: self.id,
                        name: None,
                        event,
                        replier,
                        chain: None,
                        creator: None,
                    })
                };
                self.push(match outcome {
                    FireOutcome::Begun(info) => begin(Event::Alarm(info), replier),
                    FireOutcome::Tell(timeline) => begin(Event::Timeline(timeline), replier),
                    FireOutcome::Done(result) => Departure::Reply(replier, result),
                });
            }
            Ok(())
        });
        if let (Err(error), Some(replier)) = (turn, replier) {
            self.answer_broken(replier, error);
        }
    }

    /// A turn with the database but without the object's code. If `f` fails, nothing is written, and the object
    /// continues to run.
    fn alarm_turn(self: &Rc<Self>, f: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut outcome = Ok(());
        self.act_for(None, true);
        let turn = self.turn(self.worker.next_token(), || {
            self.open_db()?;
            outcome = f();
            if let Err(error) = &outcome
                && let Some(db) = &*self.db.borrow()
                && db.in_transaction()
            {
                // What its constructor has created is in the same transaction.
                if self.instance.borrow().is_some() && !db.is_stored() {
                    return Err(error.clone());
                }
                db.rollback();
            }
            Ok(Poll::Ready(()))
        });
        match turn {
            Turn::Broken(error) => Err(error),
            Turn::Pending | Turn::Done => outcome,
        }
    }

    /// Counts an attempt, if the alarm is due.
    fn begin_attempt(&self, isolation: Isolation) -> Result<FireOutcome> {
        let now = self.worker.clock_time();
        let known = self.worker.store.alarms().get(self.key());
        let rows = self.read(ObjectDb::alarm_entry)?;
        if !AlarmEntry::agree(known, rows) {
            // Otherwise it would fire again and again.
            tracing::warn!(
                class = self.binding.class_name.as_str(), id = %self.id, ?known, ?rows,
                "the alarm index disagreed with the object's database; using the database"
            );
            self.write(Confirmation::Confirmed, ObjectDb::repeat_alarms)?;
            return Ok(FireOutcome::Done(Ok(Reply::Done)));
        }
        if let Some(outcome) = self.begin_telling(now)? {
            return Ok(outcome);
        }
        let is_due =
            |entry: AlarmEntry| !entry.failed && entry.due_at(now.set_back) <= now.unix_millis;
        let first = self.read(ObjectDb::first_alarm)?;
        let Some((name, row)) = first.filter(|(_, row)| is_due(row.entry())) else {
            if known.is_some_and(is_due) {
                // The index may be early if the clock was set back.
                self.write(Confirmation::Confirmed, ObjectDb::repeat_alarms)?;
            }
            return Ok(FireOutcome::Done(Ok(Reply::Done)));
        };
        let generation = self.generation()?;
        let mut row = self.to_attempt(&name, row, generation);
        if !is_due(row.entry()) {
            // An alarm for a time of the clock, set in an attempt that was cut off. The clock was set back since.
            self.write_alarm(&name, Some(&row))?;
            return Ok(FireOutcome::Done(Ok(Reply::Done)));
        }
        if self.is_over(&row) {
            let lost = "the object was reset before the last attempt ended";
            let why = row.error.clone().unwrap_or_else(|| lost.to_owned());
            self.give_up(&name, &mut row, &why);
            self.write_alarm(&name, Some(&row))?;
            return Ok(FireOutcome::Done(Ok(Reply::Done)));
        }
        row.attempts = row.attempts.saturating_add(1);
        row.begun = Some(BegunAttempt {
            epoch: generation,
            isolation,
        });
        // The retry time in case this process does not survive the attempt.
        let retry = &self.binding.options.alarm_retry;
        let crashes = row.broken.saturating_add(1);
        let wait = retry.crash_backoff_millis(crashes, &*self.worker.router.randomness);
        let wait = wait.max(self.backoff(&row));
        row.retry_at = Some(now.steady().saturating_add(wait));
        self.write_alarm(&name, Some(&row))?;
        Ok(FireOutcome::Begun(info(&name, &row)))
    }

    /// Counts a start for a timeline that the object's code has not been told of. Alarms wait for it.
    fn begin_telling(&self, now: ClockTime) -> Result<Option<FireOutcome>> {
        let Some(untold) = self.untold_timeline().and_then(|row| row.untold) else {
            return Ok(None);
        };
        if self.is_dormant() {
            return Ok(None);
        }
        if untold.due > now.steady() {
            return Ok(Some(FireOutcome::Done(Ok(Reply::Done))));
        }
        let retry = &self.binding.options.alarm_retry;
        let times = untold.attempts.saturating_add(1);
        let wait = retry.crash_backoff_millis(times, &*self.worker.router.randomness);
        let next = now.steady().saturating_add(wait);
        self.write(Confirmation::Confirmed, |db| db.timeline_attempt(next))?;
        self.timeline_changed.set(true);
        Ok(Some(FireOutcome::Tell(self.timeline())))
    }

    /// The alarm to attempt; logs the outcome of an attempt that was cut off.
    fn to_attempt(&self, name: &str, row: AlarmRow, generation: u32) -> AlarmRow {
        let was_cut_off = row.was_cut_off(generation);
        let before = row.crashes;
        let row = row.to_attempt(generation);
        let counters = &self.worker.mailbox.counters;
        if was_cut_off {
            counters.alarms_cut_off.add();
        }
        if row.crashes > before {
            counters.alarms_crashed.add();
            tracing::error!(
                class = self.binding.class_name.as_str(), id = %self.id, alarm = name, times = row.crashes,
                "the process ended while this object's alarm was running with no other suspect; \
                 the alarm is retried with increasing delays"
            );
        }
        row
    }

    /// Called when the attempt's event starts. Returns false if the alarm was moved or deleted since the attempt began.
    pub(super) fn enter_attempt(self: &Rc<Self>, attempt: &AlarmInfo) -> Result<bool> {
        self.open_db()?;
        let Some(row) = self.row_of(attempt)? else {
            return Ok(false);
        };
        // A constructor that closed the gate may have requeued it once.
        if self.attempt.replace(Some(attempt.clone())).is_none() {
            let counters = &self.worker.mailbox.counters;
            counters.alarms_fired.add();
            let now = self.worker.clock_time();
            let wanted = row.asked_at.unwrap_or(row.scheduled_at(now.set_back));
            let late = now.unix_millis.saturating_sub(wanted).max(0);
            if attempt.is_retry {
                counters.alarms_retried.add();
            } else {
                metrics::histogram!("abide_alarm_lateness_seconds").record(late as f64 / 1e3);
            }
        }
        Ok(true)
    }

    /// The handler of an attempt. The attempt's end is recorded in the turn in which the handler ends.
    pub(super) fn attempt(
        self: &Rc<Self>,
        handler: LocalFuture<Result<Reply>>,
    ) -> LocalFuture<Result<Reply>> {
        self.handling.set(true);
        let object = Rc::clone(self);
        Box::pin(async move {
            let outcome = handler.await;
            object.end_attempt(outcome.err())?;
            Ok(Reply::Done)
        })
    }

    fn end_attempt(&self, error: Option<Error>) -> Result<()> {
        let Some(attempt) = self.current_alarm() else {
            return Ok(());
        };
        let name = attempt.stored_name();
        let Some(row) = self.running_alarm(name)? else {
            return Ok(());
        };
        let row = match error {
            None => row.after(self.worker.clock_time()),
            Some(error) => {
                self.worker.mailbox.counters.errors.add();
                Some(self.failed(name, row, &error))
            }
        };
        self.write_alarm(name, row.as_ref())?;
        self.attempt_ended.set(true);
        Ok(())
    }

    /// Called after a turn has committed; an attempt that ended in it is over.
    pub(super) fn leave_attempt(&self) {
        if self.attempt_ended.take() {
            self.attempt.take();
            self.handling.set(false);
        }
    }

    /// Called when this incarnation ends. If it was running an attempt, the next one records how that ended.
    pub(super) fn break_attempt(&self, error: &Error) {
        self.attempt_ended.set(false);
        if let Some(attempt) = self.attempt.take() {
            self.worker.mailbox.send_alarm_request(AlarmRequest {
                binding: self.binding.index,
                id: self.id,
                cause: Cause::Broken {
                    attempt,
                    error: error.clone(),
                    _ticket: Ticket::new(&self.worker.mailbox, EVENT_BYTES),
                },
            });
        }
    }

    /// Called when the node stops while an attempt runs. The attempt does not count, and is repeated when the next
    /// process starts.
    pub(crate) fn interrupt_attempt(self: &Rc<Self>) {
        let Some(attempt) = self.current_alarm().filter(|_| !self.is_held()) else {
            return;
        };
        let noted = self.alarm_turn(|| {
            let now = self.worker.clock_time();
            match self.row_of(&attempt)? {
                Some(row) => self.write_alarm(attempt.stored_name(), Some(&row.interrupted(now))),
                None => Ok(()),
            }
        });
        match noted {
            Ok(()) => drop(self.attempt.take()),
            Err(error) => tracing::warn!(
                class = self.binding.class_name.as_str(), id = %self.id, %error,
                "cannot record that an alarm's attempt was interrupted by the shutdown; the alarm is retried later"
            ),
        }
    }

    fn settle(&self, attempt: &AlarmInfo, error: &Error) -> Result<()> {
        let name = attempt.stored_name();
        match self.row_of(attempt)? {
            Some(row) => self.write_alarm(name, Some(&self.failed(name, row, error))),
            None => Ok(()),
        }
    }

    fn rerun(&self, name: Option<&str>) -> Result<FireOutcome> {
        if self.is_dormant() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "the object {} is dormant, so its alarms do not go off: activate it first",
                    self.id
                ),
            ));
        }
        let (now, generation) = (self.worker.clock_time(), self.generation()?);
        let rows = self.read(ObjectDb::alarms)?.into_iter();
        let rerun: Vec<_> = rows
            .filter(|(of, _)| name.is_none_or(|name| name == &**of))
            .filter_map(|(of, row)| Some((of, row.rerun(now, generation)?)))
            .collect();
        for (of, row) in &rerun {
            self.write_alarm(of, Some(row))?;
        }
        let result = if rerun.is_empty() {
            let which = name.map_or_else(String::new, |name| format!(" `{name}`"));
            Err(Error::with_kind(
                ErrorKind::NotFound,
                format!(
                    "the object {} has no alarm{which} that was given up or waits for a retry",
                    self.id
                ),
            ))
        } else {
            Ok(Reply::Done)
        };
        Ok(FireOutcome::Done(result))
    }

    /// The row of this attempt, unless it already holds an alarm that was set since.
    fn row_of(&self, attempt: &AlarmInfo) -> Result<Option<AlarmRow>> {
        let name = attempt.stored_name();
        let row = self.read(|db| db.named_alarm(name))?;
        Ok(row.filter(|row| !row.failed && row.attempts > 0 && info(name, row) == *attempt))
    }

    /// The row after a failed attempt.
    fn failed(&self, name: &str, mut row: AlarmRow, error: &Error) -> AlarmRow {
        let why = error.for_operators();
        let why = short(&why);
        let failures = row.counted_attempts();
        // Logging every failure would drown the other messages if an alarm fails for days.
        if failures.is_power_of_two() {
            tracing::warn!(
                class = self.binding.class_name.as_str(), id = %self.id, alarm = name, failures, error = why,
                "an alarm's handler failed"
            );
        } else {
            tracing::debug!(
                class = self.binding.class_name.as_str(), id = %self.id, alarm = name, failures, error = why,
                "an alarm's handler failed again"
            );
        }
        if let Some(next) = row.after(self.worker.clock_time()) {
            return next;
        }
        row.begun = None;
        row.broken = 0;
        if self.is_over(&row) {
            self.give_up(name, &mut row, why);
        } else {
            let wait = self.backoff(&row);
            row.retry_at = Some(self.worker.clock_time().steady().saturating_add(wait));
            row.error = Some(why.to_owned());
        }
        row
    }

    fn give_up(&self, name: &str, row: &mut AlarmRow, why: &str) {
        self.worker.mailbox.counters.alarms_given_up.add();
        tracing::error!(
            class = self.binding.class_name.as_str(), id = %self.id, alarm = name, attempts = row.attempts,
            error = why,
            "gave up an alarm after its last retry; use `abide alarms rerun` to run it again"
        );
        row.failed = true;
        row.begun = None;
        row.retry_at = None;
        row.error = Some(why.to_owned());
    }

    /// Returns whether its failed attempts have used up all retries.
    fn is_over(&self, row: &AlarmRow) -> bool {
        self.retry_of(row).is_over(row.counted_attempts())
    }

    /// The wait for the next attempt if the newest fails, in milliseconds.
    fn backoff(&self, row: &AlarmRow) -> i64 {
        self.retry_of(row)
            .backoff_millis(row.counted_attempts(), &*self.worker.router.randomness)
    }

    /// How the alarm is retried: according to its class, unless it is a component's.
    fn retry_of(&self, row: &AlarmRow) -> Cow<'_, AlarmRetry> {
        match row.max_backoff {
            Some(millis) => {
                let max_backoff = Duration::from_millis(u64::from(millis));
                Cow::Owned(AlarmRetry::for_ever(max_backoff))
            }
            None => Cow::Borrowed(&self.binding.options.alarm_retry),
        }
    }
}

fn info(name: &str, row: &AlarmRow) -> AlarmInfo {
    let scheduled = Timestamp::from_unix_millis(row.scheduled);
    AlarmInfo::new(name, scheduled, row.attempts)
}

/// The beginning of a message, cut to the maximum length in a row.
fn short(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_ALARM_ERROR_BYTES)]
}
