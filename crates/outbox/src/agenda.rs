//! What an outbox has to do next, as its indexes tell, in one statement.
//!
//! Contract: what is kept of that in memory is never later than what the indexes tell: whatever makes a time earlier says so. A time that
//! is too early costs a look at the indexes. So nobody need know of transactions that are undone.

use abide::Result;

use super::rows::Rows;

/// The first of each kind of work but attempts. Times are milliseconds since 1970; none if there is no work of the kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agenda {
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
    /// What is to be done, or may be.
    pub(super) fn agenda(&self) -> Result<Agenda> {
        match self.agenda.get() {
            Some(agenda) => Ok(agenda),
            None => self.read_agenda(),
        }
    }

    /// What is to be done.
    pub(super) fn read_agenda(&self) -> Result<Agenda> {
        type Row = (Option<i64>, Option<i64>, Option<i64>, Option<i64>, bool);
        const AGENDA: &str = "SELECT
                 (SELECT min(next_at) FROM outbox_messages INDEXED BY outbox_poll
                  WHERE status = 'sending' AND next_at IS NOT NULL AND alone = 0),
                 (SELECT min(next_at) FROM outbox_messages INDEXED BY outbox_alone
                  WHERE alone = 1 AND blocked = 0 AND next_at IS NOT NULL),
                 (SELECT min(deadline) FROM outbox_messages INDEXED BY outbox_deadline
                  WHERE deadline IS NOT NULL AND status = 'queued'),
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

    /// Something may have to be done earlier than was known.
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

    /// A message has ended that is kept.
    pub(super) fn agenda_has_finished(&self, at: i64) {
        if let Some(mut agenda) = self.agenda.get() {
            agenda.finished = Some(agenda.finished.map_or(at, |finished| finished.min(at)));
            self.agenda.set(Some(agenda));
        }
    }
}
