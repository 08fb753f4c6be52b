//! The task that keeps the copy in the store up to date.
//!
//! Contract: it never ends by a failure of the store or of a file, but tries again until it succeeds; it ends when it is stopped, or when the
//! history belongs to another directory. It asks nothing of the store while its source's version stays the same. It may be dropped
//! at any moment: what it was doing is then finished, or left over, by the next.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::JoinHandle};
use tracing::{info, warn};

use crate::{
    Error, Failing, Machine, Options, Probe, Session, Source, Status, StatusWatch, Store,
    StoredRun, Traffic,
    backoff::Backoff,
    directory::{Directory, Notes},
    publisher::{Outcome, Publisher},
    shipper::Shipper,
    transfer::{self, Transfer},
};

/// A running task. Dropping it ends the task.
pub struct Uploader {
    task: JoinHandle<()>,
    status: watch::Receiver<Status>,
    is_closing: watch::Sender<bool>,
    store: Store,
    source: Arc<dyn Source>,
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
    /// What ships the tail, once it is known whose the history is.
    shipper: watch::Sender<Option<Shipper>>,
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
    pub async fn check(
        store: &Store,
        dir: &Path,
        source: &dyn Source,
        options: &Options,
    ) -> Result<Probe, Error> {
        let notes = Notes::open(Directory::new(dir), store.shared_machine()).await?;
        let notes = Arc::new(notes);
        let record = notes.record().await;
        if !options.take_over && record.is_superseded(store) {
            return Err(Error::Owned(format!(
                "the history at {} was taken over from this directory: its objects live on another node. Only if that is gone for \
                 good, start this one with --take-over",
                store.location()
            )));
        }
        let probe = Probe::run(store).await?;
        options.must_suit(probe, store)?;
        let session = Session::random(store.machine())?;
        Publisher::open(store.clone(), notes, session, options, source.end()).await?;
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
            session: Session::random(store.machine())?,
            source: Arc::clone(&source),
            options,
            status,
            is_closing: closing,
            publisher: None,
            shipper: watch::Sender::new(None),
        };
        Ok(Self {
            task: tokio::spawn(task.run()),
            status: watched,
            is_closing,
            store,
            source,
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
        let machine = self.store.machine();
        let end = machine.now() + time;
        let ended = machine.until(end, &mut self.task).await.is_some();
        let status = self.status();
        let is_copied = status
            .copied
            .is_some_and(|copied| copied.position >= self.source.end());
        ended && is_copied && status.failing.is_none() && status.superseded.is_none()
    }
}

/// Ships what the last copy of the runs lacks.
async fn finish(shipper: watch::Sender<Option<Shipper>>) {
    let shipper = shipper.borrow().clone();
    if let Some(shipper) = shipper {
        shipper.ship_or_tell(1).await;
    }
}

/// The history belongs to another.
fn superseded(status: &watch::Sender<Status>, error: &Error) {
    let text = error.to_string();
    warn!("{text}");
    status.send_modify(|status| {
        status.superseded = Some(text);
        status.failing = None;
        status.not_shipping = None;
    });
}

impl fmt::Debug for Uploader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Uploader");
        shown.field("store", &self.store).finish_non_exhaustive()
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Task {
    async fn run(mut self) {
        let mut opened = self.shipper.subscribe();
        let shipping = async move {
            let opened = opened.wait_for(Option::is_some).await;
            let shipper = opened.ok().and_then(|opened| opened.clone());
            match shipper {
                Some(shipper) => shipper.run().await,
                None => std::future::pending().await,
            }
        };
        let (status, shipper) = (self.status.clone(), self.shipper.clone());
        let ended = tokio::select! {
            // In this order, so that a simulation can repeat it.
            biased;
            refused = self.copy_runs() => refused,
            refused = shipping => Some(refused),
        };
        let Some(refused) = ended else {
            finish(shipper).await;
            return;
        };
        if let Error::Owned(_) = &refused {
            self.remember().await;
        }
        superseded(&status, &refused);
    }

    /// Writes down that the history was taken over, for starts at which the store cannot tell.
    async fn remember(&self) {
        let shipper = self.shipper.borrow().clone();
        let Some(Shipper { notes, .. }) = shipper else {
            return; // it never was its own
        };
        let place = self.store.location().to_string();
        let noted = notes.change(|record| record.superseded_at = Some(place));
        if let Err(error) = noted.await {
            warn!("it could not be noted that the history was taken over: {error}");
        }
    }

    /// Copies until it is to end, or until the history is another's, and returns why.
    async fn copy_runs(&mut self) -> Option<Error> {
        let mut backoff = Backoff::new(self.options.patience);
        let mut copied = None;
        let mut started: Option<Instant> = None;
        loop {
            if let Some(started) = started {
                self.until_due(started + self.options.interval).await;
            }
            while copied == Some(self.source.version())
                && !self.wants_manifest()
                && !self.is_closing()
            {
                self.until(self.machine().now() + self.options.poll).await;
            }
            let version = self.source.version();
            if copied == Some(version) && !self.wants_manifest() {
                return None; // closing, with nothing new
            }
            let now = self.machine().now();
            match self.round().await {
                Ok(Round::Done) => {
                    backoff.succeeded();
                    copied = Some(version);
                    self.source.history_copied(version, self.stored());
                    started = Some(now);
                    self.status.send_modify(|status| {
                        status.version = copied;
                        status.failing = None;
                    });
                }
                Ok(Round::Again) => {
                    backoff.succeeded();
                    self.status.send_modify(|status| status.failing = None);
                    self.machine().sleep(self.options.poll).await;
                }
                Err(error) if error.is_refusal() => return Some(error),
                Err(error) => {
                    let wait = backoff.failed(self.machine());
                    self.failed(&error, backoff.failures());
                    if self.is_closing() {
                        return None;
                    }
                    self.until(self.machine().now() + wait).await;
                }
            }
        }
    }

    /// The runs of the copy.
    fn stored(&self) -> &[StoredRun] {
        let publisher = self.publisher.as_ref();
        let last = publisher.and_then(|publisher| publisher.last.as_ref());
        last.map_or(&[], |last| &last.runs)
    }

    /// True if the tail counts only once there is a manifest.
    fn wants_manifest(&self) -> bool {
        let publisher = self.publisher.as_ref();
        publisher.is_some_and(|publisher| publisher.tail.wants_manifest())
    }

    fn machine(&self) -> &dyn Machine {
        self.store.machine()
    }

    fn is_closing(&self) -> bool {
        *self.is_closing.borrow()
    }

    /// Waits until a time, or until it is to finish.
    async fn until(&mut self, time: Instant) {
        let closed = self.is_closing.wait_for(|is_closing| *is_closing);
        self.store.machine().until(time, closed).await;
    }

    /// As [`Self::until`], or until the log waits for the copy.
    async fn until_due(&mut self, time: Instant) {
        while !self.source.is_awaited() && !self.is_closing() && self.machine().now() < time {
            self.until(time.min(self.machine().now() + self.options.poll))
                .await;
        }
    }

    fn failed(&self, error: &Error, attempts: u32) {
        let (text, now) = (error.to_string(), self.machine().wall_time());
        self.status.send_modify(|status| {
            if status.failing.is_none() {
                warn!("copying the history fails, and is tried again until it succeeds: {text}");
            }
            status.failing = Some(Failing::again(status.failing.as_ref(), now, attempts, text));
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
        if let Some(shipper) = &*self.shipper.borrow() {
            shipper.report(publisher.published().map(|published| published.time));
        }
        self.publisher = Some(publisher);
        result
    }

    async fn open(&self) -> Result<Publisher, Error> {
        let probe = Probe::run(&self.store).await?;
        self.options.must_suit(probe, &self.store)?;
        let refuses = Some(probe.refuses_overwrites);
        self.status
            .send_modify(|status| status.refuses_overwrites = refuses);
        let notes = Notes::open(self.directory.clone(), self.store.shared_machine()).await?;
        let notes = Arc::new(notes);
        let (store, session) = (self.store.clone(), self.session);
        let (options, end) = (&self.options, self.source.end());
        let publisher = Publisher::open(store, Arc::clone(&notes), session, options, end).await?;
        self.shipper.send_replace(Some(Shipper {
            tail: Arc::clone(&publisher.tail),
            notes,
            source: Arc::clone(&self.source),
            options: self.options.clone(),
            status: self.status.clone(),
        }));
        Ok(publisher)
    }

    async fn copy(&mut self, publisher: &mut Publisher) -> Result<Round, Error> {
        let source = Arc::clone(&self.source);
        let snapshot = self.machine().on_thread(move || Ok(source.snapshot()));
        let Some(snapshot) = snapshot.await? else {
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
        if transfer != Transfer::Complete {
            return Ok(Round::Again);
        }
        if !publisher.tail.may_count(snapshot.end) {
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
