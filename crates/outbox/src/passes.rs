//! Passes: they claim due messages, as far as rates, concurrency and circuit breakers allow.
//!
//! Contract: a pass is synchronous and part of a turn's transaction. It looks only at what its indexes report as due,
//! and each pass leaves less of that or says when to come back, so the task that makes passes never spins.

use std::panic::{AssertUnwindSafe, catch_unwind};

use abide::{Error, Result};
use serde::Deserialize;

use super::{
    Batch, FanOutStatus, Limit, NAME, Pace, Status,
    agenda::Agenda,
    bucket::{self, Bucket},
    claim::Claim,
    claims::IsolatedWork,
    destination,
    flights::{Bounds, Full, InFlight, Standing},
    inner::{Added, Inner},
    limits,
    meta::Meta,
    overload::Overload,
    polls::Polls,
    rows::FailedMessage,
};
use abide_component::numbers::{millis, rows};
use abide_component::steps_back;
use abide_component::suspects::MayBegin;
use abide_component::texts::{Panicked, cut};

/// What a pass has claimed.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) sends: Vec<Claim>,
    pub(super) polls: Vec<Claim>,
    /// When the next pass has work, unless an attempt in flight finishes earlier.
    pub(super) wake: Option<i64>,
}

/// How much a pass may take.
struct Budget {
    sends: u32,
    polls: Polls,
    bucket: Bucket,
    /// Before this time nothing is sent, and nothing is polled unless `polls` allows it.
    tick: i64,
}

/// A message that is to be attempted or polled alone, at a destination that is not paused.
struct Suspect {
    alone: IsolatedWork,
    to: destination::Row,
    bucket: Bucket,
}

impl Budget {
    /// False if there is no token, or the node is overloaded.
    fn has_room(&self, suspect: &Suspect) -> bool {
        if suspect.alone.is_operation {
            self.polls.left > 0
        } else {
            self.sends > 0
        }
    }
}

impl Inner {
    /// Counts waits from the new time if the clock was set back. Call this before writing any wait that is already
    /// counted from the new time: such a wait must not be shortened.
    pub(super) fn mind_clock(&self, now: i64) -> Result<()> {
        let mut meta = self.rows.meta()?;
        let Some(step) = steps_back::noticed(&self.ctx, NAME, meta.set_back, now) else {
            return Ok(());
        };
        if step.by > 0 {
            self.clock_went_back(step.by, now)?;
            meta.next_tick = meta.next_tick.min(now);
            // A bucket of the old time would have no token before that time comes again.
            meta.full_at = meta.full_at.min(now.saturating_mul(1_000));
        }
        meta.set_back = step.sum;
        self.rows.save_meta(meta);
        Ok(())
    }

    /// Claims what is due and allowed.
    pub(super) fn pass(&self, taken: &mut Taken, now: i64) -> Result<()> {
        let mut agenda = self.rows.agenda()?;
        let (done, more) = self.keep_house(&agenda, now)?;
        if done {
            agenda = self.rows.read_agenda()?;
        }
        let meta = self.rows.meta()?;
        let mut budget = self.budget(meta, now);
        let is_due = |time: Option<i64>| time.is_some_and(|at| at <= now);
        // A due message may be past its deadline as well: nothing begins before all late messages have failed.
        let are_late = is_due(agenda.deadline);
        let mut suspect = None;
        if is_due(agenda.alone) && !are_late {
            suspect = self.suspect(now)?;
        }
        let has_room = suspect
            .as_ref()
            .is_none_or(|suspect| budget.has_room(suspect));
        let is_idle = self.flights.borrow().are_none();
        if let MayBegin::Suspect(suspect) = self.suspects.next(suspect, is_idle && has_room, now) {
            self.take_alone(suspect, &mut budget, taken, now)?;
        }
        if self.suspects.stop_others() {
            (budget.sends, budget.polls) = (0, Polls::default());
        }
        if !are_late {
            self.take_due(&mut budget, &mut taken.sends, now)?;
        }
        if !taken.sends.is_empty() {
            self.reserve_polls(&taken.sends, now);
        }
        if self.overload.get().is_probed() && !taken.sends.is_empty() {
            // It is the probe.
            budget.polls = Polls::default();
        }
        if is_due(agenda.poll) && !are_late {
            self.take_polls(&mut budget.polls, &mut taken.polls, now)?;
        }
        if !(taken.sends.is_empty() && taken.polls.is_empty()) {
            self.pay(meta, &mut budget, taken.polls.len(), now);
        }
        if is_due(agenda.poll) || is_due(agenda.alone) {
            self.rows.read_agenda()?;
        }
        taken.wake = if more {
            Some(now)
        } else {
            let (agenda, send) = (self.rows.agenda()?, self.rows.next_destination()?);
            self.next_wake(&agenda, send, &budget, now)
        };
        Ok(())
    }

