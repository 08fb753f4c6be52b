//! The single row of `outbox_meta`: the outbox's state and the numbers of its messages by status.

use abide::Result;

use super::{Counts, Status, limits, rows::Rows};
use abide_component::numbers::rows;

/// The state that passes store in the row of `outbox_meta`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub(super) full_at: i64,
    pub(super) next_tick: i64,
    /// Polls that the current tick may still make.
    pub(super) polls_left: u32,
    /// The sum of the steps back of the wall clock with which the waits are stored.
    pub(super) set_back: i64,
}

/// The changes of a turn, written to the row at its end in one statement, and the cached row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    is_turn: bool,
    meta: Option<Meta>,
    /// Whether `meta` differs from the row.
    changed: bool,
    /// The change of the number of messages in each status, in the order of [`Status::ALL`].
    more: [i64; 6],
    /// The change of the number of failing messages.
    failing: i64,
}

impl Ledger {
    /// Starts a turn. The state of an unfinished turn is discarded.
    pub(super) fn begin(self) -> Self {
        Self {
            is_turn: true,
            meta: self.meta.filter(|_| !self.changed),
            ..Self::default()
        }
    }

    /// The row is not what it was.
    pub(super) fn forget(self) -> Self {
        Self {
            is_turn: self.is_turn,
            ..Self::default()
        }
    }

    pub(super) fn end(self) -> Self {
        Self {
            is_turn: false,
            ..self
        }
    }

    /// True if there are no changes.
    fn is_written(&self) -> bool {
        !self.changed && self.failing == 0 && self.more == [0; 6]
    }
}

impl Rows {
    /// Whether this runs inside a task turn.
    pub(super) fn is_turn(&self) -> bool {
        self.ledger.get().is_turn
    }

    pub(super) fn meta(&self) -> Result<Meta> {
        const META: &str = "SELECT full_at, next_tick, polls_left, set_back FROM outbox_meta";
        let mut ledger = self.ledger.get();
        if let Some(meta) = ledger.meta {
            return Ok(meta);
        }
        let (full_at, next_tick, polls_left, set_back) = self.sql.exec(META, ())?.one()?;
        let meta = Meta {
            full_at,
            next_tick,
            polls_left,
            set_back,
        };
        ledger.meta = Some(meta);
        self.ledger.set(ledger);
        Ok(meta)
    }

    /// Stores this at the end of the turn.
    pub(super) fn save_meta(&self, meta: Meta) {
        let ledger = self.ledger.get();
        self.ledger.set(Ledger {
            meta: Some(meta),
            changed: true,
            ..ledger
        });
    }

    /// Returns a token to the outbox's bucket, worth this many microseconds.
    pub(super) fn refund(&self, interval: i64) -> Result<()> {
        let meta = self.meta()?;
        self.save_meta(Meta {
            full_at: meta.full_at.saturating_sub(interval),
            ..meta
        });
        Ok(())
    }

    /// Writes the changes of the turn.
    pub(super) fn write_ledger(&self) -> Result<()> {
        let meta = self.meta()?;
        let mut ledger = self.ledger.get();
        if ledger.is_written() {
            return Ok(());
        }
        let [queued, sending, sent, failed, canceled, discarded] = ledger.more;
        let failing = ledger.failing;
        // If the write fails, the transaction and its counts are rolled back.
        (ledger.changed, ledger.failing, ledger.more) = (false, 0, [0; 6]);
        self.ledger.set(ledger);
        self.sql.exec(
            "UPDATE outbox_meta SET full_at = ?1, next_tick = ?2, set_back = ?3, queued = queued + ?4, sending = sending + ?5,
                 sent = sent + ?6, failed = failed + ?7, canceled = canceled + ?8, discarded = discarded + ?9,
                 failing = failing + ?10, polls_left = ?11",
            (
                meta.full_at,
                meta.next_tick,
                meta.set_back,
                queued,
                sending,
                sent,
                failed,
                canceled,
                discarded,
                failing,
                meta.polls_left,
            ),
        )?;
        Ok(())
    }

    pub(super) fn counts(&self) -> Result<Counts> {
        let counts: Counts = self
            .sql
            .exec(
                "SELECT queued, sending, sent, failed, canceled, discarded, failing FROM outbox_meta",
                (),
            )?
            .one()?;
        let Ledger {
            more: [queued, sending, sent, failed, canceled, discarded],
            failing,
            ..
        } = self.ledger.get();
        Ok(Counts {
            queued: counts.queued + queued,
            sending: counts.sending + sending,
            sent: counts.sent + sent,
            failed: counts.failed + failed,
            canceled: counts.canceled + canceled,
            discarded: counts.discarded + discarded,
            failing: counts.failing + failing,
        })
    }

    /// Since when the oldest unfinished message could be attempted, among those that were enqueued first.
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

    /// Counts a new message. Returns its id; `None` if the outbox is full.
    pub(super) fn count_new(&self, max: i64) -> Result<Option<i64>> {
        self.notes.holding_changes();
        let [more, ..] = self.ledger.get().more;
        let counted = self.sql.exec(
            "UPDATE outbox_meta SET queued = queued + 1 WHERE queued < ?1",
            (max.saturating_sub(more),),
        )?;
        if counted.rows_written() == 0 {
            return Ok(None);
        }
        let last = match self.last_id.get() {
            Some(last) => last,
            None => self.read_last_id()?,
        };
        // An id whose transaction is rolled back is not reused.
        self.last_id.set(Some(last + 1));
        Ok(Some(last + 1))
    }

    /// The number of a new log of changes, higher than that of all before.
    #[cfg(feature = "server")]
    pub(super) fn next_log(&self, now: i64) -> Result<i64> {
        let next = "UPDATE outbox_meta SET log = max(log + 1, ?1) RETURNING log";
        self.sql.exec(next, (now,))?.one()
    }

    fn read_last_id(&self) -> Result<i64> {
        let last: Option<i64> = self
            .sql
            .exec(
                "SELECT max(seq) FROM sqlite_sequence WHERE name = 'outbox_messages'",
                (),
            )?
            .one()?;
        Ok(last.unwrap_or(0))
    }

    /// Counts a message that starts or stops failing.
    pub(super) fn count_failing(&self, before: Option<i64>, after: Option<i64>) -> Result<()> {
        let mut ledger = self.ledger.get();
        ledger.failing += i64::from(after.is_some()) - i64::from(before.is_some());
        self.ledger.set(ledger);
        self.counted()
    }

    /// Moves the count of messages from one status to another; to `None` if they are removed.
    pub(super) fn count(&self, from: Status, to: Option<Status>, by: i64) -> Result<()> {
        self.notes.holding_changes();
        let mut ledger = self.ledger.get();
        for (more, status) in ledger.more.iter_mut().zip(Status::ALL) {
            *more += by * (i64::from(to == Some(status)) - i64::from(from == status));
        }
        self.ledger.set(ledger);
        self.counted()
    }

    /// Counts outside a turn are written at once: their transaction may be rolled back, and memory would not be.
    fn counted(&self) -> Result<()> {
        if self.is_turn() {
            return Ok(());
        }
        self.write_ledger()
    }
}
