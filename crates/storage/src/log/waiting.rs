//! Waiting for the log: until something is durable, or there is room.

use super::{Log, Transaction};
use crate::error::Result;
use crate::ident::Lsn;
use crate::timing;
use std::time::Duration;

impl Log {
    /// Returns when everything up to `lsn` is durable on this machine. `write` is for a log without a writer thread.
    pub(crate) fn wait_durable(&self, lsn: Lsn, write: bool) -> Result<()> {
        while self.durable() < lsn {
            if self.failed() {
                return Err(self.failure());
            }
            if write {
                self.write_group();
                continue;
            }
            let state = self.state.lock();
            if self.durable() >= lsn || self.failed() {
                continue;
            }
            if state.writer_ended {
                return Err(self.failure());
            }
            drop(
                self.progress
                    .wait_timeout(state, Duration::from_millis(100)),
            );
        }
        Ok(())
    }

    /// Returns when everything up to `lsn` is durable and, if that is awaited, copied.
    ///
    /// # Errors
    /// The log has failed, or is closed before that.
    pub(crate) fn wait_released(&self, lsn: Lsn) -> Result<()> {
        self.wait_durable(lsn, false)?;
        loop {
            let state = self.state.lock();
            if self.released() >= lsn {
                return Ok(());
            }
            if state.closed || self.failed() {
                drop(state);
                return Err(self.failure());
            }
            drop(
                self.progress
                    .wait_timeout(state, Duration::from_millis(100)),
            );
        }
    }

    /// Waits until something beyond `lsn` is durable here, the log fails or is closed, or a time has passed.
    pub(crate) fn wait_beyond(&self, lsn: Lsn, timeout: Duration) {
        let begun = timing::now();
        let mut state = self.state.lock();
        while let Some(left) = timeout.checked_sub(begun.elapsed())
            && self.durable() <= lsn
            && !state.closed
            && !self.failed()
        {
            state = self.progress.wait_timeout(state, left);
        }
    }

    /// Waits briefly for a group to be written or a segment to be added.
    pub(crate) fn wait_for_progress(&self, timeout: Duration) {
        let state = self.state.lock();
        drop(self.progress.wait_timeout(state, timeout));
    }

    /// Wakes all threads that wait for space.
    pub(crate) fn notify_progress(&self) {
        self.progress.notify_all();
    }

    /// Waits briefly for the space that a transaction lacks.
    pub(crate) fn wait_for_room(&self, transaction: &Transaction, timeout: Duration) {
        let mut state = self.state.lock();
        let free = state.room.look(transaction.ticket, &transaction.lengths);
        if free.is_err() && !state.closed && !self.failed() {
            drop(self.progress.wait_timeout(state, timeout));
        }
    }
}
