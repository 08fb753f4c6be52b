//! What an outbox knows of itself: its one row of `outbox_meta`, which counts its messages by status.

use abide::Result;

use super::{Counts, Status, limits, rows::Rows};
use crate::numbers::rows;

/// What passes keep in the one row of `outbox_meta`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub(super) full_at: i64,
    pub(super) next_tick: i64,
    pub(super) last_seen: i64,
}

impl Rows {
    /// The time of the object's own alarm.
    pub(super) fn own_alarm(&self) -> Result<Option<i64>> {
        self.sql
            .exec("SELECT own_alarm FROM outbox_meta", ())?
            .one()
    }

    pub(super) fn set_own_alarm(&self, at: Option<i64>) -> Result<()> {
        self.sql
            .exec("UPDATE outbox_meta SET own_alarm = ?1", (at,))?;
        Ok(())
    }

    pub(super) fn save_meta(&self, meta: Meta) -> Result<()> {
        self.sql.exec(
            "UPDATE outbox_meta SET full_at = ?1, next_tick = ?2, last_seen = ?3",
            (meta.full_at, meta.next_tick, meta.last_seen),
        )?;
        Ok(())
    }

    /// Gives the outbox's bucket a token back, which is worth so many microseconds.
    pub(super) fn refund(&self, interval: i64) -> Result<()> {
        self.sql
            .exec("UPDATE outbox_meta SET full_at = full_at - ?1", (interval,))?;
        Ok(())
    }

    pub(super) fn counts(&self) -> Result<Counts> {
        self.sql
            .exec(
                "SELECT queued, sending, sent, failed, canceled, discarded, failing FROM outbox_meta",
                (),
            )?
            .one()
    }

    /// Since when the oldest message could be tried that is not at its end, among those that were enqueued first.
    pub(super) fn oldest(&self, now: i64) -> Result<Option<i64>> {
        const OLDEST: &str = "SELECT min(since) FROM (
                 SELECT * FROM (SELECT since FROM outbox_messages INDEXED BY outbox_status
                     WHERE status <> 'sending' AND status = 'queued' AND id > 0 ORDER BY id LIMIT ?1)
                 UNION ALL SELECT * FROM (SELECT since FROM outbox_messages INDEXED BY outbox_in_flight
                     WHERE status = 'sending' AND next_at IS NULL AND id > 0 ORDER BY id LIMIT ?1)
                 UNION ALL SELECT * FROM (SELECT since FROM outbox_messages INDEXED BY outbox_operation
                     WHERE status = 'sending' AND next_at IS NOT NULL AND id > 0 ORDER BY id LIMIT ?1))
             WHERE since <= ?2";
        self.sql
            .exec(OLDEST, (rows(limits::MAX_LOOKED_AT), now))?
            .one()
    }

    /// Counts a new message. Returns how many are queued.
    pub(super) fn count_new(&self) -> Result<i64> {
        self.notes.holding_changes();
        self.sql
            .exec(
                "UPDATE outbox_meta SET queued = queued + 1 RETURNING queued",
                (),
            )?
            .one()
    }

    /// Counts a message that is failing now, or was before.
    pub(super) fn count_failing(&self, before: Option<i64>, after: Option<i64>) -> Result<()> {
        let more = i64::from(after.is_some()) - i64::from(before.is_some());
        if more != 0 {
            self.sql
                .exec("UPDATE outbox_meta SET failing = failing + ?1", (more,))?;
        }
        Ok(())
    }

    /// Counts so many messages that have gone from one status to another; to none if they are removed.
    pub(super) fn count(&self, from: Status, to: Option<Status>, by: i64) -> Result<()> {
        self.notes.holding_changes();
        let more =
            |status: Status| by * (i64::from(to == Some(status)) - i64::from(from == status));
        self.sql.exec(
            "UPDATE outbox_meta SET queued = queued + ?1, sending = sending + ?2, sent = sent + ?3, failed = failed + ?4,
                 canceled = canceled + ?5, discarded = discarded + ?6",
            (
                more(Status::Queued),
                more(Status::Sending),
                more(Status::Sent),
                more(Status::Failed),
                more(Status::Canceled),
                more(Status::Discarded),
            ),
        )?;
        Ok(())
    }
}