    /// Expires messages, creates a batch of a fan-out, and removes old messages, if there are any. Returns whether
    /// anything was done, and whether there may be more.
    fn keep_house(&self, agenda: &Agenda, now: i64) -> Result<(bool, bool)> {
        let (mut done, mut more) = (false, false);
        if agenda.deadline.is_some_and(|at| at <= now) {
            done = true;
            more |= self.expire(now)?;
        }
        if agenda.callback.is_some_and(|at| at <= now) {
            done = true;
            more |= self.rows.repeat_owed(now)?;
        }
        if agenda.fan_out {
            done = true;
            more |= self.make_batch(now)?;
        }
        let before = now.saturating_sub(millis(self.rows.options.keep_finished));
        if agenda.finished.is_some_and(|at| at <= before) {
            done = true;
            more |= self.purge(before)?;
        }
        Ok((done, more))
    }

    /// Stores the tokens that a pass has used, and the polls that its tick has left.
    fn pay(&self, mut meta: Meta, budget: &mut Budget, polled: usize, now: i64) {
        let full_at = budget.bucket.full_at();
        let mut news = meta.full_at != full_at;
        meta.full_at = full_at;
        if let Pace::Ticks { every, polls, .. } = self.rows.options.pace {
            if meta.next_tick <= now {
                meta.next_tick = now.saturating_add(millis(every));
                meta.polls_left = polls;
                budget.tick = meta.next_tick;
            }
            let polled = u32::try_from(polled).unwrap_or(u32::MAX);
            meta.polls_left = meta.polls_left.saturating_sub(polled);
            news = true;
        }
        if news {
            self.rows.save_meta(meta);
        }
    }

    /// How much this pass may claim; less if this node is overloaded.
    fn budget(&self, meta: Meta, now: i64) -> Budget {
        let mut budget = self.budget_of_pace(meta, now);
        let overload = self.overload.get();
        if let Some(until) = overload.paused_until(now) {
            (budget.sends, budget.polls) = (0, Polls::default());
            budget.tick = budget.tick.max(until);
        } else if overload.is_probed() {
            let idle = self.flights.borrow().are_none();
            budget.polls.left = budget.polls.left.min(u32::from(idle));
            budget.sends = budget.sends.min(u32::from(idle));
        }
        budget
    }

    fn budget_of_pace(&self, meta: Meta, now: i64) -> Budget {
        let flights = self.flights.borrow();
        match self.rows.options.pace {
            Pace::AtOnce { outbox, .. } => {
                if bucket::is_full(meta.full_at, now) {
                    self.was_full_at.set(now);
                }
                let bucket = Bucket::new(outbox.rate, meta.full_at, now);
                let room = |flying: &InFlight| {
                    let room = concurrency(outbox).saturating_sub(flying.total());
                    room.min(limits::MAX_CLAIMS)
                };
                Budget {
                    sends: bucket.tokens(now).min(room(&flights.sends)),
                    polls: Polls::new(room(&flights.polls)),
                    bucket,
                    tick: now,
                }
            }
            Pace::Ticks { sends, polls, .. } => {
                let begins = meta.next_tick <= now;
                let polls = if begins {
                    polls
                } else {
                    meta.polls_left.min(polls)
                };
                let room =
                    |flying: &InFlight| limits::MAX_CONCURRENCY.saturating_sub(flying.total());
                Budget {
                    sends: sends.min(room(&flights.sends)) * u32::from(begins),
                    polls: Polls::new(polls.min(room(&flights.polls))),
                    bucket: Bucket::new(None, 0, now),
                    tick: meta.next_tick.max(now),
                }
            }
        }
    }

