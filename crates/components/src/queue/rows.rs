//! The messages of a shard: accepted, claimed, settled.
//!
//! Contract: a message is due at a time. A claim sets that time to its own expiry, so an unsettled claim expires
//! without further work; an expired claim settles nothing.

use abide::{Result, Sql, Storage};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    Delivery, MessageId, QueueError, QueueMessage, QueueOptions, Sent, limits, meta::Meta,
};
use abide_component::numbers::{millis, rows};
use abide_component::texts::cut;

/// The tables of a shard.
pub(super) struct Rows {
    pub(super) storage: Storage,
    pub(super) sql: Sql,
    pub(super) queue: String,
    pub(super) shard: u32,
}

/// A message that is due.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Due {
    pub(super) id: i64,
    #[serde(rename = "due_at")]
    pub(super) since: i64,
    pub(super) attempts: u32,
    pub(super) bytes: i64,
    /// True if its newest attempt was cut off: the process or the object stopped.
    pub(super) lost: bool,
    /// True if that attempt was made with nothing else of the shard in flight.
    pub(super) alone: bool,
}

/// Messages that a consumer has.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) number: i64,
    /// True if nothing else of the shard is in flight.
    pub(super) alone: bool,
    pub(super) deliveries: Vec<Delivery>,
}

impl Due {
    /// True if it may be the cause of a crash and its next attempt is the last of `most`: that attempt is made alone,
    /// and the message is given up only if it is cut off as well.
    pub(super) fn is_suspect(&self, most: u32) -> bool {
        self.lost && self.attempts.saturating_add(1) >= most
    }

    /// True if the last of its `most` attempts was cut off.
    pub(super) fn is_exhausted(&self, most: u32) -> bool {
        let is_to_blame = !self.lost || self.alone;
        self.attempts >= most && is_to_blame
    }
}

impl Rows {
    pub(super) fn meta(&self) -> Result<Meta> {
        self.sql
            .exec(
                "SELECT messages, bytes, dead, keys, consumed, claims, set_back, failures, rest_until, throttled, paused FROM queue_meta",
                (),
            )?
            .one()
    }

    /// Changes the row.
    pub(super) fn change_meta<T>(&self, change: impl FnOnce(&mut Meta) -> T) -> Result<T> {
        let before = self.meta()?;
        let mut meta = before;
        let result = change(&mut meta);
        if meta != before {
            self.save_meta(&meta)?;
        }
        Ok(result)
    }

    pub(super) fn save_meta(&self, meta: &Meta) -> Result<()> {
        let counts = (
            meta.messages,
            meta.bytes,
            meta.dead,
            meta.keys,
            meta.consumed,
            meta.claims,
            meta.set_back,
            meta.failures,
            meta.rest_until,
            meta.throttled,
            meta.paused,
        );
        self.sql.exec(
            "UPDATE queue_meta SET messages = ?1, bytes = ?2, dead = ?3, keys = ?4, consumed = ?5, claims = ?6, set_back = ?7,
                 failures = ?8, rest_until = ?9, throttled = ?10, paused = ?11",
            counts,
        )?;
        Ok(())
    }

    pub(super) fn id(&self, number: i64) -> MessageId {
        MessageId {
            shard: self.shard,
            number,
        }
    }

