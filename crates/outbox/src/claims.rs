//! Claims: a pass claims due messages, and no other code changes their rows until their attempts have finished.

use std::collections::HashMap;

use abide::Result;
use serde::Deserialize;

use super::{
    Status,
    claim::Claim,
    destinations::Known,
    limits,
    ready::Lines,
    rows::{Rows, ids},
    turns,
};
use abide_component::numbers::rows;

/// The columns of a [`Claim`], without its payload.
macro_rules! claim {
    () => {
        "id, kind, destination, origin, idempotency_key, ordering_key, schedule, deadline, attempts, first_attempt_at, unknown, operation, \
         operation_since, poll_errors, last_error, created_at, changes, since, alone, failing_since"
    };
}

/// A small payload: read with the claim, it needs no extra statement.
macro_rules! payload {
    () => {
        "(SELECT payload FROM outbox_payloads WHERE message = outbox_messages.id AND octet_length(payload) <= 4096) AS payload"
    };
}

/// The first messages of each line of a destination, with the line's number.
macro_rules! lines {
    () => {
        concat!(
            lines!("0", "outbox_first", "attempts = 0", "0"),
            " UNION ALL ",
            lines!("1", "outbox_again", "attempts > 0", "0"),
            " UNION ALL ",
            lines!("2", "outbox_first", "attempts = 0", "1"),
            " UNION ALL ",
            lines!("3", "outbox_again", "attempts > 0", "1"),
            " UNION ALL ",
            lines!("4", "outbox_first", "attempts = 0", "2"),
            " UNION ALL ",
            lines!("5", "outbox_again", "attempts > 0", "2")
        )
    };
    ($line:literal, $index:literal, $attempts:literal, $priority:literal) => {
        concat!(
            "SELECT ",
            $line,
            " AS line, next_at, id FROM (SELECT next_at, id FROM outbox_messages INDEXED BY ",
            $index,
            " WHERE status = 'queued' AND blocked = 0 AND alone = 0 AND ",
            $attempts,
            " AND destination = ?1 AND priority = ",
            $priority,
            " ORDER BY next_at, id LIMIT ?2)"
        )
    };
}

/// What can be cached of messages that were never attempted, of some.
const FRESH: &str = concat!(
    "SELECT ",
    claim!(),
    ", ",
    payload!(),
    " FROM outbox_messages WHERE id IN (SELECT value FROM json_each(?1)) AND +attempts = 0 AND +changes = 0"
);

/// Claims a cached message, if it waits for its first attempt as the cache says.
const TAKE_FRESH: &str = "UPDATE outbox_messages
     SET status = 'sending', next_at = NULL, attempts = 1, first_attempt_at = ?2, updated_at = ?2
     WHERE id = ?1 AND +status = 'queued' AND +blocked = 0 AND +next_at <= ?2 AND +destination = ?3 AND +attempts = 0
         AND +changes = 0 AND +alone = 0";

/// The statement that claims messages, one or several, if they still wait as the cache says.
macro_rules! take {
    ($which:literal) => {
        concat!(
            "UPDATE outbox_messages
             SET status = 'sending', next_at = NULL, attempts = attempts + 1, changes = changes + (changes > 0),
                 first_attempt_at = coalesce(first_attempt_at, ?2), updated_at = ?2
             WHERE id ",
            $which,
            " AND +status = 'queued' AND +blocked = 0 AND +next_at <= ?2 AND +destination = ?3 RETURNING ",
            claim!(),
            ", ",
            payload!()
        )
    };
}

/// What is to be attempted or polled alone.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct IsolatedWork {
    pub(super) id: i64,
    pub(super) destination: String,
    pub(super) is_operation: bool,
}