    /// The first due suspect. One whose destination is paused is put off.
    fn suspect(&self, now: i64) -> Result<Option<Suspect>> {
        while let Some(alone) = self.rows.first_alone(now)? {
            let mut to = self.rows.destination(&alone.destination)?;
            let bucket = to.bucket(self.destination_limit().rate, now);
            let put_off = match to.rests_until(now) {
                Some(until) => Some(until),
                None if alone.is_operation || bucket.tokens(now) > 0 => None,
                None => Some(bucket.next_token().max(now + 1)),
            };
            let Some(until) = put_off else {
                return Ok(Some(Suspect { alone, to, bucket }));
            };
            self.rows.put_off(alone.id, until)?;
        }
        Ok(None)
    }

    /// Attempts or polls a suspect.
    fn take_alone(
        &self,
        suspect: Suspect,
        budget: &mut Budget,
        taken: &mut Taken,
        now: i64,
    ) -> Result<()> {
        let Suspect {
            alone,
            mut to,
            bucket,
        } = suspect;
        if alone.is_operation {
            let claim = self.rows.claim_poll(alone.id, now)?;
            self.flights.borrow_mut().begin(&claim);
            taken.polls.push(claim);
            return Ok(());
        }
        to.served = to.served.wrapping_add(1);
        to.set_bucket(bucket.take(1));
        self.rows.save_destination(to)?;
        budget.bucket = budget.bucket.take(1);
        let mut claims = self.rows.claim(&alone.destination, &[alone.id], now)?;
        for claim in &mut claims {
            claim.taken_at = now;
            self.flights.borrow_mut().begin(claim);
        }
        taken.sends.extend(claims);
        Ok(())
    }

    /// The limits of each destination.
    pub(super) fn destination_limit(&self) -> Limit {
        match self.rows.options.pace {
            Pace::AtOnce { destination, .. } => destination,
            Pace::Ticks { .. } => Limit {
                rate: None,
                concurrency: limits::MAX_CONCURRENCY,
            },
        }
    }

    /// The send pass: destinations in the order in which they have waited, each as far as its limits allow.
    fn take_due(&self, budget: &mut Budget, sends: &mut Vec<Claim>, now: i64) -> Result<()> {
        if budget.sends > 0 {
            let unheard = self.flights.borrow_mut().next_unheard(self.bounds(), now);
            self.rows.unpark(&unheard, now)?;
        }
        while budget.sends > 0 {
            let due = self
                .rows
                .due_destinations(now, limits::DESTINATIONS_AT_ONCE)?;
            if due.is_empty() {
                break;
            }
            for mut to in due {
                if budget.sends == 0 {
                    break;
                }
                let standing = {
                    let flights = self.flights.borrow();
                    flights.standing(to.origin(), to.heard)
                };
                let mut claims = self.take_from(&mut to, standing, budget.sends, now)?;
                if !claims.is_empty() {
                    to.turn = self.next_turn();
                }
                self.rows.save_destination(to)?;
                let count = claims.len() as u32;
                budget.sends -= count;
                budget.bucket = budget.bucket.take(count);
                let mut flights = self.flights.borrow_mut();
                flights.begin_all(&mut claims, standing, self.bounds(), now);
                sends.append(&mut claims);
            }
        }
        Ok(())
    }

