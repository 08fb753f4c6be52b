//! What comes of an attempt or a poll.
//!
//! Contract: every outcome has a clear result in the message's row: it is delivered, to be asked about, to be tried again
//! at a time, or a dead letter with a reason. None is dropped.

use std::{collections::BTreeSet, slice::from_ref, time::Duration};

use crate::broken::{Variant, broken};
use abide::Result;

use super::{
    Failure, GiveUp, Pace, Polled, Polling, RetryPolicy, Status, Submitted,
    claims::Claim,
    deliver::Fate,
    destination,
    inner::Inner,
    limits,
    metrics::Event,
    notes::Note,
    registry::Handler,
    rows::{Ask, Burial, Retry},
};
use crate::numbers::{micros, millis};
use crate::retry::jittered;

/// How an attempt or a poll ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Submitted(Result<Submitted, Failure>),
    Polled(Result<Polled, Failure>),
}

impl Outcome {
    /// An attempt, or a poll if the claim's operation runs, that has failed.
    pub(super) fn failed(claim: &Claim, failure: Failure) -> Self {
        match claim.operation {
            Some(_) => Self::Polled(Err(failure)),
            None => Self::Submitted(Err(failure)),
        }
    }

    /// A claim whose message has arrived.
    pub(super) fn delivered(claim: Claim) -> (Claim, Self) {
        let outcome = match claim.operation {
            Some(_) => Self::Polled(Ok(Polled::Done)),
            None => Self::Submitted(Ok(Submitted::Done)),
        };
        (claim, outcome)
    }

    fn fate(&self) -> Option<Fate> {
        match self {
            Self::Submitted(Err(failure)) | Self::Polled(Err(failure)) => Some(failure.fate),
            _ => None,
        }
    }

    /// True if this node had too much to do.
    pub(super) fn could_not_leave(&self) -> bool {
        self.fate() == Some(Fate::NotSent)
    }

    /// True if this end was cut off.
    pub(super) fn was_cut_off(&self) -> bool {
        self.fate() == Some(Fate::CutOff)
    }

    /// Whether the destination has answered; none if nothing was asked of it.
    pub(super) fn is_answer(&self) -> Option<bool> {
        match self {
            Self::Submitted(Err(failure)) => match failure.fate {
                Fate::NotSent | Fate::CutOff => None,
                Fate::Unknown => Some(false),
                Fate::Refused | Fate::Throttled | Fate::Permanent => Some(true),
            },
            Self::Submitted(Ok(_)) => Some(true),
            Self::Polled(_) => None,
        }
    }

    /// True if the message has arrived.
    pub(super) fn is_delivery(&self) -> bool {
        matches!(
            self,
            Self::Submitted(Ok(Submitted::Done)) | Self::Polled(Ok(Polled::Done))
        )
    }
}

impl Inner {
    /// Writes what came of a claim, to its row and to its destination's, which the caller saves.
    pub(super) fn settle(
        &self,
        claim: &Claim,
        outcome: Outcome,
        to: &mut destination::Row,
        now: i64,
    ) -> Result<()> {
        let handler = self.registry.handler(&claim.kind).ok();
        let handler = handler.map(AsRef::as_ref);
        match outcome {
            Outcome::Submitted(Ok(submitted)) => {
                to.answered(now);
                match submitted {
                    Submitted::Done if broken(Variant::SentTwice) && claim.attempts == 1 => {
                        let retry = Retry {
                            unknown: true,
                            attempts: 1,
                            ..retry(claim, now, "sent")
                        };
                        self.rows.requeue(claim, &retry, now)
                    }
                    Submitted::Done => self.rows.sent(from_ref(claim), now),
                    Submitted::Accepted { operation, after } => {
                        self.accept(claim, &operation, after, handler, now)
                    }
                }
            }
            Outcome::Submitted(Err(failure)) => {
                if failure.fate == Fate::NotSent {
                    self.refund(to)?;
                }
                self.destination_failed(to, &failure, now);
                self.submit_failed(claim, &failure, handler, now)
            }
            Outcome::Polled(Ok(Polled::Done)) => self.rows.sent(from_ref(claim), now),
            Outcome::Polled(Ok(Polled::Running { after })) => {
                self.ask_again(claim, after, None, handler, now)
            }
            Outcome::Polled(Ok(Polled::Failed { error, retry })) => {
                self.operation_failed(claim, &error, retry, handler, now)
            }
            Outcome::Polled(Err(failure)) if failure.fate == Fate::NotSent => {
                // Nobody was asked: it says nothing of the operation.
                let wait = failure.after.unwrap_or(limits::NOT_SENT_PAUSE);
                let at = now.saturating_add(self.jittered(millis(wait), limits::JITTER, claim));
                self.rows.put_off(claim.id, at)
            }
            Outcome::Polled(Err(failure)) => {
                if failure.fate == Fate::Throttled {
                    self.destination_failed(to, &failure, now);
                }
                self.ask_again(claim, failure.after, Some(&failure), handler, now)
            }
        }
    }

