//! The running copies.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use abide_history::{Status, StatusWatch, Store as Copies, Uploader};
use abide_storage::Store;
use tokio::runtime::Runtime;

use super::{Report, metric, proof::Prover};

/// The task that copies the archive. Clones share it; it ends with the last.
#[derive(Clone, Debug)]
pub(crate) struct Copier {
    uploader: Arc<Mutex<Option<Uploader>>>,
    /// Before the threads, which must not end while it waits.
    prover: Option<Arc<Prover>>,
    _threads: Arc<Threads>,
    status: StatusWatch,
    begun: SystemTime,
    /// When it was noticed that something is not copied.
    unsaved: Arc<Mutex<Option<Instant>>>,
    copies: Copies,
    store: Store,
    /// Nothing is acknowledged before it is copied.
    is_awaited: bool,
}

/// The threads of the task.
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // Without waiting: this may be a thread that must not.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Copier {
    pub(super) fn new(
        uploader: Uploader,
        prover: Option<Prover>,
        runtime: Runtime,
        copies: Copies,
        store: Store,
        is_awaited: bool,
    ) -> Self {
        metric::describe();
        Self {
            status: uploader.watch(),
            begun: SystemTime::now(),
            unsaved: Arc::default(),
            uploader: Arc::new(Mutex::new(Some(uploader))),
            prover: prover.map(Arc::new),
            _threads: Arc::new(Threads(Some(runtime))),
            copies,
            store,
            is_awaited,
        }
    }

    /// Publishes the metrics for the next scrape.
    pub(crate) fn publish_metrics(&self) {
        let status = self.status.status();
        metric::publish(&status, &self.copies.traffic(), self.unsaved_for(&status));
        if let Some(prover) = &self.prover {
            metric::publish_proof(&prover.proof());
        }
    }

    /// How long acknowledged commits may exist on this machine alone.
    fn unsaved_for(&self, status: &Status) -> Duration {
        let end = self.store.durable_here().get();
        let mut unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        if status.copied.is_some_and(|copied| copied.position >= end) {
            *unsaved = None;
            return Duration::ZERO;
        }
        let noticed = *unsaved.get_or_insert_with(Instant::now);
        age(status.copied.map_or(self.begun, |of| of.time), noticed)
    }

    /// Why commits wait for the store, if they do.
    pub(crate) fn stall(&self) -> Option<String> {
        let status = self.status.status();
        let failing = status.not_shipping.or(status.failing)?;
        self.is_awaited.then_some(failing.error)
    }

    /// How many objects and files of the copy differ.
    pub(crate) fn differences(&self) -> usize {
        let proof = self.prover.as_ref().map(|prover| prover.proof());
        proof.map_or(0, |proof| proof.differences.len())
    }

    /// For the front page.
    pub(crate) fn report(&self) -> Report {
        let status = self.status.status();
        let unsaved = self.unsaved_for(&status);
        let proof = self.prover.as_ref().map(|prover| prover.proof());
        Report {
            place: self.copies.location().to_string(),
            // Less than a second is not nothing.
            unsaved_seconds: unsaved.as_millis().div_ceil(1_000) as u64,
            proven_seconds: proof.as_ref().map(|proof| proof.age.as_secs()),
            differences: proof.map(|proof| proof.differences).unwrap_or_default(),
            failing: status.superseded.or_else(|| {
                let failing = status.not_shipping.or(status.failing)?;
                Some(failing.error)
            }),
        }
    }

    /// Has the proof of the copy end soon: the node stops.
    pub(crate) fn stop_proving(&self) {
        if let Some(prover) = &self.prover {
            prover.stop();
        }
    }

    /// Returns once another node has taken the history over, with what to do.
    pub(crate) async fn superseded(&self) -> String {
        let is_superseded = |status: &Status| status.superseded.is_some();
        match self.status.wait_for(is_superseded).await.superseded {
            Some(text) => text,
            // It was finished.
            None => std::future::pending().await,
        }
    }

    /// Copies what is new, within a time, and ends.
    pub(crate) async fn finish(self, time: Duration) {
        if let Some(prover) = &self.prover {
            prover.finish(time).await;
        }
        let uploader = self.uploader.lock();
        let uploader = uploader.unwrap_or_else(PoisonError::into_inner).take();
        let Some(uploader) = uploader else {
            return;
        };
        if !uploader.finish(time).await {
            tracing::warn!(
                "the last changes were not copied to the store of archive.url: the next start copies them"
            );
        }
    }
}

/// The time since the newest copy, never 0. The wall clock may have been set back since, but not the clock by which it was
/// noticed that something is not copied.
fn age(copied: SystemTime, noticed: Instant) -> Duration {
    let by_wall_clock = copied.elapsed().unwrap_or_default();
    let least = Duration::from_millis(1);
    by_wall_clock.max(noticed.elapsed()).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_copied_has_an_age_also_after_the_clock_was_set_back() {
        let hour = Duration::from_hours(1);
        let now = SystemTime::now();
        assert!(age(now - hour, Instant::now()) >= hour);
        let set_back = age(now + hour, Instant::now());
        assert!(!set_back.is_zero() && set_back < hour);
    }
}
