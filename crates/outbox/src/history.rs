//! The history of messages: the events of each, the first and the newest 99.
//!
//! A message that is enqueued, attempted once and sent has no rows of history: its own row has the three times. The
//! first event that these cannot express stores the earlier events, and from then on each event is stored. `changes` is
//! the number of the last stored event; 0 if there is none.

use abide::Result;

use super::{
    Change,
    claim::Claim,
    limits,
    rows::{Rows, ids},
};
use abide_component::texts::cut;

/// The history that a message's row expresses if no other events have happened, in order.
macro_rules! told_by_row {
    () => {
        "SELECT 1 AS seq, created_at AS at, 'queued' AS event, changes FROM outbox_messages WHERE id = ?1
         UNION ALL SELECT 2, coalesce(first_attempt_at, updated_at), 'sending', changes FROM outbox_messages
             WHERE id = ?1 AND attempts > 0
         UNION ALL SELECT 3, finished_at, status, changes FROM outbox_messages WHERE id = ?1 AND finished_at IS NOT NULL"
    };
}

impl Rows {
    /// Records an event of a message. `seq` is its number among the message's events, from 1.
    pub(super) fn note(
        &self,
        message: i64,
        seq: i64,
        at: i64,
        event: &str,
        detail: Option<&str>,
    ) -> Result<()> {
        self.changes.add(message);
        let detail = detail.map(|detail| cut(detail.to_owned(), limits::MAX_DETAIL_BYTES));
        self.sql.exec(
            "INSERT INTO outbox_history (message, seq, at, event, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
            (message, seq, at, event, &detail),
        )?;
        self.shorten(message, seq)
    }

    /// Records the same event for those of many messages whose history is stored. Their rows already have the new
    /// number of events.
    pub(super) fn note_all(&self, claims: &[&Claim], at: i64, event: &str) -> Result<()> {
        for claim in claims {
            self.changes.add(claim.id);
        }
        let stored = || claims.iter().filter(|claim| claim.changes > 0);
        if stored().next().is_none() {
            return Ok(());
        }
        self.sql.exec(
            "INSERT INTO outbox_history (message, seq, at, event, detail)
             SELECT outbox_messages.id, changes, ?2, ?3, CASE WHEN status = 'sending' AND attempts > 1 THEN 'attempt ' || attempts END
             FROM json_each(?1) JOIN outbox_messages ON outbox_messages.id = value",
            (ids(stored().map(|claim| claim.id)), at, event),
        )?;
        // A claim may be one change behind its row.
        for claim in stored().filter(|claim| claim.changes >= limits::MAX_HISTORY) {
            let changes = "SELECT changes FROM outbox_messages WHERE id = ?1";
            self.shorten(claim.id, self.sql.exec(changes, (claim.id,))?.one()?)?;
        }
        Ok(())
    }

    /// Truncates a message's history, which now has `seq` events.
    fn shorten(&self, message: i64, seq: i64) -> Result<()> {
        if seq > limits::MAX_HISTORY {
            // Keep the first event.
            self.sql.exec(
                "DELETE FROM outbox_history WHERE message = ?1 AND seq = ?2 AND seq > 1",
                (message, seq - limits::MAX_HISTORY + 1),
            )?;
        }
        Ok(())
    }

    /// Stores the events that a message's row expresses, before an event that it cannot express.
    pub(super) fn store_history(&self, message: i64) -> Result<()> {
        self.sql.exec(
            concat!(
                "INSERT INTO outbox_history (message, seq, at, event) SELECT ?1, seq, at, event FROM (",
                told_by_row!(),
                ") WHERE changes = 0"
            ),
            (message,),
        )?;
        self.sql.exec(
            "UPDATE outbox_messages SET changes = 1 + (attempts > 0) WHERE id = ?1 AND changes = 0",
            (message,),
        )?;
        Ok(())
    }

    /// The same of a claim. Returns the number of its last event.
    pub(super) fn stored_history(&self, claim: &Claim) -> Result<i64> {
        if claim.changes > 0 {
            return Ok(claim.changes);
        }
        self.store_history(claim.id)?;
        Ok(2)
    }

    pub(super) fn history(&self, message: i64) -> Result<Vec<Change>> {
        let stored: Vec<Change> = self
            .sql
            .exec(
                "SELECT at, event, detail FROM outbox_history WHERE message = ?1 ORDER BY seq",
                (message,),
            )?
            .all()?;
        if !stored.is_empty() {
            return Ok(stored);
        }
        self.sql
            .exec(
                concat!(
                    "SELECT at, event, NULL AS detail FROM (",
                    told_by_row!(),
                    ")"
                ),
                (message,),
            )?
            .all()
    }
}