    /// The destination of something that could not leave has its token back, and so has the outbox.
    fn refund(&self, to: &mut destination::Row) -> Result<()> {
        let Pace::AtOnce {
            outbox,
            destination,
        } = self.rows.options.pace
        else {
            return Ok(());
        };
        to.refund(destination.rate);
        outbox
            .rate
            .map_or(Ok(()), |rate| self.rows.refund(micros(rate.interval)))
    }

    fn destination_failed(&self, to: &mut destination::Row, failure: &Failure, now: i64) {
        let configured = self.destination_limit().rate;
        if to.failed(failure, &self.rows.options.breaker, configured, now) {
            let (event, to) = (Event::CircuitOpened, &to.destination);
            let note = Note::warning(event, to, None, &failure.error);
            self.rows.notes.add(note);
        }
    }

    /// Writes that messages have arrived.
    pub(super) fn delivered(&self, claims: &[Claim], now: i64) -> Result<()> {
        let answered: BTreeSet<&str> = claims
            .iter()
            .filter(|claim| claim.operation.is_none())
            .map(|claim| claim.destination.as_str())
            .collect();
        for destination in answered {
            destination::answered(&self.rows.sql, destination, now)?;
        }
        self.rows.sent(claims, now)
    }

    fn accept(
        &self,
        claim: &Claim,
        operation: &str,
        after: Option<Duration>,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        if !(1..=limits::MAX_OPERATION_BYTES).contains(&operation.len()) {
            let error = format!(
                "the receiver accepted it and names its operation with {} bytes; 1 to {} can be kept",
                operation.len(),
                limits::MAX_OPERATION_BYTES
            );
            return self.give_up(claim, &error, true, handler, now);
        }
        let at = now.saturating_add(pause(after, self.polling(handler)));
        self.rows.accepted(claim, operation, at, now)
    }

    fn submit_failed(
        &self,
        claim: &Claim,
        failure: &Failure,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        let error = failure.error.as_str();
        let asked = failure
            .after
            .map_or(0, |after| millis(after.min(limits::MAX_RETRY_AFTER)));
        let unknown = (claim.unknown || failure.after_effect) && !failure.remembered;
        if broken(Variant::RefusedMeansSent) {
            return self.rows.sent(from_ref(claim), now);
        }
        if failure.remembered || broken(Variant::NewKeyOnRetry) {
            self.renew_key(claim.id, now)?;
        }
        let wait = self.wait(claim, claim.attempts, handler).map(|wait| {
            if broken(Variant::RetryAtOnce) {
                0
            } else {
                wait
            }
        });
        let again = Retry {
            unknown,
            ..retry(claim, now, error)
        };
        match (failure.fate, wait) {
            (Fate::Permanent, _) => self.give_up(claim, error, unknown, handler, now),
            (Fate::CutOff, _) => self.cut_off(claim, &again, wait, handler, now),
            (Fate::Throttled, _) if !broken(Variant::ThrottledCounts) => {
                let patience = millis(self.rows.options.patience);
                if now.saturating_sub(claim.since) >= patience {
                    let days = self.rows.options.patience.as_secs_f64() / 86_400.0;
                    let error =
                        format!("it was throttled for {days:.1} days; the last answer: {error}");
                    return self.give_up(claim, &error, unknown, handler, now);
                }
                self.count(Event::Throttled, claim);
                // Its destination pauses, and it keeps its place there.
                let (at, attempts) = in_its_place(claim, now);
                let again = Retry {
                    at,
                    attempts,
                    ..again
                };
                self.rows.requeue(claim, &again, now)
            }
            (Fate::NotSent, _) => {
                self.count(Event::NotSent, claim);
                let (at, attempts) = in_its_place(claim, now);
                let again = Retry {
                    at,
                    attempts,
                    alone: claim.alone,
                    ..again
                };
                self.rows.requeue(claim, &again, now)
            }
            (_, Some(wait)) => {
                self.count(Event::Retried, claim);
                let at = now.saturating_add(wait.max(asked));
                self.rows.requeue(claim, &Retry { at, ..again }, now)
            }
            (_, None) => self.exhausted(claim, error, unknown, handler, now),
        }
    }