    /// Accepts messages, all or none. Call it in a transaction.
    pub(super) fn take(
        &self,
        messages: &[QueueMessage],
        options: &QueueOptions,
        now: i64,
    ) -> Result<Vec<Sent>, QueueError> {
        let mut meta = self.meta()?;
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            message.check()?;
            if let Some(known) = self.known(message)? {
                sent.push(Sent {
                    id: self.id(known),
                    duplicate: true,
                });
                continue;
            }
            let bytes = rows(message.body.len());
            let is_full = meta.messages + meta.dead >= options.max_messages
                || meta.bytes.saturating_add(bytes) > options.max_bytes;
            if is_full {
                return Err(self.full(&meta));
            }
            let number = self.insert(message, now)?;
            meta.messages += 1;
            meta.bytes += bytes;
            if let Some(key) = &message.dedup_key {
                self.sql.exec(
                    "INSERT INTO queue_keys VALUES (?1, ?2, ?3, ?4)",
                    (key, content(message), number, now),
                )?;
                meta.keys += 1;
            }
            sent.push(Sent {
                id: self.id(number),
                duplicate: false,
            });
        }
        meta.keys -= self.forget_keys(meta.keys, now, options)?;
        self.save_meta(&meta)?;
        Ok(sent)
    }

    fn full(&self, meta: &Meta) -> QueueError {
        QueueError::Full {
            queue: self.queue.clone(),
            shard: self.shard,
            messages: meta.messages,
            dead: meta.dead,
            bytes: meta.bytes,
        }
    }

    fn insert(&self, message: &QueueMessage, now: i64) -> Result<i64> {
        let due_at = now.saturating_add(message.delay);
        let bytes = rows(message.body.len());
        let number: i64 = self
            .sql
            .exec(
                "INSERT INTO queue_messages (due_at, bytes, key, sent_at) VALUES (?1, ?2, ?3, ?4) RETURNING id",
                (due_at, bytes, &message.key, now),
            )?
            .one()?;
        self.sql.exec(
            "INSERT INTO queue_bodies VALUES (?1, ?2)",
            (number, &message.body),
        )?;
        Ok(number)
    }

    /// The message that was accepted with this one's dedup key.
    fn known(&self, message: &QueueMessage) -> Result<Option<i64>, QueueError> {
        let Some(key) = &message.dedup_key else {
            return Ok(None);
        };
        let known: Option<(i64, serde_bytes::ByteBuf)> = self
            .sql
            .exec(
                "SELECT message, hash FROM queue_keys WHERE key = ?1",
                (key,),
            )?
            .optional()?;
        match known {
            None => Ok(None),
            Some((number, hash)) if *hash == content(message) => Ok(Some(number)),
            Some((number, _)) => Err(QueueError::KeyReused {
                id: self.id(number),
            }),
        }
    }

    /// Removes dedup keys that are too old or too many; returns how many.
    fn forget_keys(&self, keys: i64, now: i64, options: &QueueOptions) -> Result<i64> {
        if keys == 0 {
            return Ok(0);
        }
        let before = now.saturating_sub(millis(options.keep_keys));
        let most = rows(limits::MAX_FORGOTTEN);
        let gone = self.sql.exec(
            "DELETE FROM queue_keys WHERE key IN (SELECT key FROM queue_keys WHERE at < ?1 ORDER BY at LIMIT ?2)",
            (before, most),
        )?;
        let mut gone = gone.rows_written().cast_signed();
        let over = keys - gone - limits::MAX_KEYS;
        if over > 0 {
            gone += self
                .sql
                .exec(
                    "DELETE FROM queue_keys WHERE key IN (SELECT key FROM queue_keys ORDER BY at LIMIT ?1)",
                    (over.min(most),),
                )?
                .rows_written()
                .cast_signed();
        }
        Ok(gone)
    }

    /// The first messages that are due, in their order; without those that are [to be attempted
    /// alone](Due::is_suspect), if there are `most` attempts.
    pub(super) fn due(&self, now: i64, limit: usize, most: Option<u32>) -> Result<Vec<Due>> {
        let due: Vec<Due> = self
            .sql
            .exec(
                "SELECT id, due_at, attempts, bytes, claim <> 0 AS lost, alone FROM queue_messages
                 WHERE due_at <= ?1 AND (claim = 0 OR attempts < ?3) ORDER BY due_at, id LIMIT ?2",
                (
                    now,
                    rows(limit),
                    most.map_or(i64::MAX, |most| i64::from(most) - 1),
                ),
            )?
            .all()?;
        Ok(due)
    }

    /// When the first message is due.
    pub(super) fn first_due(&self) -> Result<Option<i64>> {
        self.sql
            .exec("SELECT min(due_at) FROM queue_messages", ())?
            .one()
    }

    /// When the oldest message was sent.
    pub(super) fn oldest(&self) -> Result<Option<i64>> {
        self.sql
            .exec("SELECT sent_at FROM queue_messages ORDER BY id LIMIT 1", ())?
            .optional()
    }

    /// Claims messages for a consumer until a time.
    pub(super) fn claim(
        &self,
        messages: &[Due],
        number: i64,
        alone: bool,
        until: i64,
    ) -> Result<Claim> {
        type Row = (i64, u32, Option<String>, i64, String);
        let mut deliveries = Vec::with_capacity(messages.len());
        for message in messages {
            let (id, attempt, key, sent_at, body): Row = self
                .sql
                .exec(
                    "UPDATE queue_messages SET due_at = ?2, claim = ?3, alone = ?4, attempts = attempts + 1 WHERE id = ?1
                     RETURNING id, attempts, key, sent_at, (SELECT body FROM queue_bodies WHERE message = queue_messages.id)",
                    (message.id, until, number, alone),
                )?
                .one()?;
            deliveries.push(Delivery {
                id: self.id(id),
                key,
                body,
                attempt,
                sent_at,
            });
        }
        Ok(Claim {
            number,
            alone,
            deliveries,
        })
    }

    /// The newest claim of a message.
    pub(super) fn claim_of(&self, number: i64) -> Result<i64> {
        self.sql
            .exec("SELECT claim FROM queue_messages WHERE id = ?1", (number,))?
            .one()
    }

    /// Removes messages that were consumed, if the claim still holds them; returns how many, and their bytes.
    pub(super) fn consumed(&self, numbers: &[i64], claim: i64) -> Result<(i64, i64)> {
        let (mut count, mut total) = (0, 0);
        for number in numbers {
            let bytes: Option<i64> = self
                .sql
                .exec(
                    "DELETE FROM queue_messages WHERE id = ?1 AND claim = ?2 RETURNING bytes",
                    (number, claim),
                )?
                .optional()?;
            if let Some(bytes) = bytes {
                self.sql
                    .exec("DELETE FROM queue_bodies WHERE message = ?1", (number,))?;
                count += 1;
                total += bytes;
            }
        }
        Ok((count, total))
    }

    /// Schedules a retry of a message, if the claim still holds it.
    pub(super) fn put_back(&self, number: i64, claim: i64, at: i64, error: &str) -> Result<bool> {
        let error = cut(error.to_owned(), limits::MAX_ERROR_BYTES);
        let changed = self.sql.exec(
            "UPDATE queue_messages SET due_at = ?3, claim = 0, last_error = ?4 WHERE id = ?1 AND claim = ?2",
            (number, claim, at, error),
        )?;
        Ok(changed.rows_written() > 0)
    }

    /// Puts back a message that was claimed and not delivered.
    pub(super) fn give_back(&self, number: i64, claim: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE queue_messages SET due_at = ?3, claim = 0, attempts = max(attempts - 1, 0) WHERE id = ?1 AND claim = ?2",
            (number, claim, now),
        )?;
        Ok(())
    }

    /// The same as [`put_back`](Self::put_back), without counting the attempt.
    pub(super) fn put_back_untried(
        &self,
        number: i64,
        claim: i64,
        at: i64,
        error: &str,
    ) -> Result<()> {
        if self.put_back(number, claim, at, error)? {
            self.sql.exec(
                "UPDATE queue_messages SET attempts = max(attempts - 1, 0) WHERE id = ?1",
                (number,),
            )?;
        }
        Ok(())
    }

    /// The last error of the longest-waiting message, if any.
    pub(super) fn last_error(&self) -> Result<Option<String>> {
        self.sql
            .exec(
                "SELECT last_error FROM queue_messages WHERE last_error IS NOT NULL ORDER BY due_at DESC LIMIT 1",
                (),
            )?
            .optional()
    }

    /// Shifts waits, after the wall clock was set back by this much.
    pub(super) fn clock_went_back(&self, by: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE queue_messages SET due_at = max(due_at - ?1, ?2) WHERE due_at > ?2",
            (by, now),
        )?;
        Ok(())
    }
}

/// A fingerprint of a message: the beginning of a hash of its key and body. It distinguishes it from others with the
/// same dedup key.
fn content(message: &QueueMessage) -> Vec<u8> {
    let mut hash = Sha256::new();
    let key = message.key.as_deref().unwrap_or_default();
    hash.update((key.len() as u64).to_le_bytes());
    hash.update(key);
    hash.update(&message.body);
    hash.finalize()[..16].to_vec()
}
