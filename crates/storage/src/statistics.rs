//! What an open store counts.

use crate::engine::Engine;
use crate::log::Counter;
use crate::waits::{WaitReason, WaitStats};
use std::time::Duration;

/// Statistics of a store, for metrics. Counters begin at 0 when the store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Transactions appended to the log.
    pub commits: u64,
    /// How often transactions were encoded. A transaction is encoded again only if a checkpoint has begun or ended in
    /// the meantime.
    pub encodings: u64,
    /// Groups made durable; `commits / groups` is the average group size.
    pub groups: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Time spent writing and syncing groups, in seconds.
    pub sync_seconds: f64,
    /// Time the last group took, in microseconds.
    pub last_sync_us: u64,
    /// How long the group being written and synced has taken so far, in seconds; 0 if there is none.
    pub sync_wait_seconds: f64,
    /// The part of [`Self::sync_seconds`] that was spent on syncs.
    pub flush_seconds: f64,
    /// Time that the log's writer spent in listeners instead of writing, in seconds.
    pub release_seconds: f64,
    /// Time that all threads spent in listeners, in seconds.
    pub announce_seconds: f64,
    /// Groups whose listeners were notified while the next group was written.
    pub overlapped_groups: u64,
    /// Time that commits waited for the log's lock, in seconds, sampled at one commit in 64.
    pub append_wait_seconds: f64,
    /// Time that commits held the log's lock, in seconds, sampled at one commit in 64.
    pub append_lock_seconds: f64,
    /// Panics of listeners of the log.
    pub listener_panics: u64,
    /// Everything before this position is durable on this machine.
    pub durable_lsn: u64,
    /// The log's end.
    pub appended_lsn: u64,
    /// Bytes appended and not durable yet.
    pub unsynced_bytes: u64,
    /// Bytes of pages that are not in object files yet.
    pub overlay_bytes: u64,
    /// Bytes of log that a recovery would read now.
    pub log_tail_bytes: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Objects that are open or have pages that are not in their files yet.
    pub live_objects: u64,
    /// Commits that had to wait, by reason, in the order of [`WaitReason::ALL`].
    pub commit_waits: [WaitStats; WaitReason::ALL.len()],
    /// Commits that are waiting now.
    pub commits_waiting: u64,
    /// Objects that are unavailable until they are repaired.
    pub quarantined_objects: u64,
    /// Bytes of statements' temporary files: sorts and intermediate results that exceed the page cache.
    pub temporary_bytes: u64,
    /// Bytes written to temporary files.
    pub temporary_written_bytes: u64,
    /// Bytes of the databases of all objects, as of their newest commits; `None` without
    /// [`StoreOptions::max_bytes`](crate::StoreOptions::max_bytes).
    pub stored_bytes: Option<u64>,
    /// Writes rejected because of [`StoreOptions::max_object_bytes`](crate::StoreOptions::max_object_bytes), and because of
    /// [`StoreOptions::max_bytes`](crate::StoreOptions::max_bytes).
    pub full_refusals: [u64; 2],
    /// True while commits are rejected because the disk is full.
    pub no_space: bool,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Files of the archive.
    pub archive_runs: u64,
    /// Bytes of them that are in a store elsewhere alone.
    pub archive_remote_bytes: u64,
    /// Bytes of durable log that are not archived yet; 0 if the archive is off.
    pub archive_lag_bytes: u64,
    /// The time of the oldest commit in the history, in milliseconds since 1970; 0 if there is none. Every commit since
    /// then can be restored, except those of an object that is older than its archive and before its first checkpoint
    /// in it, and except history that was dropped.
    pub archive_horizon_ms: u64,
    /// True while the log cannot be archived: the disk is full or fails, and the program's log says why. The log is
    /// kept for the archive as long as commits have space; after that, the history in it is dropped.
    pub archive_failing: bool,
    /// How often history was dropped because there was no space for it.
    pub history_losses: u64,
    /// Holes in the history within the retention; see [`Store::archive_holes`](crate::Store::archive_holes).
    pub archive_holes: u64,
    /// True if the archive alone has a complete state of every object; see [`HistoryCopy::is_complete`](crate::HistoryCopy::is_complete).
    pub archive_complete: bool,
    /// Objects known to have no complete state in the archive; 0 if it is complete.
    pub archive_missing_objects: u64,
    /// How many of 256 equal parts of the objects may lack their files, because the directory was restored lazily; see
    /// [`Store::hydrate`](crate::Store::hydrate).
    pub hydration_parts_left: u32,
    /// Files of such objects that were written since the store was opened.
    pub hydrated_objects: u64,
}

impl StoreStats {
    /// Those of an engine, now.
    pub(crate) fn of(engine: &Engine) -> Self {
        let log = &engine.shared.log;
        let stats = &log.stats;
        let manifest = engine.shared.catalog.current();
        let archive = &manifest.archive;
        let durable = log.durable().get();
        let (listener_panics, announcing) = log.listeners();
        let seconds = |counter: &Counter| Duration::from_nanos(counter.get()).as_secs_f64();
        Self {
            commits: stats.commits.get(),
            encodings: stats.encodings.get(),
            groups: stats.groups.get(),
            log_bytes: stats.bytes.get(),
            sync_seconds: seconds(&stats.provider_nanos),
            last_sync_us: stats.last_group_nanos.get() / 1000,
            sync_wait_seconds: log.group_wait().unwrap_or_default().as_secs_f64(),
            flush_seconds: seconds(&stats.sync_nanos),
            release_seconds: seconds(&stats.release_nanos),
            announce_seconds: announcing.as_secs_f64(),
            overlapped_groups: stats.overlapped.get(),
            append_wait_seconds: seconds(&stats.append_wait_nanos),
            append_lock_seconds: seconds(&stats.append_held_nanos),
            listener_panics,
            durable_lsn: durable,
            appended_lsn: log.appended().get(),
            unsynced_bytes: log.unsynced_bytes(),
            overlay_bytes: engine.objects.overlay_bytes(),
            log_tail_bytes: engine.shared.log_tail(),
            checkpoints: engine.checkpointer.taken(),
            live_objects: engine.objects.len() as u64,
            commit_waits: engine.waits.stats(),
            commits_waiting: engine.waits.count(),
            quarantined_objects: engine.objects.quarantined().len() as u64,
            temporary_bytes: engine.shared.vfs.temporary().bytes(),
            temporary_written_bytes: engine.shared.vfs.temporary().written(),
            stored_bytes: engine.stored.bytes(),
            full_refusals: engine.stored.refused(),
            no_space: engine.shared.no_space(),
            archive_bytes: archive.bytes(),
            archive_runs: archive.runs.len() as u64,
            archive_remote_bytes: archive.bytes() - archive.bytes_here(),
            archive_lag_bytes: archive
                .archived
                .map_or(0, |archived| durable.saturating_sub(archived)),
            archive_horizon_ms: archive.horizon().unwrap_or(0),
            archive_failing: engine.archive.failing(),
            history_losses: engine.archive.losses(),
            archive_holes: archive.holes.len() as u64,
            archive_complete: archive.is_complete(),
            archive_missing_objects: if archive.is_complete() {
                0
            } else {
                engine.archive.missing()
            },
            hydration_parts_left: engine.hydration.parts_left(),
            hydrated_objects: engine.hydration.written(),
        }
    }
}
