//! Operations on messages: cancel, edit a dead letter, redrive, discard. Each is recorded in the message's history.

use abide::Result;
use serde::{Deserialize, Serialize};

use super::{
    DeadLetterFilter, Outbox, OutboxError, OutboxMessage, Record, Status, inner::Inner, limits,
    rows::FailedMessage,
};

/// The statuses of a message that has not ended.
const UNFINISHED: [Status; 2] = [Status::Queued, Status::Sending];

/// The result of an operation on several dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkResult {
    /// How many were affected.
    pub count: usize,
    /// True if more match the filter: call again, with `after` of the filter set to `last`.
    pub more: bool,
    /// The last of them. A message that has failed again meanwhile follows it only if it was enqueued later.
    pub last: Option<i64>,
}

impl Outbox {
    /// Cancels a message that has not ended: one that waits, is being attempted, or is polled. An attempt or a poll in
    /// flight is interrupted; the canceled message is then `unknown`, because it may still have its effect, and so is
    /// one that its receiver has accepted.
    pub fn cancel(&self, id: i64) -> Result<Record, OutboxError> {
        self.make_room(|| {
            self.act(id, &UNFINISHED, "canceled", |record, now| {
                self.0.rows.end(record, Status::Canceled, now)?;
                self.0.ends(record);
                Ok(())
            })
        })
    }

    /// Makes a dead letter of a message that has not ended, to edit, redrive or discard it: for one whose receiver has
    /// accepted it and never finishes, for example. An attempt or a poll in flight is interrupted. As a dead letter it
    /// is `unknown` if it may still have its effect, and keeps its idempotency key when it is redriven.
    pub fn give_up(&self, id: i64) -> Result<Record, OutboxError> {
        self.act(id, &UNFINISHED, "given up", |record, now| {
            let letter = FailedMessage {
                id,
                from: record.status,
                ordering_key: record.ordering_key.as_deref(),
                error: "an operator gave it up",
                unknown: record.unknown || record.status == Status::Sending,
                failing_since: record.failing_since,
            };
            self.0.rows.bury(&letter, now)?;
            self.0.ends(record);
            Ok(())
        })
    }

    /// Edits a dead letter. As a different message it gets a new idempotency key, unless its content is unchanged.
    pub fn edit(&self, id: i64, payload: &str) -> Result<Record, OutboxError> {
        self.act(id, &[Status::Failed], "edited", |record, now| {
            let message = OutboxMessage::from_json(record.kind.clone(), payload);
            let accepted = self.0.check(&message, now)?;
            let handler = self.0.registry.handler(&record.kind)?;
            let before = self.0.rows.payload(id)?;
            let is_same = before.is_some_and(|before| handler.says_the_same(&before, payload));
            if is_same {
                // The same message, which may have had its effect.
                return Ok(());
            }
            self.0.rows.edit(id, payload, &accepted, now)?;
            self.0.renew_key_of_dead(id, now)?;
            Ok(())
        })
    }

    /// Redrives a dead letter, with a fresh count of attempts. It keeps its place among the messages with its ordering
    /// key. It also keeps its idempotency key if a response was lost, so it may have had its effect, or if its handler
    /// says so ([`Deliver::keeps_key`](super::Deliver::keeps_key)); otherwise it gets a new one, because receivers
    /// remember a failure under the old.
    pub fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.act(id, &[Status::Failed], "redriven", |record, now| {
            self.0.rows.revive(record, now)?;
            let handler = self.0.registry.handler(&record.kind).ok();
            let keeps = handler.is_some_and(|handler| handler.keeps_key());
            if !record.unknown && !keeps {
                self.0.renew_key(id, now)?;
            }
            Ok(())
        })
    }

    /// Discards a dead letter. It is kept as long as a sent message.
    pub fn discard(&self, id: i64) -> Result<Record, OutboxError> {
        self.make_room(|| {
            self.act(id, &[Status::Failed], "discarded", |record, now| {
                self.0.rows.end(record, Status::Discarded, now)?;
                Ok(())
            })
        })
    }

    /// Redrives dead letters, oldest first, at most 1,000 per call: all of these or, if one is refused, none.
    pub fn redrive_all(&self, filter: &DeadLetterFilter) -> Result<BulkResult, OutboxError> {
        self.sweep(filter, |id| self.redrive(id))
    }

    /// Discards dead letters, likewise.
    pub fn discard_all(&self, filter: &DeadLetterFilter) -> Result<BulkResult, OutboxError> {
        self.make_room(|| self.sweep(filter, |id| self.discard(id)))
    }

    /// Runs a function that frees space but first writes history: a full outbox accepts it.
    fn make_room<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.rows.storage.with_reserve(f)
    }

    fn act(
        &self,
        id: i64,
        wanted: &[Status],
        verb: &str,
        f: impl FnOnce(&Record, i64) -> Result<(), OutboxError>,
    ) -> Result<Record, OutboxError> {
        let inner = &self.0;
        let record = inner.rows.must_have(id)?;
        if !wanted.contains(&record.status) {
            return Err(OutboxError::Conflict {
                id,
                status: record.status,
                wanted: wanted.to_vec(),
                verb: verb.to_owned(),
            });
        }
        let now = inner.now();
        inner.rows.storage.transaction(|| {
            f(&record, now)?;
            // Messages that waited for it are unblocked.
            self.carry_on(now, now)?;
            inner.rows.must_have(id)
        })
    }

    fn sweep(
        &self,
        filter: &DeadLetterFilter,
        mut act: impl FnMut(i64) -> Result<Record, OutboxError>,
    ) -> Result<BulkResult, OutboxError> {
        let limit = match filter.limit {
            0 => limits::MAX_BATCH,
            limit => limit.min(limits::MAX_BATCH),
        };
        let mut found = self.find_dead(filter, "ASC", limit + 1)?;
        let more = found.len() > limit;
        found.truncate(limit);
        self.0.rows.storage.transaction(|| {
            for record in &found {
                act(record.id)?;
            }
            Ok(BulkResult {
                count: found.len(),
                more,
                last: found.last().map(|record| record.id),
            })
        })
    }
}

impl Inner {
    /// A message ends by other means than the result of its attempt, which is interrupted if there is one: by the task,
    /// when the transaction that ends it is complete.
    fn ends(&self, record: &Record) {
        if record.status == Status::Sending && record.next_at.is_none() {
            self.ended.borrow_mut().insert(record.id);
        }
    }
}
