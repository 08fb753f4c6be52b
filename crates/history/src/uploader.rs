//! The task that keeps the copy in the store up to date.
//!
//! Contract: it never ends by a failure of the store or of a file, but tries again until it succeeds; it ends when it is stopped, or when the
//! history belongs to another directory. It asks nothing of the store while its source's version stays the same. It may be dropped
//! at any moment: what it was doing is then finished, or left over, by the next.

use std::{path::Path, sync::Arc, time::SystemTime};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Duration, Instant, sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    Error, Failing, Options, Probe, Session, Source, Status, StatusWatch, Store, Traffic,
    backoff::Backoff,
    claim::Claim,
    directory::Directory,
    publisher::{Outcome, Publisher, on_thread},
    transfer::{self, Transfer},
};

/// A running task. Dropping it ends the task.
#[derive(Debug)]
pub struct Uploader {
    task: JoinHandle<()>,
    status: watch::Receiver<Status>,
    is_closing: watch::Sender<bool>,
    store: Store,
}

struct Task {
    store: Store,
    directory: Directory,
    session: Session,
    source: Arc<dyn Source>,
    options: Options,
    status: watch::Sender<Status>,
    is_closing: watch::Receiver<bool>,
    publisher: Option<Publisher>,
}

/// The outcome of a round.
enum Round {
    /// The store has what the source had.
    Done,
    /// The source has something else by now, or nothing at the moment.
    Again,
}

impl Uploader {
    /// Tries the store, and whose the history in it is, before a node starts. The uploader does the same before its first upload, so
    /// a node may start although this fails, unless [`Error::is_refusal`] says that the history is another's.
    ///
    /// # Errors
    /// [`Error::Owned`] if the history belongs to another directory and is not to be taken over, and what the store or the
    /// directory's own files say.
    pub async fn check(store: &Store, dir: &Path, options: &Options) -> Result<Probe, Error> {
        let directory = Directory::new(dir);
        let record = on_thread(move || directory.read()).await?;
        let probe = Probe::run(store).await?;
        Claim::check(store, &record, options.take_over).await?;
        Ok(probe)
    }