    /// An attempt may be what ended the process, and counts. The last is made alone, and only one that was alone is given up for it.
    fn cut_off(
        &self,
        claim: &Claim,
        again: &Retry<'_>,
        wait: Option<i64>,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        let failing = wait.is_none() && claim.alone;
        let never = self.rows.options.give_up == GiveUp::Never;
        if (failing && !never) || (wait.is_none() && broken(Variant::SuspectsBuried)) {
            return self.exhausted(claim, again.error, again.unknown, handler, now);
        }
        self.count(Event::Retried, claim);
        let next = claim.attempts.saturating_add(1);
        let again = Retry {
            at: now.saturating_add(wait.unwrap_or_else(|| self.last_wait(claim, handler))),
            alone: self.wait(claim, next, handler).is_none() && !broken(Variant::SuspectsTogether),
            failing,
            ..*again
        };
        self.rows.requeue(claim, &again, now)
    }

    /// The attempts of a message have run out.
    fn exhausted(
        &self,
        claim: &Claim,
        error: &str,
        unknown: bool,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        let error = match self.rows.options.give_up {
            GiveUp::DeadLetter => format!("{error}; attempt {} was the last", claim.attempts),
            GiveUp::Never => error.to_owned(),
        };
        self.give_up(claim, &error, unknown, handler, now)
    }

    /// A message will not be delivered as it is: it becomes a dead letter, or is failing.
    fn give_up(
        &self,
        claim: &Claim,
        error: &str,
        unknown: bool,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        if self.rows.options.give_up == GiveUp::DeadLetter {
            return self.bury(claim, error, unknown, now);
        }
        self.count(Event::Retried, claim);
        let again = Retry {
            unknown,
            failing: true,
            ..retry(
                claim,
                now.saturating_add(self.last_wait(claim, handler)),
                error,
            )
        };
        self.rows.requeue(claim, &again, now)
    }

    /// An operation has had no effect. Another may be begun, if the receiver says so.
    fn operation_failed(
        &self,
        claim: &Claim,
        error: &str,
        another: bool,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        let wait = self.wait(claim, claim.attempts, handler);
        let wait = wait.filter(|_| another);
        if wait.is_none() && self.rows.options.give_up == GiveUp::DeadLetter {
            return self.bury(claim, error, false, now);
        }
        // The receiver remembers the old key as one that has failed.
        self.renew_key(claim.id, now)?;
        let at = now.saturating_add(wait.unwrap_or_else(|| self.last_wait(claim, handler)));
        let again = Retry {
            failing: wait.is_none(),
            ..retry(claim, at, error)
        };
        self.rows.requeue(claim, &again, now)
    }

    fn ask_again(
        &self,
        claim: &Claim,
        after: Option<Duration>,
        failure: Option<&Failure>,
        handler: Option<&dyn Handler>,
        now: i64,
    ) -> Result<()> {
        let polling = self.polling(handler);
        let error = failure.map(|failure| failure.error.as_str());
        let mut wait = pause(after, polling);
        if error.is_some() {
            wait = wait.max(millis(polling.interval));
        }
        let at = now.saturating_add(wait);
        // A receiver that asks for patience is there.
        let counts = failure.is_some_and(|failure| failure.fate != Fate::Throttled);
        let mut ask = Ask {
            at,
            error,
            counts,
            alone: false,
            failing: false,
        };
        let was_cut_off = failure.is_some_and(|failure| failure.fate == Fate::CutOff);
        let over = why_over(claim, failure, polling, now);
        if was_cut_off {
            // It may be what ended the process: as of attempts.
            let errors = claim.poll_errors.saturating_add(1);
            let since = claim.operation_since.unwrap_or(now);
            ask.alone = errors >= polling.max_errors || at - since >= millis(polling.deadline);
        }
        match over {
            Some(_) if was_cut_off && !claim.alone => {}
            Some(why) if self.rows.options.give_up == GiveUp::DeadLetter => {
                return self.bury(claim, &why, true, now);
            }
            Some(_) => ask.failing = true,
            None => {}
        }
        self.rows.ask_again(claim, &ask, now)
    }

