//! The dead letters of a shard: messages that were given up.

use abide::Result;
use serde::Deserialize;

use super::{DeadLetter, limits, rows::Rows};
use abide_component::numbers::rows;
use abide_component::texts::cut;

#[derive(Deserialize)]
struct Row {
    body: String,
    key: Option<String>,
    attempts: u32,
    error: String,
    sent_at: i64,
    died_at: i64,
}

impl Rows {
    /// Gives a message up, if the claim still holds it.
    pub(super) fn bury(&self, number: i64, claim: i64, error: &str, now: i64) -> Result<bool> {
        let error = cut(error.to_owned(), limits::MAX_ERROR_BYTES);
        let buried = self.sql.exec(
            "INSERT INTO queue_dead_letters (id, attempts, bytes, key, sent_at, died_at, error)
             SELECT id, attempts, bytes, key, sent_at, ?3, ?4 FROM queue_messages WHERE id = ?1 AND claim = ?2",
            (number, claim, now, error),
        )?;
        if buried.rows_written() == 0 {
            return Ok(false);
        }
        self.sql
            .exec("DELETE FROM queue_messages WHERE id = ?1", (number,))?;
        Ok(true)
    }

    /// Dead letters, newest first: at most this many, or as many as fit in [`limits::MAX_SEND_BYTES`].
    pub(super) fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>> {
        let newest: Vec<(i64, i64)> = self
            .sql
            .exec(
                "SELECT id, bytes FROM queue_dead_letters ORDER BY died_at DESC, id DESC LIMIT ?1",
                (rows(limit),),
            )?
            .all()?;
        let mut total = 0;
        let fitting = newest.into_iter().take_while(|(_, bytes)| {
            total += bytes;
            total <= rows(limits::MAX_SEND_BYTES)
        });
        fitting
            .map(|(number, _)| self.dead_letter(number))
            .collect()
    }

    fn dead_letter(&self, number: i64) -> Result<DeadLetter> {
        let row: Row = self
            .sql
            .exec(
                "SELECT body, key, attempts, error, sent_at, died_at
                 FROM queue_dead_letters JOIN queue_bodies ON message = id WHERE id = ?1",
                (number,),
            )?
            .one()?;
        Ok(DeadLetter {
            id: self.id(number),
            body: row.body,
            key: row.key,
            attempts: row.attempts,
            error: row.error,
            sent_at: row.sent_at,
            died_at: row.died_at,
        })
    }

    /// Dead letters that died up to a time, oldest first: their numbers.
    pub(super) fn dead_until(&self, time: i64, limit: usize) -> Result<Vec<i64>> {
        self.sql
            .exec(
                "SELECT id FROM queue_dead_letters WHERE died_at <= ?1 ORDER BY died_at, id LIMIT ?2",
                (time, rows(limit)),
            )?
            .all()
    }

    /// When a message died, if it is a dead letter.
    pub(super) fn died_at(&self, number: i64) -> Result<Option<i64>> {
        let died = "SELECT died_at FROM queue_dead_letters WHERE id = ?1";
        self.sql.exec(died, (number,))?.optional()
    }

    /// Turns a dead letter into a due message, like a new one. True if there was one.
    pub(super) fn redrive(&self, number: i64, now: i64) -> Result<bool> {
        let moved = self.sql.exec(
            "INSERT INTO queue_messages (id, due_at, bytes, key, sent_at, last_error)
             SELECT id, ?2, bytes, key, sent_at, error FROM queue_dead_letters WHERE id = ?1",
            (number, now),
        )?;
        if moved.rows_written() == 0 {
            return Ok(false);
        }
        self.sql
            .exec("DELETE FROM queue_dead_letters WHERE id = ?1", (number,))?;
        Ok(true)
    }

    /// Removes a dead letter; returns its bytes, if there was one.
    pub(super) fn discard(&self, number: i64) -> Result<Option<i64>> {
        let bytes: Option<i64> = self
            .sql
            .exec(
                "DELETE FROM queue_dead_letters WHERE id = ?1 RETURNING bytes",
                (number,),
            )?
            .optional()?;
        if bytes.is_some() {
            self.sql
                .exec("DELETE FROM queue_bodies WHERE message = ?1", (number,))?;
        }
        Ok(bytes)
    }
}
