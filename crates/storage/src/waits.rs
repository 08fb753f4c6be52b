//! Commits that wait: how many, how long, and for what.

use crate::sync::Mutex;
use crate::timing;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// A segment of the log, which is being prepared.
    Segment,
    /// A checkpoint: the log has reached [`crate::limits::LOG_TAIL_FACTOR`] times `checkpoint_bytes`.
    LogBound,
    /// A checkpoint: pages not yet in object files have reached [`crate::limits::OVERLAY_FACTOR`] times
    /// `checkpoint_bytes`.
    OverlayBound,
    /// The disk: [`crate::limits::MAX_UNSYNCED_BYTES`] of log are not durable yet.
    UnsyncedBytes,
    /// Space on the disk. The commit is rejected.
    DiskSpace,
}

impl WaitReason {
    /// All reasons, in the order of [`crate::StoreStats::commit_waits`].
    pub const ALL: [Self; 5] = [
        Self::Segment,
        Self::LogBound,
        Self::OverlayBound,
        Self::UnsyncedBytes,
        Self::DiskSpace,
    ];

    /// Its name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::LogBound => "log_bound",
            Self::OverlayBound => "overlay_bound",
            Self::UnsyncedBytes => "unsynced_bytes",
            Self::DiskSpace => "disk_space",
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The commit that has been waiting longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitWait {
    /// What it waits for.
    pub reason: WaitReason,
    /// How long it has waited.
    pub lasted: Duration,
}

/// The waits for one reason since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaitStats {
    /// How many there were.
    pub count: u64,
    /// Their total duration in seconds, including waits that have not ended.
    pub seconds: f64,
}

/// A wait is logged after this time, and again each time its duration has doubled.
const WARNING: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Waits {
    totals: [Total; WaitReason::ALL.len()],
    /// Those that have not ended: one for each thread that commits, at most.
    current: Mutex<Vec<Current>>,
    next: AtomicU64,
}

#[derive(Default)]
struct Total {
    count: AtomicU64,
    nanos: AtomicU64,
}

struct Current {
    number: u64,
    begun: Instant,
    /// When the wait for the current reason began.
    since: Instant,
    reason: WaitReason,
}

impl Waits {
    /// Records that a commit begins to wait. The wait ends when the guard is dropped.
    pub(crate) fn begin(&self, reason: WaitReason) -> Waiting<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begun = timing::now();
        self.total(reason).count.fetch_add(1, Ordering::Relaxed);
        self.current.lock().push(Current {
            number,
            begun,
            since: begun,
            reason,
        });
        Waiting {
            waits: self,
            number,
            begun,
            next_warning: WARNING,
        }
    }

    /// The commit that has been waiting longest.
    pub(crate) fn longest(&self) -> Option<CommitWait> {
        let current = self.current.lock();
        let longest = current.iter().min_by_key(|wait| wait.begun)?;
        Some(CommitWait {
            reason: longest.reason,
            lasted: longest.begun.elapsed(),
        })
    }

    /// The number of commits that are waiting now.
    pub(crate) fn count(&self) -> u64 {
        self.current.lock().len() as u64
    }

    pub(crate) fn stats(&self) -> [WaitStats; WaitReason::ALL.len()] {
        let current = self.current.lock();
        WaitReason::ALL.map(|reason| {
            let total = self.total(reason);
            let running = current.iter().filter(|wait| wait.reason == reason);
            let running: Duration = running.map(|wait| wait.since.elapsed()).sum();
            let ended = Duration::from_nanos(total.nanos.load(Ordering::Relaxed));
            WaitStats {
                count: total.count.load(Ordering::Relaxed),
                seconds: (ended + running).as_secs_f64(),
            }
        })
    }

    fn total(&self, reason: WaitReason) -> &Total {
        &self.totals[reason as usize]
    }

    /// Adds the duration of a wait to its current reason.
    fn settle(&self, wait: &Current) {
        let nanos = wait.since.elapsed().as_nanos() as u64;
        let total = self.total(wait.reason);
        total.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A waiting commit.
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    number: u64,
    begun: Instant,
    next_warning: Duration,
}

impl Waiting<'_> {
    /// Changes the reason for the wait.
    pub(crate) fn continues(&mut self, reason: WaitReason) {
        let mut current = self.waits.current.lock();
        let waits = current.iter_mut();
        if let Some(wait) = waits.into_iter().find(|wait| wait.number == self.number)
            && wait.reason != reason
        {
            self.waits.settle(wait);
            let total = self.waits.total(reason);
            total.count.fetch_add(1, Ordering::Relaxed);
            wait.reason = reason;
            wait.since = timing::now();
        }
        drop(current);
        let lasted = self.begun.elapsed();
        if lasted >= self.next_warning {
            self.next_warning = lasted * 2;
            tracing::warn!(
                reason = reason.as_str(),
                seconds = lasted.as_secs_f64(),
                "a commit is waiting"
            );
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut current = self.waits.current.lock();
        let place = current.iter().position(|wait| wait.number == self.number);
        if let Some(ended) = place.map(|place| current.swap_remove(place)) {
            self.waits.settle(&ended);
        }
    }
}
