//! How far an uploader is.

use std::time::SystemTime;

use tokio::sync::watch;

/// The state of an uploader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The version of the source of which everything is in the store.
    pub version: Option<u64>,
    /// The newest manifest with a complete copy. `None` until the store has been read, or if there is none.
    pub published: Option<Published>,
    /// Runs that are to be uploaded.
    pub backlog_runs: u64,
    /// Their length, without the parts that are in the store.
    pub backlog_bytes: u64,
    /// How much of the log is in the store.
    pub copied: Option<Copied>,
    /// Since when copying runs fails, and why. `None` if the last attempt succeeded.
    pub failing: Option<Failing>,
    /// The same of shipping the tail.
    pub not_shipping: Option<Failing>,
    /// The history belongs to another directory, and nothing is uploaded any more: what to do.
    pub superseded: Option<String>,
    /// Why what the store no longer needs could not be deleted, the last time. Copies are complete nevertheless.
    pub undeleted: Option<String>,
    /// False if the store replaces objects that exist: two owners would not notice each other. `None` until it was tried.
    pub refuses_overwrites: Option<bool>,
}

impl Failing {
    /// One more attempt has failed.
    pub(crate) fn again(
        failing: Option<&Self>,
        now: SystemTime,
        attempts: u32,
        error: String,
    ) -> Self {
        let since = failing.map(|failing| failing.since);
        Self {
            since: since.unwrap_or(now),
            attempts,
            error,
        }
    }
}

/// Reads the status of an uploader, also after the uploader has ended.
#[derive(Clone, Debug)]
pub struct StatusWatch(pub(crate) watch::Receiver<Status>);

impl StatusWatch {
    /// How far the uploader is, or was.
    pub fn status(&self) -> Status {
        self.0.borrow().clone()
    }

    /// Waits until the status is as wanted, or the uploader has ended, and returns it.
    pub async fn wait_for(&self, wanted: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.0.clone();
        if let Ok(status) = status.wait_for(wanted).await {
            return status.clone();
        }
        self.status()
    }
}

/// A manifest in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Its number.
    pub number: u64,
    /// Everything that was acknowledged before this time is in it, by the clock of its writer.
    pub time: SystemTime,
    /// How many runs it lists.
    pub runs: u64,
    /// Their length.
    pub bytes: u64,
}

/// What can be restored from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// The log up to this position.
    pub position: u64,
    /// Everything that was acknowledged before this time, by this machine's clock.
    pub time: SystemTime,
}

/// A failure that is being retried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failing {
    /// When it failed first since the last success.
    pub since: SystemTime,
    /// How often in a row.
    pub attempts: u32,
    /// Why, the last time.
    pub error: String,
}
