//! Applies the result of an attempt or a poll.
//!
//! Contract: every result leads to a definite state in the message's row: it is delivered, to be polled, to be retried
//! at a time, or a dead letter with a reason. None is dropped.

use std::{collections::BTreeSet, time::Duration};

use abide::Result;

use super::{
    Failure, FailureKind, GiveUp, Pace, Polled, Polling, RetryPolicy, Status, Submitted,
    claim::Claim,
    destination,
    inner::Inner,
    limits,
    metrics::Event,
    notes::Note,
    outcome::Outcome,
    registry::Handler,
    rows::{FailedMessage, NextPoll, Retry, Rows},
};
use abide_component::jittered;
use abide_component::numbers::{micros, millis};
use abide_component::throttle;

impl Inner {
    /// Writes the result of a claim, to its row and to its destination's.
    pub(super) fn settle(&self, claim: &Claim, outcome: Outcome, now: i64) -> Result<()> {
        let outcome = self.unless_ended(claim, outcome)?;
        let mut to = self.rows.destination(&claim.destination)?;
        let handler = self.registry.handler(&claim.kind).ok();
        let settlement = Settlement {
            inner: self,
            rows: &self.rows,
            claim,
            handler: handler.map(AsRef::as_ref),
            now,
        };
        settlement.settle(outcome, &mut to)?;
        if !self.rows.sql.has_tables()? {
            // A callback has deleted everything.
            return Ok(());
        }
        // It may be sent to again, after those that already wait.
        to.due_at = Some(now);
        self.rows.save_destination(to)
    }

    /// An attempt's result, unless its message was ended in this turn, by a callback.
    fn unless_ended(&self, claim: &Claim, outcome: Outcome) -> Result<Outcome> {
        let is_ended = self.ended.borrow().contains(&claim.id);
        if is_ended && !self.rows.is_in_flight(claim.id)? {
            return Ok(Outcome::Interrupted);
        }
        Ok(outcome)
    }

    /// Marks messages as delivered.
    pub(super) fn delivered(&self, claims: &[&Claim], now: i64) -> Result<()> {
        let answered: BTreeSet<&str> = claims
            .iter()
            .filter(|claim| claim.operation.is_none())
            .map(|claim| claim.destination.as_str())
            .collect();
        for destination in answered {
            self.rows.destination_answered(destination, now)?;
        }
        self.rows.sent(claims, now)
    }
}

/// A claim with its result.
struct Settlement<'a> {
    inner: &'a Inner,
    rows: &'a Rows,
    claim: &'a Claim,
    /// `None` if there is no longer a handler for its kind.
    handler: Option<&'a dyn Handler>,
    now: i64,
}

