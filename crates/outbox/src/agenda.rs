//! The next due work of an outbox, read from its indexes in one statement.
//!
//! Contract: the cached times are never later than those of the indexes: whatever makes a time earlier updates the
//! cache. A time that is too early costs one look at the indexes. So transactions that are rolled back need no
//! handling.

use abide::Result;

use super::rows::Rows;

/// The first of each kind of work except attempts. Times are milliseconds since 1970; `None` if there is no work of the
/// kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agenda {
    /// When an operation is to be polled.
    pub(super) poll: Option<i64>,
    /// When something is to be attempted or polled alone.
    pub(super) alone: Option<i64>,
    /// The deadline of a waiting message.
    pub(super) deadline: Option<i64>,
    /// When a kept message finished.
    pub(super) finished: Option<i64>,
    /// True if a fan-out runs.
    pub(super) fan_out: bool,
}

impl Rows {
    /// The cached times.
    pub(super) fn agenda(&self) -> Result<Agenda> {
        match self.agenda.get() {
            Some(agenda) => Ok(agenda),
            None => self.read_agenda(),
        }
    }

    /// Reads the times.
    pub(super) fn read_agenda(&self) -> Result<Agenda> {
        type Row = (Option<i64>, Option<i64>, Option<i64>, Option<i64>, bool);
        const AGENDA: &str = "SELECT
                 (SELECT min(next_at) FROM outbox_messages INDEXED BY outbox_poll
                  WHERE status = 'sending' AND next_at IS NOT NULL AND alone = 0),
                 (SELECT min(next_at) FROM outbox_messages INDEXED BY outbox_alone
                  WHERE alone = 1 AND blocked = 0 AND next_at IS NOT NULL),
                 (SELECT min(deadline) FROM outbox_messages INDEXED BY outbox_deadline
                  WHERE deadline IS NOT NULL AND next_at IS NOT NULL),
                 (SELECT min(finished_at) FROM outbox_messages WHERE finished_at IS NOT NULL),
                 EXISTS (SELECT 1 FROM outbox_fan_outs WHERE status = 'running')";
        let row: Row = self.sql.exec(AGENDA, ())?.one()?;
        let (poll, alone, deadline, finished, fan_out) = row;
        let agenda = Agenda {
            poll,
            alone,
            deadline,
            finished,
            fan_out,
        };
        self.agenda.set(Some(agenda));
        Ok(agenda)
    }

    /// Work may be due earlier than cached.
    pub(super) fn agenda_changes(&self) {
        self.agenda.set(None);
    }

    /// A message with this deadline waits, if it has one.
    pub(super) fn agenda_has_deadline(&self, deadline: Option<i64>) {
        if let Some(mut agenda) = self.agenda.get() {
            agenda.deadline = [agenda.deadline, deadline].into_iter().flatten().min();
            self.agenda.set(Some(agenda));
        }
    }

    /// A message has finished and is kept.
    pub(super) fn agenda_has_finished(&self, at: i64) {
        if let Some(mut agenda) = self.agenda.get() {
            agenda.finished = Some(agenda.finished.map_or(at, |finished| finished.min(at)));
            self.agenda.set(Some(agenda));
        }
    }
}
