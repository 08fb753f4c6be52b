//! The task that ships the tail of the log.
//!
//! Contract: as the uploader's, it never ends by a failure of the store, and asks nothing of it while the log does not grow. It tells
//! the source how much of the log can be restored, and never more than that.

use std::{sync::Arc, time::SystemTime};

use tokio::{sync::watch, time::Duration};
use tracing::warn;

use crate::{
    Copied, Error, Failing, Options, Source, Status, backoff::Backoff, directory::Notes,
    machine::Machine, tail::Tail,
};

/// The most of a part. A transaction is a chain of records, which are shorter, so it may take several parts.
const PART_BYTES: usize = 8 << 20;

/// The longest wait after failures in a row.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module. Clones share it.
#[derive(Clone)]
pub(crate) struct Shipper {
    pub tail: Arc<Tail>,
    pub notes: Arc<Notes>,
    pub source: Arc<dyn Source>,
    pub options: Options,
    pub status: watch::Sender<Status>,
}

impl Shipper {
    fn machine(&self) -> &dyn Machine {
        self.tail.machine()
    }

    /// Ships until the history is another's, and returns why.
    pub(crate) async fn run(self) -> Error {
        self.report(None);
        let Some(interval) = self.options.ship else {
            return std::future::pending().await;
        };
        let mut backoff = Backoff::new(PATIENCE.min(self.options.patience));
        loop {
            let wait = match self.ship_or_tell(backoff.failures() + 1).await {
                None => {
                    backoff.succeeded();
                    interval
                }
                Some(error) if error.is_refusal() => return error,
                Some(_) => backoff.failed(self.machine()),
            };
            if self.options.eager && backoff.failures() == 0 {
                self.grown().await;
            } else {
                self.machine().sleep(wait).await;
            }
        }
    }

    /// Waits until there may be something to ship.
    async fn grown(&self) {
        let end = self.source.end();
        if !self.tail.has(end) || self.tail.is_crowded() {
            // All that is not shipped is in runs, which are being uploaded.
            self.machine().sleep(self.options.poll).await;
        } else {
            self.source.beyond(end).await;
        }
    }

    /// Ships what is new, and returns and tells why it could not.
    pub(crate) async fn ship_or_tell(&self, attempts: u32) -> Option<Error> {
        let error = self.ship().await.err();
        self.status.send_modify(|status| {
            let Some(error) = error.as_ref().filter(|error| !error.is_refusal()) else {
                status.not_shipping = None;
                return;
            };
            let text = error.to_string();
            if status.not_shipping.is_none() {
                warn!("shipping the log fails, and is tried again until it succeeds: {text}");
            }
            let before = status.not_shipping.as_ref();
            status.not_shipping = Some(Failing::again(
                before,
                self.machine().wall_time(),
                attempts,
                text,
            ));
        });
        error
    }

    async fn ship(&self) -> Result<(), Error> {
        if self.options.ship.is_none() {
            return Ok(());
        }
        loop {
            // Everything that was acknowledged before is before the end.
            let now = self.machine().wall_time();
            let end = self.source.end();
            if self.tail.has(end) {
                self.report((self.tail.reach() >= Some(end)).then_some(now));
                return Ok(());
            }
            let (source, from) = (Arc::clone(&self.source), self.tail.end());
            let part = self.machine().on_thread(move || {
                let part = source.part(from, PART_BYTES);
                part.map_err(|error| Error::store("reading the log".to_owned(), error))
            });
            let Some(part) = part.await? else {
                return Ok(());
            };
            self.tail.begin(&self.notes).await?;
            self.tail.append(part).await?;
            self.report(None);
        }
    }

    /// Tells how much can be restored, and if it is known, that this is everything that was acknowledged before a time.
    pub(crate) fn report(&self, time: Option<SystemTime>) {
        let Some(position) = self.tail.reach() else {
            return;
        };
        self.status.send_modify(|status| {
            let before = status.copied.map(|copied| copied.time);
            let time = time.max(before).unwrap_or(SystemTime::UNIX_EPOCH);
            status.copied = Some(Copied { position, time });
        });
        self.source.copied(position);
    }
}