    /// Claims what may be sent to one destination, and stores when to look at it again. If there is room that it does
    /// not use, another parked destination is looked at.
    fn take_from(
        &self,
        to: &mut destination::Row,
        standing: Standing,
        allowed: u32,
        now: i64,
    ) -> Result<Vec<Claim>> {
        if let Some(until) = to.rests_until(now) {
            to.due_at = Some(until);
            self.pass_room_on(to, now)?;
            return Ok(Vec::new());
        }
        let limit = self.destination_limit();
        let bounds = self.bounds();
        let own = if to.is_probed() { 1 } else { bounds.each };
        let flights = self.flights.borrow();
        let room = flights.room(&to.destination, to.origin(), standing, own, bounds, now);
        drop(flights);
        let room = match room {
            Ok(room) => room,
            Err(full) => {
                self.flights
                    .borrow_mut()
                    .park(&to.destination, to.origin(), full);
                to.due_at = match full {
                    // The first attempt to finish looks again.
                    Full::Destination => None,
                    // A parked destination is looked at then, too; and in any case after a while.
                    Full::Origin | Full::Silent | Full::First => {
                        Some(now.saturating_add(millis(limits::PARKED)))
                    }
                };
                return Ok(Vec::new());
            }
        };
        let bucket = to.bucket(limit.rate, now);
        let tokens = bucket.tokens(now);
        let most = room.min(tokens).min(allowed);
        let claims = self.rows.claim_due(&to.destination, now, most, to.served)?;
        let count = claims.len() as u32;
        if count == 0 {
            self.pass_room_on(to, now)?;
        }
        to.served = to.served.wrapping_add(i64::from(count));
        let bucket = bucket.take(count);
        to.set_bucket(bucket);
        to.due_at = if count < most {
            self.rows.first_due(&to.destination)?
        } else if count == tokens && count < room {
            Some(bucket.next_token().max(now + 1))
        } else {
            // There may be more; others that have waited meanwhile go first.
            Some(now)
        };
        Ok(claims)
    }

    fn pass_room_on(&self, from: &destination::Row, now: i64) -> Result<()> {
        let parked = self.flights.borrow_mut().next_parked(from.origin());
        self.rows.unpark(&parked, now)
    }

