//! The proof of the copy: the setting `archive.prove`.
//!
//! Everything is divided into 30 slices: the objects by the first bytes of their ids, and the runs by their numbers. Each interval, one
//! slice is proven, so that after 30 of them each object was compared with its state in the store, and each byte of the store's runs was
//! read. What is noted between them does not grow with the number of objects ([`notes`]).
//!
//! Contract: a difference is told only if it was seen again with a new fingerprint of the object, a manifest that was read back from
//! the store after that, and bytes that were read again. What cannot be read now is no difference: it is tried again.

mod notes;
mod pass;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use abide_history::{Ranges, StatusWatch, Store as Copies};
use abide_storage::Store;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::limits::PROOF_SLICES;
use notes::Notes;
use pass::{End, Pass};

/// The task that proves. Dropping it has it end soon.
#[derive(Debug)]
pub(super) struct Prover {
    job: Arc<Job>,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the task works with.
struct Job {
    copies: Copies,
    store: Store,
    dir: PathBuf,
    interval: Duration,
    status: StatusWatch,
    threads: Handle,
    stop: watch::Receiver<bool>,
    ranges: Arc<Ranges>,
    notes: Mutex<Notes>,
    proven: AtomicU64,
}

/// What is known of the copy.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    /// Since when everything is proven at least once, without a difference.
    pub(super) age: Duration,
    /// Objects that were compared and are the same, since the start.
    pub(super) objects: u64,
    /// What differs.
    pub(super) differences: Vec<String>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

impl Prover {
    /// Begins, on the threads of the copies.
    pub(super) fn start(
        copies: &Copies,
        store: &Store,
        dir: &Path,
        interval: Duration,
        status: StatusWatch,
        threads: &Handle,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let url = copies.location().to_string();
        let job = Arc::new(Job {
            copies: copies.clone(),
            store: store.clone(),
            dir: dir.to_owned(),
            interval,
            status,
            threads: threads.clone(),
            stop: stopped,
            ranges: Arc::new(Ranges::new(copies)),
            notes: Mutex::new(Notes::open(dir, &url, interval, now())),
            proven: AtomicU64::new(0),
        });
        let task = threads.spawn(Arc::clone(&job).run());
        Self {
            job,
            stop,
            task: Mutex::new(Some(task)),
        }
    }

    pub(super) fn proof(&self) -> Proof {
        let notes = self.job.notes();
        Proof {
            age: Duration::from_millis(now().saturating_sub(notes.proven_since())),
            objects: self.job.proven.load(Ordering::Relaxed),
            differences: notes.differences.iter().map(ToString::to_string).collect(),
        }
    }

    /// Has it end soon.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns once it has ended, or after a time.
    pub(super) async fn finish(&self, time: Duration) {
        self.stop();
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            let _ = timeout(time, task).await;
        }
    }
}

impl Drop for Prover {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Job {
    async fn run(self: Arc<Self>) {
        let mut stop = self.stop.clone();
        loop {
            let wait = self.notes().due.saturating_sub(now());
            // The clock may have been set back since.
            let wait = Duration::from_millis(wait).min(self.interval);
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                () = sleep(wait) => {}
            }
            let job = Arc::clone(&self);
            if tokio::task::spawn_blocking(move || job.step())
                .await
                .is_err()
            {
                tracing::error!("the proof of the copy at archive.url has ended by a panic");
                return;
            }
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Proves what is due.
    fn step(self: &Arc<Self>) {
        let mut notes = self.notes().clone();
        let slice = notes.next;
        let mut pass = Pass::new(self, notes.differences.clone(), slice);
        let ended = pass.run();
        notes.differences.clone_from(&pass.differences);
        match ended {
            Ok(()) => {
                if !pass.has_found {
                    notes.proven[slice as usize] = now();
                }
                tracing::info!(
                    slice,
                    objects = pass.proven,
                    left_out = pass.left_out,
                    differences = notes.differences.len(),
                    "compared objects with the copy in the store of archive.url"
                );
                notes.next = (slice + 1) % PROOF_SLICES;
                // One that was missed while the node was down is not made up for.
                notes.due = now() + millis(self.interval);
            }
            Err(End::Stopped) => return,
            Err(End::NotNow(why)) => {
                tracing::debug!(
                    why,
                    "the copy in the store of archive.url cannot be proven now"
                );
                notes.due = now() + millis(self.interval / 24);
            }
        }
        if let Err(error) = notes.write(&self.dir) {
            tracing::warn!(%error, "how far the copy is proven could not be noted");
        }
        *self.notes() = notes;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(50)
}

/// In milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}
