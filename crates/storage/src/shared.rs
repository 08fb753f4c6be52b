//! State shared by every part of the engine: the disk, the options, the log and the catalog, and whether the disk is
//! full.

use crate::catalog::Catalog;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::Lsn;
use crate::limits::LOG_TAIL_FACTOR;
use crate::log::{Log, WallTime};
use crate::manifest::{ClockReading, Manifest};
use crate::memory::{MemoryAccount, MemoryUse};
use crate::open_files::OpenFiles;
use crate::options::StoreOptions;
use crate::parallel;
use crate::reserve::Reserve;
use crate::stand_ins::StandIns;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::timeline::Mark;
use crate::vfs::Vfs;
use std::path::PathBuf;
use std::sync::Arc;

/// Called after the wall clock was read.
pub(crate) type ClockWatch = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) log: Log,
    pub(crate) catalog: Catalog,
    pub(crate) vfs: Vfs,
    /// The memory account of the overlays and the log.
    pub(crate) memory: Arc<MemoryAccount>,
    /// The object files that are kept open.
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) stand_ins: StandIns,
    /// What a start on a full disk needs.
    pub(crate) reserve: Reserve,
    /// The newest restore of the whole directory.
    pub(crate) restored: Option<Mark>,
    /// The number of cores available to the store.
    pub(crate) cores: usize,
    /// Whether threads write the log and run maintenance; otherwise the caller of [`crate::Store`] does.
    pub(crate) threads: bool,
    /// See [`Store::watch_clock`](crate::Store::watch_clock).
    pub(crate) clock_watch: RwLock<Option<ClockWatch>>,
    /// How many steps back of the clock the manifest has, of those that this process has seen.
    saved_steps: AtomicU64,
    /// The last attempt to prepare a segment or to checkpoint found the disk full.
    no_space: AtomicBool,
    /// Why the last attempt to prepare a segment or to checkpoint freed no log space.
    obstacle: Mutex<Option<Error>>,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: StoreOptions,
        mut log: Log,
        catalog: Catalog,
        vfs: Vfs,
        open_files: Arc<OpenFiles>,
    ) -> Self {
        let memory = options.memory.account();
        count_log(&log, &memory);
        if options.await_copy {
            log.await_copies();
        }
        if options.claims_shards {
            log.own_nothing();
        }
        log.begin_clock(catalog.current().clock.unix_millis);
        let saved_steps = AtomicU64::new(log.clock_steps());
        Self {
            restored: catalog.current().restored,
            vfs,
            memory,
            catalog,
            threads: !options.manual,
            clock_watch: RwLock::default(),
            saved_steps,
            open_files,
            stand_ins: StandIns::default(),
            reserve: Reserve::new(disk.clone(), &dir),
            cores: options.cores_or_all(),
            disk,
            dir,
            options,
            log,
            no_space: AtomicBool::new(false),
            obstacle: Mutex::default(),
        }
    }

    /// Counts a commit of this many bytes that was appended to the log: they take memory until they are durable.
    pub(crate) fn count_append(&self, bytes: u64) {
        self.memory.take(MemoryUse::Log, bytes);
    }

    /// The time of a commit or a checkpoint. The watch of the clock has seen it when this returns.
    pub(crate) fn wall_time(&self) -> WallTime {
        let time = WallTime {
            steps: self.log.clock_steps(),
            unix_millis: self.unix_millis(),
        };
        if let Some(watch) = &*self.clock_watch.read() {
            watch();
        }
        time
    }

    /// Puts into the manifest the newest time before the end of the log: a recovery that finds it looks for steps of the
    /// clock that are not in the sum from there on. Leaves it alone if the clock was set back after `now`.
    pub(crate) fn note_clock(&self, manifest: &mut Manifest, now: WallTime, set_back: i64) {
        if let Some((end, unix_millis)) = self.log.clock_at_end(now) {
            manifest.clock = ClockReading {
                position: end.get(),
                unix_millis,
                set_back,
            };
        }
    }

    /// The sum with this many steps of the clock is durable.
    pub(crate) fn clock_saved(&self, steps: u64) {
        self.saved_steps.fetch_max(steps, Ordering::AcqRel);
    }

    /// Returns whether the sum lacks a step in the manifest because it could not be saved.
    pub(crate) fn clock_is_unsaved(&self, now: WallTime) -> bool {
        self.saved_steps.load(Ordering::Acquire) < now.steps
    }

    /// How many threads work together on a checkpoint or on compression.
    pub(crate) fn parallel_threads(&self) -> usize {
        parallel::threads(self.cores)
    }

    pub(crate) fn unix_millis(&self) -> u64 {
        (self.options.unix_millis)()
    }

    /// Bytes of log that a recovery would read now.
    pub(crate) fn log_tail(&self) -> u64 {
        let redo = self.catalog.current().redo;
        self.log.durable().get().saturating_sub(redo)
    }

    /// The log from here on is needed for recovery, for the archive, or for the next owners of its shards.
    pub(crate) fn needed_log(&self) -> Lsn {
        let archived = self.catalog.current().archived();
        if self.options.claims_shards {
            archived.min(self.log.released())
        } else {
            archived
        }
    }

    /// Bytes from [`Self::needed_log`] to the end of the log.
    pub(crate) fn kept_log(&self) -> u64 {
        let needed = self.needed_log();
        self.log.appended().get().saturating_sub(needed.get())
    }

    /// The amount of kept log in bytes at which commits wait for a checkpoint.
    pub(crate) fn log_bound(&self) -> u64 {
        let bytes = self.options.checkpoint_bytes;
        bytes.saturating_mul(LOG_TAIL_FACTOR)
    }

    pub(crate) fn log_is_full(&self) -> bool {
        self.kept_log() >= self.log_bound()
    }

    /// The record capacity in bytes that the next segment of the log should have.
    pub(crate) fn needed_segment_bytes(&self) -> u64 {
        let growth = self.kept_log().saturating_mul(2);
        growth.max(self.log.missing_room())
    }

    /// Returns whether the log stays within its limit with one more segment of this size. A transaction that needs
    /// several segments gets them as long as the log has not reached the limit: it could never be written otherwise.
    pub(crate) fn may_prepare_segment(&self, segment: u64) -> bool {
        let filled = self
            .kept_log()
            .saturating_add(self.log.room())
            .saturating_add(segment);
        // A log needs at least two segments.
        let largest = self.catalog.current().segment_bytes;
        filled <= self.log_bound().max(2 * largest)
            || (self.log.wants_segments_at_once() && !self.log_is_full())
    }

    /// Changes the manifest, durably. If it is then unknown which version is on disk, the log is poisoned.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        let published = self.catalog.publish(change);
        published.inspect_err(|error| self.note_failure(error))
    }

    /// Handles a disk error outside the log. A failure after which it is unknown what is durable stops the node. A full
    /// disk and every other error are retried: nothing was published, so nothing is lost.
    pub(crate) fn note_failure(&self, error: &Error) {
        if error.is_final() {
            self.log.poison(&error.to_string());
        } else if error.kind() == ErrorKind::NoSpace {
            self.set_no_space(true);
        }
    }

    /// Records what prevents maintenance from freeing log space; `None` if nothing does.
    pub(crate) fn set_obstacle(&self, obstacle: Option<Error>) {
        *self.obstacle.lock() = obstacle;
    }

    /// What prevented the last maintenance from freeing log space.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        self.obstacle.lock().clone()
    }

    pub(crate) fn no_space(&self) -> bool {
        self.no_space.load(Ordering::Acquire)
    }

    pub(crate) fn set_no_space(&self, no_space: bool) {
        if self.no_space.swap(no_space, Ordering::AcqRel) != no_space {
            if no_space {
                tracing::error!(dir = %self.dir.display(), "the disk of the data directory is full: rejecting commits until space is freed");
            } else {
                tracing::info!("the disk has space again: accepting commits");
            }
        }
    }
}

/// Returns the bytes of commits to the budget once they are durable; [`Shared::count_append`] charges them.
fn count_log(log: &Log, memory: &Arc<MemoryAccount>) {
    let memory = memory.clone();
    log.on_written(Box::new(move |bytes| memory.give(MemoryUse::Log, bytes)));
}
