//! Passes: they claim due messages, batch by batch.

use abide::Result;

use super::{
    DeadLetters, QueueOptions,
    inner::{Inner, NAME},
    limits,
    meta::Meta,
    pump::{InFlight, Taken},
    queues::Declared,
    rows::Due,
};
use abide_component::{
    numbers::{millis, rows},
    steps_back::{self, StepBack},
    suspects::MayBegin,
};

/// The next batch.
enum Next {
    Batch(Vec<Due>),
    /// A message that is to be attempted with nothing else in flight.
    Alone(Due),
    /// None before this time.
    Not(Option<i64>),
}

impl Declared {
    /// The queue to which dead letters go.
    pub(super) fn forwards_to(&self) -> Option<&str> {
        match &self.options.dead_letters {
            DeadLetters::Keep => None,
            DeadLetters::Queue(to) => Some(to),
        }
    }
}

impl Inner {
    /// Claims due messages, as far as the limits allow.
    pub(super) fn pass(&self, declared: &Declared, flying: InFlight, now: i64) -> Result<Taken> {
        let storage = &self.rows.storage;
        let taken = storage.transaction(|| self.take(declared, flying, now))?;
        self.metrics.show(&self.counts()?, now);
        Ok(taken)
    }

    fn take(&self, declared: &Declared, flying: InFlight, now: i64) -> Result<Taken> {
        let options = &declared.options;
        let forwards = declared.forwards_to().is_some();
        let mut meta = self.rows.meta()?;
        let before = meta;
        self.mind_clock(&mut meta, now)?;
        let mut taken = Taken {
            batches: Vec::new(),
            dead: Vec::new(),
            wake: None,
        };
        let at = self.forward_after.get();
        if forwards && meta.dead > 0 && flying.forwards == 0 {
            if at <= now {
                taken.dead = self.rows.dead_letters(limits::MAX_FORWARDED)?;
            } else {
                taken.wake = Some(at);
            }
        }
        if declared.consumer.is_some() && !meta.paused {
            self.take_batches(options, &mut meta, flying.batches, &mut taken, now)?;
        }
        if forwards && meta.dead > before.dead {
            // The next pass sends them on.
            wake(&mut taken.wake, Some(now.max(at)));
        }
        if meta != before && (!taken.batches.is_empty() || meta.dead != before.dead) {
            self.rows.save_meta(&meta)?;
        }
        Ok(taken)
    }

    /// Claims batches, as many as may be in flight.
    fn take_batches(
        &self,
        options: &QueueOptions,
        meta: &mut Meta,
        mut flights: u32,
        taken: &mut Taken,
        now: i64,
    ) -> Result<()> {
        while flights < concurrency(options, meta) {
            if meta.rest_until > now {
                let first = self.rows.first_due()?;
                wake(&mut taken.wake, first.map(|at| at.max(meta.rest_until)));
                break;
            }
            let (messages, alone) = match self.next_batch(options, meta, flights == 0, now)? {
                Next::Not(at) => {
                    wake(&mut taken.wake, at);
                    break;
                }
                Next::Alone(message) => (vec![message], true),
                Next::Batch(messages) => (messages, false),
            };
            meta.claims += 1;
            let until = end_of_claim(options, now);
            let claim = self.rows.claim(&messages, meta.claims, alone, until)?;
            taken.batches.push(claim);
            flights += 1;
        }
        Ok(())
    }

    /// The messages of the next batch, in the order in which they are due. A message's last attempt is the only one
    /// in its batch, and with nothing else in flight if the attempt before it was cut off.
    fn next_batch(
        &self,
        options: &QueueOptions,
        meta: &mut Meta,
        is_idle: bool,
        now: i64,
    ) -> Result<Next> {
        let most = options.retry.max_attempts();
        let is_last = |due: &Due| due.attempts + 1 >= most;
        let mut due = self.rows.due(now, options.max_batch, None)?;
        while self.bury_exhausted(&due, most, meta, now)? {
            due = self.rows.due(now, options.max_batch, None)?;
        }
        let suspect = due.iter().find(|due| due.is_suspect(most)).copied();
        match self.suspects.next(suspect, is_idle, now) {
            MayBegin::Suspect(message) => return Ok(Next::Alone(message)),
            MayBegin::Nothing => return Ok(Next::Not(None)),
            MayBegin::Others if suspect.is_some() => {
                due = self.rows.due(now, options.max_batch, Some(most))?;
                if due.is_empty() {
                    return Ok(Next::Not(Some(self.suspects.after())));
                }
            }
            MayBegin::Others => {}
        }
        let Some(first) = due.first().copied() else {
            let first = self.rows.first_due()?;
            let wait = millis(options.max_wait);
            return Ok(Next::Not(first.map(|at| at.saturating_add(wait))));
        };
        if is_last(&first) {
            due.truncate(1);
            return Ok(Next::Batch(due));
        }
        let mut bytes = 0;
        let fits = due.iter().position(|due| {
            bytes += due.bytes;
            is_last(due) || bytes > rows(options.max_batch_bytes)
        });
        let count = fits.unwrap_or(due.len()).max(1);
        let is_full = fits.is_some() || count == options.max_batch;
        let waits_until = first.since.saturating_add(millis(options.max_wait));
        if is_full || waits_until <= now {
            due.truncate(count);
            return Ok(Next::Batch(due));
        }
        Ok(Next::Not(Some(waits_until)))
    }

    /// Gives up messages whose last attempt was cut off when the object or the process stopped. True if there were any.
    fn bury_exhausted(&self, due: &[Due], most: u32, meta: &mut Meta, now: i64) -> Result<bool> {
        let mut buried = 0;
        for due in due.iter().filter(|due| due.is_exhausted(most)) {
            let attempt = due.attempts;
            let error = format!("attempt {attempt} was the last, and its result is unknown");
            let claim = self.rows.claim_of(due.id)?;
            buried += i64::from(self.rows.bury(due.id, claim, &error, now)?);
        }
        meta.messages -= buried;
        meta.dead += buried;
        Ok(buried > 0)
    }

    /// Counts waits from the new time if the clock was set back. Call it before writing waits from the new time.
    pub(super) fn mind_clock(&self, meta: &mut Meta, now: i64) -> Result<()> {
        let Some(StepBack { by, sum }) = steps_back::noticed(&self.ctx, NAME, meta.set_back, now)
        else {
            return Ok(());
        };
        meta.set_back = sum;
        if by == 0 {
            return self.rows.save_meta(meta);
        }
        self.rows.clock_went_back(by, now)?;
        if meta.rest_until > now {
            meta.rest_until = meta.rest_until.saturating_sub(by).max(now);
        }
        self.suspects.clock_went_back(now);
        self.forward_after.set(0);
        self.rows.save_meta(meta)
    }
}

impl Inner {
    /// True if nothing is to be delivered.
    pub(super) fn is_paused(&self) -> Result<bool> {
        Ok(self.rows.meta()?.paused)
    }
}

/// How many batches may be on their way. A consumer that has failed is tried with one.
fn concurrency(options: &QueueOptions, meta: &Meta) -> u32 {
    match meta.failures {
        0 => options.concurrency,
        _ => 1,
    }
}

/// When messages are due again whose attempt, which begins now, is heard nothing of.
fn end_of_claim(options: &QueueOptions, now: i64) -> i64 {
    now.saturating_add(millis(options.timeout))
        .saturating_add(millis(limits::LEASE_GRACE))
}

/// The earlier of two times.
fn wake(at: &mut Option<i64>, other: Option<i64>) {
    *at = match (*at, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}
