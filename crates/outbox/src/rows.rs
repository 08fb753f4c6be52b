//! Messages as rows: the writes when one is enqueued, claimed, settled or moved.
//!
//! Contract: each change of a message's status goes through here, so its history, the counts and later messages with
//! the same ordering key are always consistent. Everything is part of the poll's transaction.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use abide::{Ctx, Result, Storage, params};

use super::{
    OutboxError, OutboxOptions, Record, Status,
    agenda::Agenda,
    callbacks::{Callbacks, End},
    changes::Changes,
    claim::Claim,
    destinations::Known,
    flights::Standing,
    held::Held,
    limits,
    meta::Ledger,
    metrics::Event,
    notes::{Note, Notes},
    ready::{Place, Ready},
    registry::Accepted,
    schema::COLUMNS,
    sql::Sql,
    turns,
};
use abide_component::numbers::rows;
use abide_component::texts::cut;

/// The columns of a [`Record`].
pub(super) const RECORD: &str = "id, kind, status, destination, summary, idempotency_key, dedup_key, ordering_key, \
     CASE priority WHEN 0 THEN 'high' WHEN 1 THEN 'normal' ELSE 'low' END AS priority, not_before, deadline, blocked, \
     next_at, attempts, operation, polls, unknown, last_error, created_at, updated_at, finished_at, fan_out, failing_since";

/// The statement that finishes delivered messages, one or several.
macro_rules! sent {
    ($which:literal) => {
        concat!(
            "UPDATE outbox_messages
             SET status = 'sent', next_at = NULL, unknown = 0, last_error = NULL, updated_at = ?2, finished_at = ?2,
                 changes = changes + (changes > 0), failing_since = NULL WHERE id ",
            $which
        )
    };
}

/// The hash of a message's content as enqueued, before any edit.
pub(super) type Blob = serde_bytes::ByteBuf;

/// A message to be added.
pub(super) struct New<'a> {
    pub(super) id: i64,
    pub(super) idempotency_key: &'a str,
    pub(super) kind: &'a str,
    pub(super) payload: &'a str,
    pub(super) destination: &'a str,
    pub(super) origin: Option<&'a str>,
    pub(super) summary: &'a str,
    pub(super) dedup_key: Option<&'a str>,
    pub(super) dedup_hash: Option<Vec<u8>>,
    pub(super) ordering_key: Option<&'a str>,
    pub(super) priority: usize,
    pub(super) schedule: Option<String>,
    pub(super) not_before: Option<i64>,
    pub(super) deadline: Option<i64>,
    pub(super) fan_out: Option<i64>,
}

impl New<'_> {
    /// The data of its claim, if it can be attempted from now on.
    fn claim(&self, now: i64) -> Claim {
        Claim {
            id: self.id,
            kind: self.kind.to_owned(),
            destination: self.destination.to_owned(),
            origin: self.origin.map(str::to_owned),
            idempotency_key: self.idempotency_key.to_owned(),
            ordering_key: self.ordering_key.map(str::to_owned),
            schedule: self.schedule.clone(),
            deadline: self.deadline,
            attempts: 0,
            first_attempt_at: None,
            unknown: false,
            operation: None,
            operation_since: None,
            poll_errors: 0,
            last_error: None,
            created_at: now,
            changes: 0,
            since: now,
            alone: false,
            failing_since: None,
            taken_at: 0,
            standing: Standing::default(),
            payload: Some(self.payload.to_owned()),
        }
    }
}

/// The tables of one outbox.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) storage: Storage,
    pub(super) sql: Sql,
    pub(super) options: Rc<OutboxOptions>,
    pub(super) changes: Rc<Changes>,
    pub(super) notes: Rc<Notes>,
    pub(super) ledger: Rc<Cell<Ledger>>,
    pub(super) agenda: Rc<Cell<Option<Agenda>>>,
    pub(super) destinations: Rc<RefCell<Known>>,
    pub(super) ready: Rc<RefCell<Ready>>,
    pub(super) held: Rc<RefCell<Held>>,
    pub(super) callbacks: Rc<Callbacks>,
    /// The highest assigned id, if that is known.
    pub(super) last_id: Rc<Cell<Option<i64>>>,
    /// Destinations whose circuit is open, if that is known.
    pub(super) open: Rc<RefCell<Option<Vec<String>>>>,
}

