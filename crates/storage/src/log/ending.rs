//! The end of the log: it is closed, it fails, or its owner gives it up.

use super::{Log, Progress};
use crate::error::{Error, Result};

impl Log {
    /// Returns an error if the log has failed or was closed.
    pub(crate) fn must_be_open(&self) -> Result<()> {
        if self.failed() || self.state.lock().closed {
            return Err(self.failure());
        }
        Ok(())
    }

    /// Returns an error if the log has failed.
    pub(crate) fn must_not_have_failed(&self) -> Result<()> {
        if self.failed() {
            return Err(self.failure());
        }
        Ok(())
    }

    /// Rejects appends from now on; the writer ends after writing what was appended.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Fails the log, because of an error here or in the caller: nothing becomes durable any more.
    pub(crate) fn poison(&self, why: &str) {
        if self.end(why) {
            tracing::error!(
                why,
                "the commit log has failed: nothing more is acknowledged until the process restarts and recovers"
            );
        }
    }

    /// The same, because the caller has ended in order. Returns false if it had failed or ended before.
    pub(crate) fn end(&self, why: &str) -> bool {
        {
            let _state = self.state.lock();
            if self.failure.set(why.to_owned()).is_err() {
                return false;
            }
            self.announcer.note(Progress::Failed);
        }
        self.work.notify_all();
        self.progress.notify_all();
        self.announcer.notify();
        true
    }

    pub(super) fn failure(&self) -> Error {
        Error::log_failed(self.failure.get().map_or("it was closed", String::as_str))
    }
}