impl Settlement<'_> {
    fn settle(&self, outcome: Outcome, to: &mut destination::Row) -> Result<()> {
        let &Self {
            rows, claim, now, ..
        } = self;
        match outcome {
            Outcome::Interrupted => Ok(()),
            Outcome::Submitted(Ok(submitted)) => {
                to.answered(now);
                match submitted {
                    Submitted::Done => rows.sent(&[claim], now),
                    Submitted::Accepted { operation, after } => self.accept(&operation, after),
                }
            }
            Outcome::Submitted(Err(failure)) => {
                if failure.kind() == FailureKind::NotSent {
                    self.refund(to)?;
                }
                self.destination_failed(to, &failure);
                self.submit_failed(&failure)
            }
            Outcome::Polled(Ok(Polled::Done)) => rows.sent(&[claim], now),
            Outcome::Polled(Ok(Polled::Running { after })) => self.ask_again(after, None),
            Outcome::Polled(Ok(Polled::Failed { error, retry })) => {
                self.operation_failed(&error, retry)
            }
            Outcome::Polled(Err(failure)) if failure.kind() == FailureKind::NotSent => {
                // Nothing was sent, so this says nothing about the operation.
                let wait = failure.after().unwrap_or(limits::NOT_SENT_PAUSE);
                let at = now.saturating_add(self.jittered(millis(wait), limits::JITTER));
                rows.put_off(claim.id, at)
            }
            Outcome::Polled(Err(failure)) => {
                if failure.kind() == FailureKind::Throttled {
                    self.destination_failed(to, &failure);
                }
                self.ask_again(failure.after(), Some(&failure))
            }
        }
    }

    /// Returns the tokens of a message that could not be sent, to its destination's bucket and to the outbox's. If a bucket
    /// was full meanwhile, the token is there already.
    fn refund(&self, to: &mut destination::Row) -> Result<()> {
        let Pace::AtOnce {
            outbox,
            destination,
        } = self.rows.options.pace
        else {
            return Ok(());
        };
        let taken_at = self.claim.taken_at;
        to.refund(destination.rate, taken_at);
        match outbox.rate {
            Some(rate) if self.inner.was_full_at.get() <= taken_at => {
                self.rows.refund(micros(rate.interval))
            }
            _ => Ok(()),
        }
    }

    fn destination_failed(&self, to: &mut destination::Row, failure: &Failure) {
        let configured = self.inner.destination_limit().rate;
        if to.failed(failure, &self.rows.options.breaker, configured, self.now) {
            let (event, to) = (Event::CircuitOpened, &to.destination);
            let note = Note::warning(event, to, None, failure.message());
            self.rows.notes.add(note);
        }
    }

    fn accept(&self, operation: &str, after: Option<Duration>) -> Result<()> {
        if !(1..=limits::MAX_OPERATION_BYTES).contains(&operation.len()) {
            let error = format!(
                "the receiver accepted it with an operation address of {} bytes; 1 to {} are allowed",
                operation.len(),
                limits::MAX_OPERATION_BYTES
            );
            return self.give_up(&error, true);
        }
        let wait = match (after, &self.rows.options.pace) {
            // The tick polls what it has sent.
            (None, Pace::Ticks { .. }) => 0,
            _ => pause(after, self.polling()),
        };
        let at = self.now.saturating_add(wait);
        self.rows.accepted(self.claim, operation, at, self.now)
    }

    fn submit_failed(&self, failure: &Failure) -> Result<()> {
        let &Self { claim, now, .. } = self;
        if failure.is_remembered() {
            // Under this key the receiver would only say so again.
            self.inner.renew_key(claim.id, now)?;
        }
        let error = failure.message();
        let unknown = (claim.unknown || failure.is_after_effect()) && !failure.is_remembered();
        let again = Retry {
            unknown,
            ..self.retry(now, error)
        };
        match (failure.kind(), self.wait(claim.attempts)) {
            (FailureKind::Permanent, _) => self.give_up(error, unknown),
            (FailureKind::CutOff, wait) => self.cut_off(&again, wait),
            (FailureKind::Throttled, _) => self.throttled(&again),
            (FailureKind::NotSent, _) => {
                self.count(Event::NotSent);
                let (at, attempts) = self.in_its_place();
                let again = Retry {
                    at,
                    attempts,
                    alone: claim.alone,
                    ..again
                };
                self.rows.requeue(claim, &again, now)
            }
            (_, Some(wait)) => self.try_again(&again, wait, failure.after()),
            (_, None) => self.exhausted(error, unknown),
        }
    }

    /// It is tried again after its wait, and not before its receiver wants it.
    fn try_again(&self, again: &Retry<'_>, wait: i64, asked: Option<Duration>) -> Result<()> {
        self.count(Event::Retried);
        let asked = asked.map_or(0, |after| millis(after.min(limits::MAX_RETRY_AFTER)));
        let at = self.now.saturating_add(wait.max(asked));
        self.rows
            .requeue(self.claim, &Retry { at, ..*again }, self.now)
    }

    /// Its destination pauses, and it keeps its place there for as long as it has patience. This is no attempt.
    fn throttled(&self, again: &Retry<'_>) -> Result<()> {
        let &Self {
            rows, claim, now, ..
        } = self;
        let patience = rows.options.patience;
        if let Some(over) = throttle::why_over(patience, claim.since, now, again.error) {
            return self.give_up(&over, again.unknown);
        }
        self.count(Event::Throttled);
        let (at, attempts) = self.in_its_place();
        let again = Retry {
            at,
            attempts,
            ..*again
        };
        rows.requeue(claim, &again, now)
    }

    /// The attempt may have crashed the process, and counts. The last attempt is made alone, and only a message that
    /// was alone is given up because of a crash.
    fn cut_off(&self, again: &Retry<'_>, wait: Option<i64>) -> Result<()> {
        let failing = wait.is_none() && self.claim.alone;
        let never = self.rows.options.give_up == GiveUp::Never;
        if failing && !never {
            return self.exhausted(again.error, again.unknown);
        }
        self.count(Event::Retried);
        let wait = wait.unwrap_or_else(|| self.last_wait());
        let again = Retry {
            at: self.now.saturating_add(wait),
            alone: self.next_is_alone(),
            failing,
            ..*again
        };
        self.rows.requeue(self.claim, &again, self.now)
    }

    /// True if the attempt after this one, which was cut off, is the last.
    fn next_is_alone(&self) -> bool {
        let next = self.claim.attempts.saturating_add(1);
        self.wait(next).is_none()
    }

    /// The attempts of a message have run out.
    fn exhausted(&self, error: &str, unknown: bool) -> Result<()> {
        let error = match self.rows.options.give_up {
            GiveUp::DeadLetter => {
                format!("{error}; attempt {} was the last", self.claim.attempts)
            }
            GiveUp::Never => error.to_owned(),
        };
        self.give_up(&error, unknown)
    }

    /// A message will not be delivered unchanged: it becomes a dead letter, or is failing.
    fn give_up(&self, error: &str, unknown: bool) -> Result<()> {
        if self.rows.options.give_up == GiveUp::DeadLetter {
            return self.bury(error, unknown);
        }
        self.count(Event::Retried);
        let at = self.now.saturating_add(self.last_wait());
        let again = Retry {
            unknown,
            failing: true,
            ..self.retry(at, error)
        };
        self.rows.requeue(self.claim, &again, self.now)
    }

    /// An operation has had no effect. A new one may be started, if the receiver says so.
    fn operation_failed(&self, error: &str, another: bool) -> Result<()> {
        let wait = self.wait(self.claim.attempts).filter(|_| another);
        if wait.is_none() && self.rows.options.give_up == GiveUp::DeadLetter {
            return self.bury(error, false);
        }
        // The receiver remembers the old key as failed.
        self.inner.renew_key(self.claim.id, self.now)?;
        let after = wait.unwrap_or_else(|| self.last_wait());
        let again = Retry {
            failing: wait.is_none(),
            ..self.retry(self.now.saturating_add(after), error)
        };
        self.rows.requeue(self.claim, &again, self.now)
    }

    fn ask_again(&self, after: Option<Duration>, failure: Option<&Failure>) -> Result<()> {
        let &Self { claim, now, .. } = self;
        let polling = self.polling();
        let error = failure.map(Failure::message);
        let mut wait = pause(after, polling);
        if error.is_some() {
            wait = wait.max(millis(polling.interval));
        }
        let was_cut_off = failure.is_some_and(|failure| failure.kind() == FailureKind::CutOff);
        let errors = claim.poll_errors.saturating_add(1);
        if was_cut_off {
            // It may have crashed the process: it waits, and runs out of polls, as an attempt would.
            let retry = self.wait(errors).unwrap_or_else(|| self.last_wait());
            wait = wait.max(retry);
        }
        let at = now.saturating_add(wait);
        // A receiver that asks for patience is up.
        let counts = failure.is_some_and(|failure| failure.kind() != FailureKind::Throttled);
        let mut ask = NextPoll {
            at,
            error,
            counts,
            alone: false,
            failing: false,
        };
        let mut over = why_over(claim, failure, polling, now);
        if let Some(failure) = failure.filter(|_| was_cut_off) {
            let since = claim.operation_since.unwrap_or(now);
            ask.alone = errors >= polling.max_errors
                || self.wait(errors.saturating_add(1)).is_none()
                || at.saturating_sub(since) >= millis(polling.deadline);
            if self.wait(errors).is_none() {
                over = over.or_else(|| Some(polls_failed(errors, failure)));
            }
        }
        match over {
            Some(_) if was_cut_off && !claim.alone => {}
            Some(why) if self.rows.options.give_up == GiveUp::DeadLetter => {
                return self.bury(&why, true);
            }
            Some(_) => ask.failing = true,
            None => {}
        }
        self.rows.ask_again(claim, &ask, now)
    }

    fn bury(&self, error: &str, unknown: bool) -> Result<()> {
        let letter = FailedMessage {
            id: self.claim.id,
            from: Status::Sending,
            ordering_key: self.claim.ordering_key.as_deref(),
            error,
            unknown,
            failing_since: self.claim.failing_since,
        };
        self.rows.bury(&letter, self.now)
    }

    fn count(&self, event: Event) {
        let note = Note::new(event, &self.claim.destination);
        self.rows.notes.add(note);
    }

    fn polling(&self) -> Polling {
        self.handler
            .and_then(Handler::polling)
            .unwrap_or(self.rows.options.polling)
    }

    /// The time until the next attempt after this many, in milliseconds, if there is one.
    fn wait(&self, attempts: u32) -> Option<i64> {
        let done = attempts.max(1);
        if let Some(waits) = own_schedule(self.claim) {
            return waits.get(done as usize - 1).copied();
        }
        let (wait, most) = self.retry_policy().wait(done)?;
        Some(self.jittered(millis(wait), most))
    }

    /// The longest time until an attempt, for one beyond the last.
    fn last_wait(&self) -> i64 {
        let least = millis(limits::NO_SCHEDULE_WAIT);
        if let Some(waits) = own_schedule(self.claim) {
            return waits.last().copied().unwrap_or_default().max(least);
        }
        match self.retry_policy().last_wait() {
            Some((wait, most)) => self.jittered(millis(wait).max(least), most),
            None => least,
        }
    }

    fn retry_policy(&self) -> RetryPolicy {
        let own = self.handler.and_then(Handler::retry);
        own.unwrap_or_else(|| self.rows.options.retry.clone())
    }

    fn jittered(&self, wait: i64, most: f64) -> i64 {
        if !self.rows.options.jitter {
            return wait;
        }
        let parts = [
            self.claim.idempotency_key.as_bytes(),
            &self.claim.attempts.to_le_bytes(),
        ];
        jittered(wait, most, &parts)
    }

    /// Retries it after an attempt that counts and had no effect.
    fn retry<'a>(&self, at: i64, error: &'a str) -> Retry<'a> {
        Retry {
            at,
            error,
            unknown: false,
            attempts: self.claim.attempts,
            alone: false,
            failing: false,
        }
    }

    /// When it is due again after an attempt that does not count, and its number of attempts.
    fn in_its_place(&self) -> (i64, u32) {
        match self.claim.attempts.saturating_sub(1) {
            0 => (self.claim.since.min(self.now), 0),
            attempts => (self.now, attempts),
        }
    }
}