    /// Starts copying, in the present async runtime. `dir` is the data directory, in which `history.json` says who it is.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn start(
        store: Store,
        dir: &Path,
        source: Arc<dyn Source>,
        options: Options,
    ) -> Result<Self, Error> {
        let (status, watched) = watch::channel(Status::default());
        let (is_closing, closing) = watch::channel(false);
        let task = Task {
            store: store.clone(),
            directory: Directory::new(dir),
            session: Session::random()?,
            source,
            options,
            status,
            is_closing: closing,
            publisher: None,
        };
        Ok(Self {
            task: tokio::spawn(task.run()),
            status: watched,
            is_closing,
            store,
        })
    }

    /// How far it is.
    pub fn status(&self) -> Status {
        self.watch().status()
    }

    /// The status, also after the uploader has ended.
    pub fn watch(&self) -> StatusWatch {
        StatusWatch(self.status.clone())
    }

    /// Waits until the status is as wanted, or the task has ended, and returns it.
    pub async fn wait_for(&self, wanted: impl FnMut(&Status) -> bool) -> Status {
        self.watch().wait_for(wanted).await
    }

    /// What the store has been asked.
    pub fn traffic(&self) -> Traffic {
        self.store.traffic()
    }

    /// Copies what is new now, within a time, and ends. True if the store then has all that the source had.
    pub async fn finish(mut self, time: Duration) -> bool {
        self.is_closing.send_replace(true);
        let ended = timeout(time, &mut self.task).await.is_ok();
        let status = self.status();
        ended && status.failing.is_none() && status.superseded.is_none()
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Task {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.options.patience);
        let mut copied = None;
        let mut started: Option<Instant> = None;
        loop {
            if let Some(started) = started {
                self.until(started + self.options.interval).await;
            }
            while copied == Some(self.source.version()) && !self.is_closing() {
                self.until(Instant::now() + self.options.poll).await;
            }
            let version = self.source.version();
            if copied == Some(version) {
                return; // closing, with nothing new
            }
            let now = Instant::now();
            match self.round().await {
                Ok(Round::Done) => {
                    backoff.succeeded();
                    copied = Some(version);
                    started = Some(now);
                    self.status.send_modify(|status| {
                        status.version = copied;
                        status.failing = None;
                    });
                }
                Ok(Round::Again) => {
                    backoff.succeeded();
                    self.status.send_modify(|status| status.failing = None);
                    sleep(self.options.poll).await;
                }
                Err(error) if error.is_refusal() => {
                    let text = error.to_string();
                    warn!("{text}");
                    self.status.send_modify(|status| {
                        status.superseded = Some(text);
                        status.failing = None;
                    });
                    return;
                }
                Err(error) => {
                    let wait = backoff.failed();
                    self.failed(&error, backoff.failures());
                    if self.is_closing() {
                        return;
                    }
                    self.until(Instant::now() + wait).await;
                }
            }
        }
    }

    fn is_closing(&self) -> bool {
        *self.is_closing.borrow()
    }

    /// Waits until a time, or until it is to finish.
    async fn until(&mut self, time: Instant) {
        let closed = self.is_closing.wait_for(|is_closing| *is_closing);
        let _ = tokio::time::timeout_at(time, closed).await;
    }

    fn failed(&self, error: &Error, attempts: u32) {
        let text = error.to_string();
        self.status.send_modify(|status| {
            let since = status.failing.as_ref().map(|failing| failing.since);
            if since.is_none() {
                warn!("copying the history fails, and is tried again until it succeeds: {text}");
            }
            status.failing = Some(Failing {
                since: since.unwrap_or_else(SystemTime::now),
                attempts,
                error: text,
            });
        });
    }

    /// Copies what there is now.
    async fn round(&mut self) -> Result<Round, Error> {
        let mut publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => self.open().await?,
        };
        let result = self.copy(&mut publisher).await;
        self.status
            .send_modify(|status| status.published = publisher.published());
        self.publisher = Some(publisher);
        result
    }

    async fn open(&self) -> Result<Publisher, Error> {
        let probe = Probe::run(&self.store).await?;
        let refuses = Some(probe.refuses_overwrites);
        self.status
            .send_modify(|status| status.refuses_overwrites = refuses);
        let (store, directory) = (self.store.clone(), self.directory.clone());
        Publisher::open(store, directory, self.session, &self.options).await
    }

    async fn copy(&mut self, publisher: &mut Publisher) -> Result<Round, Error> {
        let source = Arc::clone(&self.source);
        let Some(snapshot) = on_thread(move || Ok(source.snapshot())).await? else {
            return Ok(Round::Again);
        };
        if publisher.has(&snapshot) {
            self.status.send_modify(|status| {
                status.backlog_runs = 0;
                status.backlog_bytes = 0;
            });
            return Ok(Round::Done);
        }
        // Others are to see at once whose it is, and not only when all is uploaded.
        if publisher.is_unclaimed {
            publisher.stage().await?;
        }
        let transfer = transfer::run(publisher, &snapshot, &self.options, &self.status).await?;
        if transfer == Transfer::Vanished {
            return Ok(Round::Again);
        }
        let outcome = publisher.publish(&snapshot).await?;
        if let Some(published) = publisher.published() {
            info!(
                number = published.number,
                bytes = published.bytes,
                "copied the history"
            );
        }
        self.status
            .send_modify(|status| status.published = publisher.published());
        // A failure here must not undo that the copy is complete: it is tried again with the next.
        let undeleted = publisher.collect().await.err();
        let undeleted = undeleted.map(|error| error.to_string());
        self.status.send_modify(|status| {
            if let Some(error) = undeleted.as_ref().filter(|_| status.undeleted.is_none()) {
                warn!("what the store no longer needs could not be deleted: {error}");
            }
            status.undeleted = undeleted;
        });
        Ok(if outcome == Outcome::Published {
            Round::Done
        } else {
            Round::Again
        })
    }
}