    /// The limits of attempts in flight.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            each: concurrency(self.destination_limit()),
            all: self.most(),
            timeout: self.rows.options.timeout.min(limits::MAX_TIMEOUT),
        }
    }

    /// How many attempts may be in flight, in all.
    fn most(&self) -> u32 {
        if self.overload.get().is_probed() {
            return 1;
        }
        match self.rows.options.pace {
            Pace::AtOnce { outbox, .. } => concurrency(outbox),
            Pace::Ticks { .. } => limits::MAX_CONCURRENCY,
        }
    }

    /// Messages whose deadline has passed fail. True if there may be more.
    fn expire(&self, now: i64) -> Result<bool> {
        let late: Vec<Expired> = self
            .rows
            .sql
            .exec(
                "SELECT id, status, ordering_key, unknown, attempts, last_error, failing_since
                 FROM outbox_messages INDEXED BY outbox_deadline
                 WHERE deadline IS NOT NULL AND next_at IS NOT NULL AND deadline <= ?1 ORDER BY deadline LIMIT ?2",
                (now, rows(limits::MAX_SWEPT)),
            )?
            .all()?;
        for message in &late {
            let is_operation = message.status == Status::Sending;
            let passed = match message.attempts {
                _ if is_operation => {
                    "the deadline passed while the receiver was processing it".to_owned()
                }
                0 => "the deadline passed before it could be sent".to_owned(),
                attempts => format!("the deadline passed after {attempts} attempts"),
            };
            let error = match &message.last_error {
                None => passed,
                Some(error) => format!("{passed}; the last error: {error}"),
            };
            let letter = FailedMessage {
                id: message.id,
                from: message.status,
                ordering_key: message.ordering_key.as_deref(),
                error: &error,
                // The operation may still succeed.
                unknown: message.unknown || is_operation,
                failing_since: message.failing_since,
            };
            self.rows.bury(&letter, now)?;
        }
        Ok(late.len() == limits::MAX_SWEPT)
    }

    /// Removes messages that finished long ago.
    fn purge(&self, before: i64) -> Result<bool> {
        let gone = self.rows.purge(before, limits::MAX_SWEPT)?;
        if gone > 0 {
            self.rows.purge_others(before, limits::MAX_SWEPT)?;
        }
        Ok(gone == limits::MAX_SWEPT)
    }

    /// The next batch of a fan-out, each in turn. It leaves half of the outbox to other messages. True if there is more to
    /// make.
    fn make_batch(&self, now: i64) -> Result<bool> {
        type Command = (i64, String, String, Option<String>);
        let sql = &self.rows.sql;
        let after_last = |last: i64| {
            let next = "SELECT id, name, command, after FROM outbox_fan_outs WHERE status = 'running' AND id > ?1
                 ORDER BY id LIMIT 1";
            sql.exec(next, (last,))?.optional::<Command>()
        };
        let mut running = after_last(self.last_fan_out.get())?;
        if running.is_none() {
            running = after_last(0)?;
        }
        let Some((id, name, command, after)) = running else {
            return Ok(false);
        };
        let share = self.rows.options.max_queued.saturating_add(1) / limits::FAN_OUT_SHARE;
        let room = share - self.rows.counts()?.queued;
        let limit = usize::try_from(room)
            .unwrap_or(0)
            .min(limits::FAN_OUT_BATCH);
        if limit == 0 {
            // It continues when some were sent.
            return Ok(false);
        }
        self.last_fan_out.set(id);
        let made = self.rows.storage.transaction(|| {
            let fan_out = self.registry.fan_out(&name)?;
            let batch = AssertUnwindSafe(|| {
                fan_out.batch(&self.rows.storage, &command, after.as_deref(), limit)
            });
            let batch = catch_unwind(batch).unwrap_or_else(|panic| {
                let Panicked { text, shown } = Panicked::new("it", &*panic);
                tracing::error!(%text, error = shown, "a fan-out panicked");
                Err(Error::new(shown))
            })?;
            if batch.next.is_some() && batch.next == after {
                return Err(Error::new(
                    "its position does not advance: it would never finish",
                ));
            }
            self.add_batch(id, &batch, limit, now)?;
            Ok(batch)
        });
        match made {
            Ok(batch) => {
                let status = match batch.next {
                    Some(_) => FanOutStatus::Running,
                    None => FanOutStatus::Done,
                };
                sql.exec(
                    "UPDATE outbox_fan_outs SET after = ?2, made = made + ?3, status = ?4, updated_at = ?5 WHERE id = ?1",
                    (id, &batch.next, rows(batch.messages.len()), status.as_str(), now),
                )?;
            }
            Err(error) => {
                tracing::error!(fan_out = name, id, %error, "a fan-out has failed");
                let why = cut(error.message().to_owned(), limits::MAX_ERROR_BYTES);
                sql.exec(
                    "UPDATE outbox_fan_outs SET status = 'failed', error = ?2, updated_at = ?3 WHERE id = ?1",
                    (id, why, now),
                )?;
            }
        }
        self.fan_outs_run()
    }

    fn add_batch(&self, fan_out: i64, batch: &Batch, limit: usize, now: i64) -> Result<()> {
        if batch.messages.len() > limit {
            return Err(Error::new(format!(
                "a batch has {} messages; at most {} were requested",
                batch.messages.len(),
                limit
            )));
        }
        for message in &batch.messages {
            // A message with the same dedup key was created before.
            let (Added::New(_) | Added::Known(_)) = self.add(message, Some(fan_out), now)?;
        }
        Ok(())
    }

    /// When there is work, if nothing finishes earlier.
    fn next_wake(
        &self,
        agenda: &Agenda,
        send: Option<i64>,
        budget: &Budget,
        now: i64,
    ) -> Option<i64> {
        let mut wake = Earliest::default();
        // Without room it waits for an attempt to finish; without tokens, for the next token.
        let flights = self.flights.borrow();
        let most = self.most();
        let probed = self.overload.get().is_probed() && !flights.are_none();
        // The next attempt to finish continues.
        let stopped = self.suspects.stop_others() && !flights.are_none();
        if flights.sends.total() < most && !probed && !stopped {
            let token = match budget.bucket.tokens(now) {
                0 => budget.bucket.next_token(),
                _ => now,
            };
            wake.not_before(send, token.max(budget.tick));
            wake.not_before(
                flights.next_first(self.bounds(), now),
                token.max(budget.tick),
            );
            wake.not_before(
                agenda.alone,
                token.max(budget.tick).max(self.suspects.after()),
            );
        }
        if flights.polls.total() < most && !probed && !stopped {
            let from = if budget.polls.free() == 0 {
                budget.tick
            } else {
                now
            };
            wake.not_before(agenda.poll, from);
            wake.not_before(budget.polls.reserved_from, now);
        }
        wake.not_before(agenda.deadline, now);
        wake.not_before(agenda.callback, now);
        let keep = self.rows.options.keep_finished;
        let keep = millis(keep.saturating_add((keep / 8).min(limits::PURGE_SLACK)));
        wake.not_before(agenda.finished.map(|at| at.saturating_add(keep)), now);
        wake.0
    }

    /// A wait for a retry, a poll or the end of a pause is no longer than before.
    fn clock_went_back(&self, by: i64, now: i64) -> Result<()> {
        self.flights.borrow_mut().clock_went_back();
        self.overload.set(Overload::default());
        self.suspects.clock_went_back(now);
        self.rows.agenda_changes();
        self.rows.write_destinations()?;
        let sql = &self.rows.sql;
        sql.exec_on_all(
            "UPDATE outbox_messages
             SET next_at = max(next_at - ?1, ?2, coalesce(not_before, 0)), operation_since = operation_since - ?1
             WHERE finished_at IS NULL AND next_at > ?2 AND (attempts > 0 OR coalesce(not_before, 0) < next_at)",
            (by, now),
        )?;
        sql.exec_on_all(
            "UPDATE outbox_destinations
             SET due_at = iif(coalesce(due_at, paused_until, open_until, spacing) IS NULL, NULL, ?2), paused_until = max(paused_until - ?1, ?2),
                 open_until = max(open_until - ?1, ?2), ramp_since = ramp_since - ?1,
                 full_at = max(full_at - ?1 * 1000, min(full_at, ?2 * 1000))
             WHERE due_at IS NOT NULL OR paused_until IS NOT NULL OR open_until IS NOT NULL OR spacing IS NOT NULL
                 OR full_at > ?2 * 1000",
            (by, now),
        )?;
        sql.exec_on_all(
            "UPDATE outbox_callbacks SET next_at = max(next_at - ?1, ?2) WHERE next_at > ?2",
            (by, now),
        )?;
        self.rows.forget_destinations();
        self.rows.ready.borrow_mut().forget_all();
        Ok(())
    }
}

/// A message whose deadline has passed.
#[derive(Deserialize)]
struct Expired {
    id: i64,
    status: Status,
    ordering_key: Option<String>,
    unknown: bool,
    attempts: u32,
    last_error: Option<String>,
    failing_since: Option<i64>,
}

pub(super) fn concurrency(limit: Limit) -> u32 {
    limit.concurrency.clamp(1, limits::MAX_CONCURRENCY)
}

/// The earliest of some times.
#[derive(Debug, Default)]
struct Earliest(Option<i64>);

impl Earliest {
    /// Adds a time, if there is one, clamped to the earliest useful time.
    fn not_before(&mut self, time: Option<i64>, floor: i64) {
        if let Some(time) = time {
            let time = time.max(floor);
            self.0 = Some(self.0.map_or(time, |earliest| earliest.min(time)));
        }
    }
}
