//! What people do with messages: take one back, mend a dead letter, send it again, or give it up. Each such act is part
//! of the message's history.

use crate::broken::{Variant, broken};
use abide::Result;
use serde::{Deserialize, Serialize};

use super::{DeadLetterFilter, Message, Outbox, OutboxError, Record, Status, limits};

/// What was done to several dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// To how many.
    pub count: usize,
    /// True if others fit the filter: call again, with `after` of the filter set to `last`.
    pub more: bool,
    /// The last of them. Those that have failed again meanwhile come behind it only if they were enqueued later.
    pub last: Option<i64>,
}

impl Outbox {
    /// Takes a message back that waits for an attempt. One that is on its way cannot be taken back.
    pub fn cancel(&self, id: i64) -> Result<Record, OutboxError> {
        self.make_room(|| {
            self.act(id, Status::Queued, "canceled", |record, now| {
                self.0.rows.end(record, Status::Canceled, now)?;
                Ok(())
            })
        })
    }

    /// Changes what a dead letter says. Being another message, it gets a new idempotency key, unless it says the same as before.
    pub fn edit(&self, id: i64, payload: &str) -> Result<Record, OutboxError> {
        self.act(id, Status::Failed, "edited", |record, now| {
            let message = Message::from_json(record.kind.clone(), payload);
            let accepted = self.0.check(&message, now)?;
            let handler = self.0.registry.handler(&record.kind)?;
            let before = self.0.rows.payload(id)?;
            let is_same = before.is_some_and(|before| handler.says_the_same(&before, payload));
            if is_same && !broken(Variant::SameEditRenews) {
                // It is the same message, which may have had its effect.
                return Ok(());
            }
            self.0.rows.edit(id, payload, &accepted, now)?;
            self.0.renew_key_of_dead(id, now)?;
            Ok(())
        })
    }

    /// Sends a dead letter again, with all its attempts before it. It keeps its place among the messages with its
    /// ordering key, and its idempotency key if an answer was lost, so that it may have had its effect, or if its handler says
    /// so ([`Deliver::keeps_key`](super::Deliver::keeps_key)); otherwise it gets a new one, because receivers remember a
    /// failure under the old.
    pub fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.act(id, Status::Failed, "redriven", |record, now| {
            self.0.rows.revive(record, now)?;
            let handler = self.0.registry.handler(&record.kind).ok();
            let keeps = handler.is_some_and(|handler| handler.keeps_key());
            if !record.unknown && !keeps {
                self.0.renew_key(id, now)?;
            }
            Ok(())
        })
    }

    /// Gives a dead letter up for good. It is kept as long as what was sent.
    pub fn discard(&self, id: i64) -> Result<Record, OutboxError> {
        self.make_room(|| {
            self.act(id, Status::Failed, "discarded", |record, now| {
                self.0.rows.end(record, Status::Discarded, now)?;
                Ok(())
            })
        })
    }

    /// Redrives dead letters, oldest first, at most 1,000 in a call: all of those or, if one is refused, none.
    pub fn redrive_all(&self, filter: &DeadLetterFilter) -> Result<Swept, OutboxError> {
        self.sweep(filter, |id| self.redrive(id))
    }

    /// Discards dead letters, likewise.
    pub fn discard_all(&self, filter: &DeadLetterFilter) -> Result<Swept, OutboxError> {
        self.make_room(|| self.sweep(filter, |id| self.discard(id)))
    }

    /// Does what makes room, although it writes first what has happened: an outbox that is full takes it.
    fn make_room<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.rows.storage.with_reserve(f)
    }

    fn act(
        &self,
        id: i64,
        wanted: Status,
        verb: &str,
        f: impl FnOnce(&Record, i64) -> Result<(), OutboxError>,
    ) -> Result<Record, OutboxError> {
        let inner = &self.0;
        let record = inner.rows.must_have(id)?;
        if record.status != wanted {
            return Err(OutboxError::Conflict {
                id,
                status: record.status,
                wanted,
                verb: verb.to_owned(),
            });
        }
        let now = inner.now();
        inner.rows.storage.transaction_sync(|| {
            f(&record, now)?;
            // What waited behind it may go.
            self.carry_on(now, now)?;
            inner.rows.must_have(id)
        })
    }

    fn sweep(
        &self,
        filter: &DeadLetterFilter,
        mut act: impl FnMut(i64) -> Result<Record, OutboxError>,
    ) -> Result<Swept, OutboxError> {
        let limit = match filter.limit {
            0 => limits::MAX_BATCH,
            limit => limit.min(limits::MAX_BATCH),
        };
        let mut found = self.find_dead(filter, "ASC", limit + 1)?;
        let more = found.len() > limit;
        found.truncate(limit);
        self.0.rows.storage.transaction_sync(|| {
            for record in &found {
                act(record.id)?;
            }
            Ok(Swept {
                count: found.len(),
                more,
                last: found.last().map(|record| record.id),
            })
        })
    }
}