/// Why an operation is to be given up, if it is.
fn why_over(
    claim: &Claim,
    failure: Option<&Failure>,
    polling: Polling,
    now: i64,
) -> Option<String> {
    let error = failure.map(Failure::message);
    if let Some(failure) = failure
        && failure.kind() == FailureKind::Permanent
    {
        let error = failure.message();
        return Some(format!("the operation's result is not available: {error}"));
    }
    let since = claim.operation_since.unwrap_or(now);
    if now.saturating_sub(since) >= millis(polling.deadline) {
        return Some(format!(
            "the operation did not finish within {} s{}",
            polling.deadline.as_secs(),
            error
                .map(|error| format!("; the last response: {error}"))
                .unwrap_or_default()
        ));
    }
    let failure = failure.filter(|failure| failure.kind() != FailureKind::Throttled)?;
    (claim.poll_errors >= polling.max_errors)
        .then(|| polls_failed(claim.poll_errors.saturating_add(1), failure))
}

fn polls_failed(count: u32, failure: &Failure) -> String {
    let error = failure.message();
    format!("{count} consecutive polls of the operation failed: {error}")
}

/// A message's own waits, in milliseconds.
fn own_schedule(claim: &Claim) -> Option<Vec<i64>> {
    serde_json::from_str(claim.schedule.as_deref()?).ok()
}

fn pause(asked: Option<Duration>, polling: Polling) -> i64 {
    let asked = asked.map(|asked| asked.min(limits::MAX_RETRY_AFTER));
    // A receiver that says "at once" is not polled without a pause.
    millis(asked.unwrap_or(polling.interval)).max(millis(limits::MIN_POLL_PAUSE))
}