impl Rows {
    /// Creates the tables unless they exist.
    pub(super) fn open(ctx: &Ctx, options: OutboxOptions) -> Result<Self> {
        Ok(Self {
            sql: Sql::open(ctx)?,
            storage: ctx.storage().clone(),
            options: Rc::new(options),
            changes: Rc::default(),
            notes: Rc::default(),
            ledger: Rc::default(),
            agenda: Rc::default(),
            destinations: Rc::default(),
            ready: Rc::default(),
            held: Rc::default(),
            callbacks: Rc::default(),
            last_id: Rc::default(),
            open: Rc::default(),
        })
    }

    /// Makes a turn of the task: one transaction, at whose end the counts and stored state are written.
    pub(super) fn turn<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.ledger.set(self.ledger.get().begin());
        let result = self.transaction(|| {
            self.read_destinations()?;
            let value = f()?;
            // A callback may have deleted everything.
            if self.sql.has_tables()? {
                self.write_ledger()?;
            }
            Ok(value)
        });
        self.ledger.set(self.ledger.get().end());
        result
    }

    /// Runs a part of a turn in a transaction, which is rolled back with all its notes, counts and stored state if the
    /// function fails.
    pub(super) fn transaction<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let ledger = self.ledger.get();
        let result = self.notes.unless_undone(|| self.storage.transaction(f));
        if result.is_err() {
            self.ledger.set(ledger);
            self.agenda_changes();
            self.forget_destinations();
            self.ready.borrow_mut().forget_all();
            self.held.borrow_mut().forget_all();
        }
        result
    }

    /// The tables are gone, unless the transaction that deleted them is rolled back.
    pub(super) fn are_deleted(&self) {
        self.ledger.set(self.ledger.get().forget());
        self.agenda_changes();
        self.forget_destinations();
        self.ready.borrow_mut().forget_all();
        self.held.borrow_mut().forget_all();
        self.last_id.set(None);
        self.changes.are_lost();
    }

    /// The message, wherever it is.
    pub(super) fn record(&self, id: i64) -> Result<Option<Record>> {
        for table in ["outbox_messages", "outbox_dead_letters"] {
            let sql = format!("SELECT {RECORD} FROM {table} WHERE id = ?1");
            let found = self.sql.exec(&sql, (id,))?.optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(super) fn must_have(&self, id: i64) -> Result<Record, OutboxError> {
        self.record(id)?.ok_or(OutboxError::NotFound { id })
    }

    pub(super) fn payload(&self, id: i64) -> Result<Option<String>> {
        self.sql
            .exec(
                "SELECT payload FROM outbox_payloads WHERE message = ?1",
                (id,),
            )?
            .optional()
    }

    /// The message with a dedup key: its id, and the hash of its content as enqueued.
    pub(super) fn with_dedup_key(&self, key: &str) -> Result<Option<(i64, Blob)>> {
        self.sql
            .exec(
                "SELECT id, dedup_hash FROM outbox_messages WHERE dedup_key = ?1
                 UNION ALL SELECT id, dedup_hash FROM outbox_dead_letters WHERE dedup_key = ?1",
                (key,),
            )?
            .optional()
    }

    /// Adds a message that waits for its first attempt.
    pub(super) fn insert(&self, new: &New<'_>, now: i64) -> Result<()> {
        let next_at = new.not_before.map_or(now, |at| at.max(now));
        let blocked = match new.ordering_key {
            Some(key) => self.is_key_busy(key)?,
            None => false,
        };
        self.sql.exec(
            "INSERT INTO outbox_messages (kind, status, destination, summary, idempotency_key, dedup_key,
                 ordering_key, priority, schedule, not_before, deadline, blocked, next_at, created_at, updated_at,
                 fan_out, id, dedup_hash, since, origin)
             VALUES (?1, 'queued', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16, ?12, ?17)",
            params![
                new.kind,
                new.destination,
                new.summary,
                new.idempotency_key,
                new.dedup_key,
                new.ordering_key,
                rows(new.priority),
                &new.schedule,
                new.not_before,
                new.deadline,
                blocked,
                next_at,
                now,
                new.fan_out,
                new.id,
                &new.dedup_hash,
                new.origin,
            ],
        )?;
        self.sql.exec(
            "INSERT INTO outbox_payloads (message, payload) VALUES (?1, ?2)",
            (new.id, new.payload),
        )?;
        self.changes.add(new.id);
        self.agenda_has_deadline(new.deadline);
        if blocked {
            return Ok(());
        }
        if next_at <= now && new.payload.len() <= limits::MAX_CLAIMED_PAYLOAD {
            self.held.borrow_mut().hold(new.claim(now));
        }
        let line = turns::line(new.priority, false);
        self.enters(new.destination, line, (next_at, new.id));
        self.look_at(new.destination, new.origin, next_at)
    }

    /// Adds a message to a line of its destination.
    pub(super) fn enters(&self, destination: &str, line: usize, place: Place) {
        self.ready.borrow_mut().add(destination, line, place);
    }

    /// Queues it again.
    pub(super) fn requeue(&self, claim: &Claim, retry: &Retry<'_>, now: i64) -> Result<()> {
        let &Retry { error, unknown, .. } = retry;
        let failing_since = claim.failing_since.or(retry.failing.then_some(now));
        let changes = self.stored_history(claim)? + 1;
        self.agenda_changes();
        self.sql.exec(
            "UPDATE outbox_messages
             SET status = 'queued', next_at = ?2, last_error = ?3, unknown = ?4, attempts = ?5, operation = NULL,
                 operation_since = NULL, poll_errors = 0, updated_at = ?6, changes = ?7, alone = ?8, failing_since = ?9
             WHERE id = ?1",
            (
                claim.id,
                retry.at,
                cut(error.to_owned(), limits::MAX_ERROR_BYTES),
                unknown,
                retry.attempts,
                now,
                changes,
                retry.alone,
                failing_since,
            ),
        )?;
        self.ready.borrow_mut().forget(&claim.destination);
        let event = if unknown { "unknown" } else { "queued" };
        self.note(claim.id, changes, now, event, Some(error))?;
        self.count_failing(claim.failing_since, failing_since)?;
        self.count(Status::Sending, Some(Status::Queued), 1)
    }

    /// The receiver has accepted it and is processing it.
    pub(super) fn accepted(
        &self,
        claim: &Claim,
        operation: &str,
        ask_at: i64,
        now: i64,
    ) -> Result<()> {
        let changes = self.stored_history(claim)? + 1;
        self.agenda_changes();
        self.sql.exec(
            "UPDATE outbox_messages
             SET operation = ?2, operation_since = ?3, next_at = ?4, poll_errors = 0, last_error = NULL, updated_at = ?3,
                 changes = ?5, alone = 0 WHERE id = ?1",
            (claim.id, operation, now, ask_at, changes),
        )?;
        self.note(claim.id, changes, now, "accepted", Some(operation))
    }

    /// The operation is to be polled again. A new error is recorded.
    pub(super) fn ask_again(&self, claim: &Claim, ask: &NextPoll<'_>, now: i64) -> Result<()> {
        let error = ask
            .error
            .map(|error| cut(error.to_owned(), limits::MAX_ERROR_BYTES));
        let (errors, kept) = match &error {
            Some(error) => (
                claim.poll_errors + u32::from(ask.counts),
                Some(error.as_str()),
            ),
            None => (0, None),
        };
        self.agenda_changes();
        let news = kept.filter(|error| claim.last_error.as_deref() != Some(error));
        let changes = claim.changes + i64::from(news.is_some());
        let failing_since = claim.failing_since.or(ask.failing.then_some(now));
        self.sql.exec(
            "UPDATE outbox_messages SET next_at = ?2, poll_errors = ?3, last_error = ?4, updated_at = ?5, changes = ?6,
                 alone = ?7, failing_since = ?8
             WHERE id = ?1",
            (
                claim.id,
                ask.at,
                errors,
                kept,
                now,
                changes,
                ask.alone,
                failing_since,
            ),
        )?;
        self.count_failing(claim.failing_since, failing_since)?;
        match news {
            Some(error) => self.note(claim.id, changes, now, "poll failed", Some(error)),
            None => Ok(()),
        }
    }

    /// Delivered.
    pub(super) fn sent(&self, claims: &[&Claim], now: i64) -> Result<()> {
        for claim in claims {
            self.notes.add(Note::new(Event::Sent, &claim.destination));
        }
        self.agenda_has_finished(now);
        match claims {
            [claim] => self.sql.exec(sent!("= ?1"), (claim.id, now))?,
            some => self.sql.exec(
                sent!("IN (SELECT value FROM json_each(?1))"),
                (ids(some.iter().map(|claim| claim.id)), now),
            )?,
        };
        self.note_all(claims, now, "sent")?;
        self.count(Status::Sending, Some(Status::Sent), rows(claims.len()))?;
        for claim in claims {
            self.count_failing(claim.failing_since, None)?;
            self.unblock(claim.ordering_key.as_deref())?;
        }
        for claim in claims {
            self.tell_end(claim.id, &claim.kind, End::Sent, now)?;
        }
        Ok(())
    }

    /// Makes it a dead letter.
    pub(super) fn bury(&self, letter: &FailedMessage<'_>, now: i64) -> Result<()> {
        let &FailedMessage { id, from, .. } = letter;
        self.store_history(id)?;
        self.agenda_changes();
        let (changes, destination, kind): (i64, String, String) = self
            .sql
            .exec(
                "UPDATE outbox_messages
                 SET status = 'failed', next_at = NULL, blocked = 0, last_error = ?2, unknown = ?3, updated_at = ?4,
                     finished_at = ?4, changes = changes + 1, failing_since = NULL WHERE id = ?1
                 RETURNING changes, destination, kind",
                (
                    id,
                    cut(letter.error.to_owned(), limits::MAX_ERROR_BYTES),
                    letter.unknown,
                    now,
                ),
            )?
            .one()?;
        self.relocate(id, "outbox_messages", "outbox_dead_letters")?;
        let note = Note::warning(Event::Dead, &destination, Some(id), letter.error);
        self.notes.add(note);
        self.note(id, changes, now, "failed", Some(letter.error))?;
        self.count_failing(letter.failing_since, None)?;
        self.count(from, Some(Status::Failed), 1)?;
        self.unblock(letter.ordering_key)?;
        self.tell_end(id, &kind, End::Failed, now)
    }

    /// Finishes a message, or a dead letter, without sending it. One that is being sent may still have its effect.
    pub(super) fn end(&self, record: &Record, status: Status, now: i64) -> Result<()> {
        let id = record.id;
        if record.status == Status::Failed {
            self.relocate(id, "outbox_dead_letters", "outbox_messages")?;
        }
        self.store_history(id)?;
        self.agenda_changes();
        let changes: i64 = self
            .sql
            .exec(
                "UPDATE outbox_messages
                 SET status = ?2, next_at = NULL, blocked = 0, updated_at = ?3, finished_at = ?3, changes = changes + 1,
                     failing_since = NULL, alone = 0, unknown = unknown OR status = 'sending'
                 WHERE id = ?1 RETURNING changes",
                (id, status.as_str(), now),
            )?
            .one()?;
        self.note(id, changes, now, status.as_str(), None)?;
        self.count_failing(record.failing_since, None)?;
        self.count(record.status, Some(status), 1)?;
        self.unblock(record.ordering_key.as_deref())?;
        match status {
            // The object has learned of a dead letter before.
            Status::Discarded => Ok(()),
            _ => self.tell_end(id, &record.kind, End::Failed, now),
        }
    }

    /// Queues a dead letter like a new message, except for its place in the order.
    pub(super) fn revive(&self, record: &Record, now: i64) -> Result<()> {
        let id = record.id;
        self.relocate(id, "outbox_dead_letters", "outbox_messages")?;
        self.agenda_changes();
        self.ready.borrow_mut().forget(&record.destination);
        let blocked = record.ordering_key.is_some();
        let changes: i64 = self
            .sql
            .exec(
                "UPDATE outbox_messages
                 SET status = 'queued', blocked = ?2, next_at = ?3, since = ?3, attempts = 0, operation = NULL, operation_since = NULL,
                     polls = 0, poll_errors = 0, alone = 0, finished_at = NULL, updated_at = ?3, changes = changes + 1,
                     deadline = CASE WHEN deadline <= ?3 THEN NULL ELSE deadline END
                 WHERE id = ?1 RETURNING changes",
                (id, blocked, now),
            )?
            .one()?;
        self.note(id, changes, now, "redriven", None)?;
        self.owes_nothing(id)?;
        self.count(Status::Failed, Some(Status::Queued), 1)?;
        if blocked {
            self.unblock(record.ordering_key.as_deref())
        } else {
            let origin: Option<String> = self
                .sql
                .exec("SELECT origin FROM outbox_messages WHERE id = ?1", (id,))?
                .one()?;
            self.look_at(&record.destination, origin.as_deref(), now)
        }
    }

    /// The number of a message's next idempotency key, and its payload.
    pub(super) fn next_generation(&self, id: i64) -> Result<(i64, String)> {
        self.next_generation_of("outbox_messages", id)
    }

    pub(super) fn renew_key(&self, id: i64, key: &str) -> Result<()> {
        self.renew_key_of("outbox_messages", id, key)
    }

    pub(super) fn next_generation_of(&self, table: &str, id: i64) -> Result<(i64, String)> {
        let sql = format!(
            "SELECT generation + 1, (SELECT payload FROM outbox_payloads WHERE message = id) FROM {table} WHERE id = ?1"
        );
        self.sql.exec(&sql, (id,))?.one()
    }

    pub(super) fn renew_key_of(&self, table: &str, id: i64, key: &str) -> Result<()> {
        let sql = format!(
            "UPDATE {table} SET idempotency_key = ?2, generation = generation + 1, first_attempt_at = NULL, unknown = 0
             WHERE id = ?1"
        );
        self.sql.exec(&sql, (id, key)).map(drop)
    }

    /// Edits a dead letter.
    pub(super) fn edit(&self, id: i64, payload: &str, to: &Accepted, now: i64) -> Result<()> {
        let changes: i64 = self
            .sql
            .exec(
                "UPDATE outbox_dead_letters
                 SET destination = ?2, summary = ?3, unknown = 0, updated_at = ?4, changes = changes + 1, origin = ?5
                 WHERE id = ?1 RETURNING changes",
                (id, &to.destination, &to.summary, now, &to.origin),
            )?
            .one()?;
        self.sql.exec(
            "UPDATE outbox_payloads SET payload = ?2 WHERE message = ?1",
            (id, payload),
        )?;
        self.note(id, changes, now, "edited", None)
    }

    fn relocate(&self, id: i64, from: &str, to: &str) -> Result<()> {
        self.sql.exec(
            &format!(
                "INSERT INTO {to} (id, {COLUMNS}) SELECT id, {COLUMNS} FROM {from} WHERE id = ?1"
            ),
            (id,),
        )?;
        self.sql
            .exec(&format!("DELETE FROM {from} WHERE id = ?1"), (id,))?;
        Ok(())
    }

    /// Removes messages that finished before a time, at most this many. Returns how many.
    pub(super) fn purge(&self, before: i64, limit: usize) -> Result<usize> {
        let gone: Vec<(i64, Status)> = self
            .sql
            .exec(
                "DELETE FROM outbox_messages WHERE id IN (
                     SELECT id FROM outbox_messages WHERE finished_at IS NOT NULL AND finished_at <= ?1
                     ORDER BY finished_at LIMIT ?2)
                 RETURNING id, status",
                (before, rows(limit)),
            )?
            .all()?;
        if gone.is_empty() {
            return Ok(0);
        }
        for (id, _) in &gone {
            self.changes.add(*id);
        }
        let list = ids(gone.iter().map(|(id, _)| *id));
        for sql in [
            "DELETE FROM outbox_history WHERE message IN (SELECT value FROM json_each(?1))",
            "DELETE FROM outbox_payloads WHERE message IN (SELECT value FROM json_each(?1))",
        ] {
            self.sql.exec(sql, (&list,))?;
        }
        for status in [Status::Sent, Status::Canceled, Status::Discarded] {
            let ended = gone.iter().filter(|(_, of)| *of == status).count();
            if ended > 0 {
                self.count(status, None, rows(ended))?;
            }
        }
        Ok(gone.len())
    }

    /// Removes fan-outs that finished before a time, and destinations unused since then, at most this many of each.
    pub(super) fn purge_others(&self, before: i64, limit: usize) -> Result<()> {
        self.write_destinations()?;
        self.sql.exec(
            "DELETE FROM outbox_fan_outs WHERE id IN (
                 SELECT id FROM outbox_fan_outs INDEXED BY outbox_fan_out_ended
                 WHERE status IN ('done', 'canceled') AND updated_at <= ?1 LIMIT ?2)",
            (before, rows(limit)),
        )?;
        self.sql.exec(
            "DELETE FROM outbox_destinations WHERE destination IN (
                 SELECT destination FROM outbox_destinations INDEXED BY outbox_destination_idle
                 WHERE due_at IS NULL AND full_at <= ?1 LIMIT ?2)",
            (before.saturating_mul(1_000), rows(limit)),
        )?;
        self.forget_destinations();
        Ok(())
    }
}

/// Ids as a JSON array: one statement for all of them.
pub(super) fn ids(ids: impl Iterator<Item = i64>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    format!("[{}]", ids.join(","))
}

/// A failed message.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedMessage<'a> {
    pub(super) id: i64,
    pub(super) from: Status,
    pub(super) ordering_key: Option<&'a str>,
    pub(super) error: &'a str,
    pub(super) unknown: bool,
    /// Since when it would have been given up.
    pub(super) failing_since: Option<i64>,
}

/// How a message is retried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry<'a> {
    pub(super) at: i64,
    pub(super) error: &'a str,
    pub(super) unknown: bool,
    /// Its number of attempts.
    pub(super) attempts: u32,
    /// Whether it must be attempted alone.
    pub(super) alone: bool,
    /// Whether it would be given up, if messages were.
    pub(super) failing: bool,
}

/// How an operation is polled again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextPoll<'a> {
    pub(super) at: i64,
    /// The error of the poll.
    pub(super) error: Option<&'a str>,
    /// Whether the error counts towards giving the operation up.
    pub(super) counts: bool,
    /// As of [`Retry`].
    pub(super) alone: bool,
    pub(super) failing: bool,
}
