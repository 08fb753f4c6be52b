//! What an outbox has to do next, as its indexes tell, in one statement.

use abide::Result;

use super::{meta::Meta, rows::Rows};

/// The first of each kind of work. Times are milliseconds since 1970; none if there is no work of the kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agenda {
    /// When a destination is to be looked at.
    pub(super) send: Option<i64>,
    /// When an operation is to be asked about.
    pub(super) poll: Option<i64>,
    /// When something is to be tried, or asked about, alone.
    pub(super) alone: Option<i64>,
    /// The deadline of a message that waits.
    pub(super) deadline: Option<i64>,
    /// When a message ended that is still kept.
    pub(super) finished: Option<i64>,
    /// True if a fan-out runs.
    pub(super) fan_out: bool,
}

impl Rows {
    /// What is to be done, and what the outbox knows of itself.
    pub(super) fn agenda(&self) -> Result<(Meta, Agenda)> {
        type Row = (
            i64,
            i64,
            i64,
            Option<i64>,
            Option<i64>,
            Option<i64>,
            Option<i64>,
            Option<i64>,
            bool,
        );
        const AGENDA: &str = "SELECT full_at, next_tick, last_seen,
                 (SELECT min(due_at) FROM outbox_destinations WHERE due_at IS NOT NULL),
                 (SELECT min(next_at) FROM outbox_messages INDEXED BY outbox_poll
                  WHERE status = 'sending' AND next_at IS NOT NULL AND alone = 0),
                 (SELECT min(next_at) FROM outbox_messages INDEXED BY outbox_alone
                  WHERE alone = 1 AND blocked = 0 AND next_at IS NOT NULL),
                 (SELECT min(deadline) FROM outbox_messages INDEXED BY outbox_deadline
                  WHERE deadline IS NOT NULL AND status = 'queued'),
                 (SELECT min(finished_at) FROM outbox_messages WHERE finished_at IS NOT NULL),
                 EXISTS (SELECT 1 FROM outbox_fan_outs WHERE status = 'running')
             FROM outbox_meta";
        let row: Row = self.sql.exec(AGENDA, ())?.one()?;
        let (full_at, next_tick, last_seen, send, poll, alone, deadline, finished, fan_out) = row;
        let meta = Meta {
            full_at,
            next_tick,
            last_seen,
        };
        let agenda = Agenda {
            send,
            poll,
            alone,
            deadline,
            finished,
            fan_out,
        };
        Ok((meta, agenda))
    }
}