    fn bury(&self, claim: &Claim, error: &str, unknown: bool, now: i64) -> Result<()> {
        let letter = Burial {
            id: claim.id,
            from: Status::Sending,
            ordering_key: claim.ordering_key.as_deref(),
            error,
            unknown,
            failing_since: claim.failing_since,
        };
        self.rows.bury(&letter, now)
    }

    fn count(&self, event: Event, claim: &Claim) {
        self.rows.notes.add(Note::new(event, &claim.destination));
    }

    fn polling(&self, handler: Option<&dyn Handler>) -> Polling {
        handler
            .and_then(Handler::polling)
            .unwrap_or(self.rows.options.polling)
    }

    /// The time until a claim's next attempt after so many, in milliseconds, if there is to be one.
    fn wait(&self, claim: &Claim, attempts: u32, handler: Option<&dyn Handler>) -> Option<i64> {
        let done = attempts.max(1);
        if let Some(waits) = own_schedule(claim) {
            return waits.get(done as usize - 1).copied();
        }
        let (wait, most) = self.retry_policy(handler).wait(done)?;
        Some(self.jittered(millis(wait), most, claim))
    }

    /// The longest time until an attempt, for one beyond the last.
    fn last_wait(&self, claim: &Claim, handler: Option<&dyn Handler>) -> i64 {
        let least = millis(limits::NO_SCHEDULE_WAIT);
        if let Some(waits) = own_schedule(claim) {
            return waits.last().copied().unwrap_or_default().max(least);
        }
        match self.retry_policy(handler).last_wait() {
            Some((wait, most)) => self.jittered(millis(wait).max(least), most, claim),
            None => least,
        }
    }

    fn retry_policy(&self, handler: Option<&dyn Handler>) -> RetryPolicy {
        let own = handler.and_then(Handler::retry);
        own.unwrap_or_else(|| self.rows.options.retry.clone())
    }

    fn jittered(&self, wait: i64, most: f64, claim: &Claim) -> i64 {
        if !self.rows.options.jitter {
            return wait;
        }
        let parts = [
            claim.idempotency_key.as_bytes(),
            &claim.attempts.to_le_bytes(),
        ];
        jittered(wait, most, &parts)
    }
}

/// Why an operation is to be given up, if it is.
fn why_over(
    claim: &Claim,
    failure: Option<&Failure>,
    polling: Polling,
    now: i64,
) -> Option<String> {
    let error = failure.map(|failure| failure.error.as_str());
    if let Some(failure) = failure
        && failure.fate == Fate::Permanent
    {
        let error = &failure.error;
        return Some(format!("how the operation ended cannot be told: {error}"));
    }
    let since = claim.operation_since.unwrap_or(now);
    if now.saturating_sub(since) >= millis(polling.deadline) {
        return Some(format!(
            "the operation did not end within {} s{}",
            polling.deadline.as_secs(),
            error
                .map(|error| format!("; the last answer: {error}"))
                .unwrap_or_default()
        ));
    }
    let failure = failure.filter(|failure| failure.fate != Fate::Throttled)?;
    (claim.poll_errors >= polling.max_errors).then(|| {
        let asked = u64::from(claim.poll_errors) + 1;
        let error = &failure.error;
        format!("asked {asked} times in a row how the operation goes: {error}")
    })
}

/// A message's own waits, in milliseconds.
fn own_schedule(claim: &Claim) -> Option<Vec<i64>> {
    serde_json::from_str(claim.schedule.as_deref()?).ok()
}

/// A message that is tried again at a time, after an attempt that counts and had no effect.
fn retry<'a>(claim: &Claim, at: i64, error: &'a str) -> Retry<'a> {
    Retry {
        at,
        error,
        unknown: false,
        attempts: claim.attempts,
        alone: false,
        failing: false,
    }
}

/// When a message is due again whose attempt does not count, and how many attempts it has had.
fn in_its_place(claim: &Claim, now: i64) -> (i64, u32) {
    match claim.attempts.saturating_sub(1) {
        0 => (claim.since.min(now), 0),
        attempts => (now, attempts),
    }
}

fn pause(asked: Option<Duration>, polling: Polling) -> i64 {
    let asked = asked.map(|asked| asked.min(limits::MAX_RETRY_AFTER));
    // A receiver that says "at once" is not asked without a pause.
    millis(asked.unwrap_or(polling.interval)).max(millis(limits::MIN_POLL_PAUSE))
}
