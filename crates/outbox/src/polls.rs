//! The poll pass: it claims operations whose next poll is due.
//!
//! Contract: operations are polled in the order in which they are due. At a destination that is paused or has its
//! maximum of polls in flight, they are postponed, each to its own time, so they block nothing.
//!
//! A tick also polls what it has sent, as soon as the receiver has accepted it, or when the receiver says if that is
//! within the tick. So a tick reserves a poll for each of its attempts, until the attempt has ended without an operation.
//! It never reserves all its polls: operations of earlier ticks are polled, too.

use std::collections::HashMap;

use abide::Result;
use serde::Deserialize;

use super::{
    Pace,
    claim::Claim,
    inner::Inner,
    limits,
    passes::concurrency,
    rows::{Rows, ids},
};
use abide_component::numbers::millis;

/// An operation that is to be polled.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Operation {
    id: i64,
    destination: String,
    origin: String,
    /// `None` while the attempt that may begin it is in flight.
    next_at: Option<i64>,
}

/// The messages for which the current tick reserves a poll.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// When the tick ends.
    end: i64,
    messages: Vec<i64>,
}

/// How many operations a pass may poll.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polls {
    /// Including those that are reserved.
    pub(super) left: u32,
    /// Polls that the tick keeps for its own messages.
    reserved: u32,
    /// When the first of those is due.
    pub(super) reserved_from: Option<i64>,
}

impl Polls {
    pub(super) fn new(left: u32) -> Self {
        Self {
            left,
            ..Self::default()
        }
    }

    /// How many are not reserved.
    pub(super) fn free(self) -> u32 {
        self.left.saturating_sub(self.reserved)
    }
}

/// A pass in progress.
struct PollPass<'a> {
    inner: &'a Inner,
    now: i64,
    /// Polls of a destination at a time.
    most: u32,
    /// Until when destinations are paused.
    pauses: HashMap<String, Option<i64>>,
}

impl Inner {
    /// A tick begins: it reserves polls for what it has sent.
    pub(super) fn reserve_polls(&self, sends: &[Claim], now: i64) {
        let Pace::Ticks { every, polls, .. } = self.rows.options.pace else {
            return;
        };
        let others = polls.div_ceil(limits::OTHER_POLLS);
        let most = polls.saturating_sub(others) as usize;
        *self.reserved.borrow_mut() = Reserved {
            end: now.saturating_add(millis(every)),
            messages: sends.iter().map(|claim| claim.id).take(most).collect(),
        };
    }

    /// Claims operations that are due.
    pub(super) fn take_polls(
        &self,
        budget: &mut Polls,
        polls: &mut Vec<Claim>,
        now: i64,
    ) -> Result<()> {
        if budget.left == 0 {
            return Ok(());
        }
        let mut pass = PollPass {
            inner: self,
            now,
            most: concurrency(self.destination_limit()),
            pauses: HashMap::new(),
        };
        let (due, later): (Vec<Operation>, Vec<Operation>) = self
            .reserved(now)?
            .into_iter()
            .partition(|own| own.next_at.is_some_and(|at| at <= now));
        budget.reserved = u32::try_from(later.len()).unwrap_or(u32::MAX);
        budget.reserved_from = later.iter().filter_map(|own| own.next_at).min();
        for own in due {
            if budget.left == 0 {
                break;
            }
            self.reserved
                .borrow_mut()
                .messages
                .retain(|id| *id != own.id);
            if let Some(claim) = pass.claim(own)? {
                polls.push(claim);
                budget.left -= 1;
            }
        }
        if budget.free() == 0 {
            return Ok(());
        }
        for operation in self.rows.due_polls(now, limits::MAX_CLAIMS)? {
            if budget.free() == 0 {
                break;
            }
            if let Some(claim) = pass.claim(operation)? {
                polls.push(claim);
                budget.left -= 1;
            }
        }
        Ok(())
    }

    /// What the current tick has sent and not polled yet, in the order of ids, if its poll may be within the tick.
    fn reserved(&self, now: i64) -> Result<Vec<Operation>> {
        let mut reserved = self.reserved.borrow_mut();
        if reserved.end <= now || reserved.messages.is_empty() {
            return Ok(Vec::new());
        }
        let own = self.rows.polls_of(&reserved.messages, reserved.end)?;
        reserved.messages = own.iter().map(|own| own.id).collect();
        Ok(own)
    }
}

impl PollPass<'_> {
    /// Claims an operation, or postpones it.
    fn claim(&mut self, operation: Operation) -> Result<Option<Claim>> {
        let Operation {
            id,
            destination,
            origin,
            ..
        } = operation;
        let rows = &self.inner.rows;
        let pause = match self.pauses.get(&destination) {
            Some(pause) => *pause,
            None => rows.destination(&destination)?.rests_until(self.now),
        };
        self.pauses.insert(destination, pause);
        let mut flights = self.inner.flights.borrow_mut();
        let put_off = match pause {
            Some(until) => Some(until),
            None => (flights.polls.to(&origin) >= self.most).then_some(self.now),
        };
        if let Some(from) = put_off {
            let at = flights.poll_turns.next(&origin, self.most, from);
            rows.put_off(id, at)?;
            return Ok(None);
        }
        let claim = rows.claim_poll(id, self.now)?;
        flights.begin(&claim);
        Ok(Some(claim))
    }
}

impl Rows {
    /// Operations whose next poll is due, longest due first, at most this many.
    fn due_polls(&self, now: i64, limit: u32) -> Result<Vec<Operation>> {
        self.sql
            .exec(
                "SELECT id, destination, coalesce(origin, destination) AS origin, next_at
                 FROM outbox_messages INDEXED BY outbox_poll
                 WHERE status = 'sending' AND next_at IS NOT NULL AND next_at <= ?1 AND alone = 0
                 ORDER BY next_at LIMIT ?2",
                (now, limit),
            )?
            .all()
    }

    /// Those of some messages that are being attempted, or are operations whose next poll is due before `end`.
    fn polls_of(&self, messages: &[i64], end: i64) -> Result<Vec<Operation>> {
        self.sql
            .exec(
                "SELECT id, destination, coalesce(origin, destination) AS origin, next_at FROM outbox_messages
                 WHERE id IN (SELECT value FROM json_each(?1)) AND +status = 'sending' AND alone = 0
                     AND (next_at IS NULL OR next_at < ?2) ORDER BY id",
                (ids(messages.iter().copied()), end),
            )?
            .all()
    }
}