impl Rows {
    /// Claims due messages of a destination, at most this many, in turn: they become `sending`, with one attempt more.
    /// `served` is the number of the destination's next attempt.
    pub(super) fn claim_due(
        &self,
        destination: &str,
        now: i64,
        limit: u32,
        served: i64,
    ) -> Result<Vec<Claim>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let taken = {
            let most = limit as usize;
            let mut due = self.known_lines(destination, |lines| lines.due(now, most));
            if due.is_none() {
                self.read_lines(destination, most)?;
                due = self.known_lines(destination, |lines| lines.due(now, most));
            }
            turns::take(&mut due.unwrap_or_default(), served, most)
        };
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut claims = self.claim_ready(destination, &taken, now)?;
        if claims.len() == taken.len() {
            if let Some(lines) = self.ready.borrow_mut().lines(destination) {
                lines.remove(&taken);
            }
        } else {
            self.ready.borrow_mut().forget(destination);
        }
        if claims.len() > 1 {
            let place: HashMap<i64, usize> = taken.iter().copied().zip(0..).collect();
            claims.sort_by_key(|claim| place.get(&claim.id).copied());
        }
        Ok(claims)
    }

    /// Claims messages at the beginning of a destination's lines: small numbers from the cache.
    fn claim_ready(&self, destination: &str, taken: &[i64], now: i64) -> Result<Vec<Claim>> {
        if taken.len() > limits::FEW_CLAIMS {
            return self.claim(destination, taken, now);
        }
        let mut claims = Vec::with_capacity(taken.len());
        for id in taken {
            match self.claim_held(destination, *id, now)? {
                Some(claim) => claims.push(claim),
                None => claims.append(&mut self.claim(destination, &[*id], now)?),
            }
        }
        Ok(claims)
    }

    /// Claims a cached message, if it still waits.
    fn claim_held(&self, destination: &str, id: i64, now: i64) -> Result<Option<Claim>> {
        if self.held.borrow().lacks(id) {
            self.hold_next(destination)?;
        }
        let Some(claim) = self.held.borrow_mut().take(id) else {
            return Ok(None);
        };
        let taken = self.sql.exec(TAKE_FRESH, (id, now, destination))?;
        if taken.rows_written() == 0 {
            return Ok(None);
        }
        self.changes.add(id);
        self.count(Status::Queued, Some(Status::Sending), 1)?;
        Ok(Some(Claim {
            attempts: 1,
            first_attempt_at: Some(now),
            ..claim
        }))
    }

    /// Caches the first messages of a destination that were never attempted.
    fn hold_next(&self, destination: &str) -> Result<()> {
        let next = match self.ready.borrow_mut().lines(destination) {
            Some(lines) => ids(lines.never_tried(limits::HELD_AHEAD)),
            None => return Ok(()),
        };
        let fresh: Vec<Claim> = self.sql.exec(FRESH, (next,))?.all()?;
        let mut held = self.held.borrow_mut();
        for claim in fresh {
            held.hold(claim);
        }
        Ok(())
    }

    fn known_lines<T>(&self, destination: &str, f: impl FnOnce(&Lines) -> Option<T>) -> Option<T> {
        let mut ready = self.ready.borrow_mut();
        ready.lines(destination).and_then(|lines| f(lines))
    }

    /// Reads the lines of a destination, as far as messages of each can be claimed, and further if few destinations are
    /// known.
    fn read_lines(&self, destination: &str, most: usize) -> Result<()> {
        let ahead = match &*self.destinations.borrow() {
            Known::All(_) => limits::READ_AHEAD,
            Known::Nothing | Known::TooMany => 1,
        };
        let most = most + ahead;
        let found = self.sql.exec(lines!(), (destination, rows(most)))?;
        let lines = Lines::read(found.all()?, most);
        self.ready.borrow_mut().learn(destination, lines);
        Ok(())
    }

    /// Claims messages of a destination, those that still wait: they become `sending`, with one attempt more.
    pub(super) fn claim(&self, destination: &str, taken: &[i64], now: i64) -> Result<Vec<Claim>> {
        for id in taken {
            self.held.borrow_mut().take(*id);
        }
        let claims: Vec<Claim> = match taken {
            [id] => self.sql.exec(take!("= ?1"), (id, now, destination))?,
            some => self.sql.exec(
                take!("IN (SELECT value FROM json_each(?1))"),
                (ids(some.iter().copied()), now, destination),
            )?,
        }
        .all()?;
        self.note_all(&claims.iter().collect::<Vec<_>>(), now, "sending")?;
        self.count(Status::Queued, Some(Status::Sending), rows(claims.len()))?;
        Ok(claims)
    }

    /// How many messages wait for an attempt at a destination and are not blocked by their ordering key, up to
    /// [`limits::MAX_COUNTED`].
    pub(super) fn count_waiting(&self, destination: &str) -> Result<i64> {
        const COUNT: &str = concat!("SELECT count(*) FROM (", lines!(), " LIMIT ?2)");
        let most = rows(limits::MAX_COUNTED);
        self.sql.exec(COUNT, (destination, most))?.one()
    }

    /// The first due message that is to be attempted or polled alone.
    pub(super) fn first_alone(&self, now: i64) -> Result<Option<IsolatedWork>> {
        self.sql
            .exec(
                "SELECT id, destination, operation IS NOT NULL AS is_operation FROM outbox_messages INDEXED BY outbox_alone
                 WHERE alone = 1 AND blocked = 0 AND next_at IS NOT NULL AND next_at <= ?1 ORDER BY next_at, id LIMIT 1",
                (now,),
            )?
            .optional()
    }

    /// Claims an operation for a poll.
    pub(super) fn claim_poll(&self, id: i64, now: i64) -> Result<Claim> {
        self.sql
            .exec(
                concat!(
                    "UPDATE outbox_messages SET next_at = NULL, polls = polls + 1, updated_at = ?2 WHERE id = ?1 RETURNING ",
                    claim!(),
                    ", ",
                    payload!()
                ),
                (id, now),
            )?
            .one()
    }

    /// Postpones a poll, or an attempt that is to be made alone.
    pub(super) fn put_off(&self, id: i64, at: i64) -> Result<()> {
        self.agenda_changes();
        self.sql.exec(
            "UPDATE outbox_messages SET next_at = ?2 WHERE id = ?1",
            (id, at),
        )?;
        Ok(())
    }

    /// True if an attempt or a poll of the message is in flight.
    pub(super) fn is_in_flight(&self, id: i64) -> Result<bool> {
        self.sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE id = ?1 AND status = 'sending' AND next_at IS NULL)",
                (id,),
            )?
            .one()
    }

    /// Messages in flight. After a start no attempt works on them any more.
    pub(super) fn on_their_way(&self) -> Result<Vec<Claim>> {
        self.sql
            .exec(
                concat!(
                    "SELECT ",
                    claim!(),
                    ", NULL AS payload FROM outbox_messages INDEXED BY outbox_in_flight
                     WHERE status = 'sending' AND next_at IS NULL AND id > 0 ORDER BY id"
                ),
                (),
            )?
            .all()
    }

    /// When the first sendable message of a destination is due.
    pub(super) fn first_due(&self, destination: &str) -> Result<Option<i64>> {
        let is_known = |lines: &Lines| lines.are_enough().then_some(());
        if self.known_lines(destination, is_known).is_none() {
            self.read_lines(destination, 1)?;
        }
        Ok(self.known_lines(destination, Lines::first_due))
    }
}
