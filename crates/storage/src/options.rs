//! The options of a store.

use crate::limits::{MAX_OBJECT_BYTES, MIN_SEGMENT_BYTES};
use crate::memory::MemoryBudget;
use crate::remote_runs::RemoteRuns;
use crate::shared_namespaces::SharedNamespaces;
use crate::sql_limits::SqlLimits;
use abide_macros::Setters;
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Options for opening a store. [`StoreOptions::default`] suits a server; tests make everything smaller.
#[derive(Clone, Setters)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The size in bytes to which segments of the log grow under load, starting at 512 KiB; fixed when the data
    /// directory is created.
    /// Default 64 MiB, at least 512 KiB.
    pub segment_bytes: u64,
    /// A checkpoint begins when this many bytes of log, or of pages not yet in object files, have accumulated. Default
    /// 256 MiB.
    pub checkpoint_bytes: u64,
    /// A checkpoint begins after this time if anything has changed. Default 60 s.
    pub checkpoint_interval: Duration,
    /// A restore or a fork that changes more bytes of pages than this writes the whole object to a new file, which replaces
    /// the old one; one that changes less is written to the log, from memory. At most half of
    /// [`crate::limits::MAX_TRANSACTION_BYTES`]. Default 64 MiB.
    pub large_restore_bytes: u64,
    /// SQLite's page cache for each open object in KiB. Default 2048.
    pub cache_kib: usize,
    /// The time of commits, milliseconds since 1970. Default: the system's clock.
    pub unix_millis: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The size limit of one object's database in bytes; at most, and by default, [`crate::limits::MAX_OBJECT_BYTES`].
    pub max_object_bytes: u64,
    /// The size limit of all objects' databases together in bytes. Default: no limit. With a limit, their files are
    /// counted when the store is opened.
    #[setters(into)]
    pub max_bytes: Option<u64>,
    /// The limits of SQL statements and values.
    pub sql: SqlLimits,
    /// How much history is kept.
    pub archive: ArchiveOptions,
    /// Where the runs are that a lazy restore has left in their store ([`RestoreOptions::remote`]). A directory that has such
    /// runs is not opened without. With `claims_shards`, where the runs are that all stores share
    /// ([`Store::list_runs`](crate::Store::list_runs)). Default none.
    ///
    /// [`RestoreOptions::remote`]: crate::RestoreOptions::remote
    #[setters(into)]
    pub remote_runs: Option<Arc<dyn RemoteRuns>>,
    /// The node's memory budget for everything that grows with load. Default: no limit.
    pub memory: MemoryBudget,
    /// Hold back what is durable until it is copied to another place, too: [`Store::durable`] and what listeners are told
    /// do not pass the position that [`Store::copied`] has said. After an opening they begin at 0: what was recovered must
    /// be copied first. Restores, forks and repairs return when they are copied, except with `manual`. Default false.
    ///
    /// [`Store::durable`]: crate::Store::durable
    /// [`Store::copied`]: crate::Store::copied
    pub await_copy: bool,
    /// Own no shard until it is claimed ([`Store::claim_shard`](crate::Store::claim_shard)), for a store that shares its objects with
    /// others. The directory must be empty, because what counts is in the logs of all owners. Needs `await_copy`: the log is kept
    /// until [`Store::copied`](crate::Store::copied) passes it. Needs `shared_namespaces`, `archive.enabled = false` and no `max_bytes`. Repairs, imports,
    /// the deletion of classes, and restores that are too large for the log are refused. Default false.
    pub claims_shards: bool,
    /// The namespaces of the stores that share objects, whose numbers are the same in all of them. Default none.
    #[setters(into)]
    pub shared_namespaces: Option<Arc<dyn SharedNamespaces>>,
    /// No threads: the caller drives the store with [`Store::write_group`](crate::Store::write_group) and
    /// [`Store::run_maintenance`](crate::Store::run_maintenance). For tests
    /// and simulations that control the order of events. Default false.
    pub manual: bool,
    /// The number of cores available to the store. On larger machines it uses more threads: see
    /// [`crate::limits::PARALLEL_CORES`]. Default: those of the machine or its container; one if `manual`.
    #[setters(into)]
    pub cores: Option<NonZero<usize>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let unix_millis = || {
            #[allow(
                clippy::disallowed_methods,
                reason = "it is the default, and a simulation passes its own"
            )]
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as u64)
        };
        Self {
            segment_bytes: 64 << 20,
            checkpoint_bytes: 256 << 20,
            checkpoint_interval: Duration::from_mins(1),
            large_restore_bytes: 64 << 20,
            cache_kib: 2048,
            unix_millis: Arc::new(unix_millis),
            max_object_bytes: MAX_OBJECT_BYTES,
            max_bytes: None,
            sql: SqlLimits::default(),
            archive: ArchiveOptions::default(),
            remote_runs: None,
            memory: MemoryBudget::unlimited(),
            await_copy: false,
            claims_shards: false,
            shared_namespaces: None,
            manual: false,
            cores: None,
        }
    }
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("checkpoint_bytes", &self.checkpoint_bytes)
            .field("checkpoint_interval", &self.checkpoint_interval)
            .field("large_restore_bytes", &self.large_restore_bytes)
            .field("cache_kib", &self.cache_kib)
            .field("max_object_bytes", &self.max_object_bytes)
            .field("max_bytes", &self.max_bytes)
            .field("sql", &self.sql)
            .field("archive", &self.archive)
            .field("memory", &self.memory)
            .field("await_copy", &self.await_copy)
            .field("claims_shards", &self.claims_shards)
            .field("manual", &self.manual)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

impl StoreOptions {
    /// Whether the store shares runs of history with others.
    pub(crate) fn has_shared_runs(&self) -> bool {
        self.claims_shards && self.remote_runs.is_some()
    }

    /// Small segments and checkpoints, for tests and stores in memory.
    pub fn small() -> Self {
        Self {
            segment_bytes: MIN_SEGMENT_BYTES,
            checkpoint_bytes: 4 << 20,
            ..Self::default()
        }
    }

    pub(crate) fn cores_or_all(&self) -> usize {
        let cores = match self.cores {
            Some(cores) => cores,
            None if self.manual => NonZero::<usize>::MIN,
            None => std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        };
        cores.get()
    }
}

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct ArchiveOptions {
    /// Keep history. While it is off, nothing is archived and existing history stays unchanged. When it is switched on
    /// (again), the history of an object that was written in the meantime begins with a snapshot of it, which is taken
    /// in the background, or with the checkpoint after its next commit. Until then only its latest state can be
    /// restored. Default true.
    pub enabled: bool,
    /// Every commit within this time can be restored; older history is folded. Default 30 days.
    pub retention: Duration,
    /// The size limit of the archive in bytes: beyond it the oldest history is folded before it expires. One snapshot
    /// of each object always stays. Default 64 GiB. A merge temporarily needs space for a second copy of its input; it
    /// waits if there is none. When the disk has less free space than a full log needs, and less than the archive
    /// takes, the oldest history is folded too: commits take precedence over history.
    pub max_bytes: u64,
    /// Bytes of files that are written in the background in each second after a lazy restore: of objects, and then of the
    /// archive. After a batch or a large object, the next waits. Objects that are needed do not wait. Default `None`: as fast as it goes.
    #[setters(into)]
    pub hydration_rate: Option<u64>,
    /// Bytes of history that the disk keeps of what a store elsewhere has too ([`Store::runs_copied`](crate::Store::runs_copied)): the oldest runs that exceed
    /// this leave it, and are read where they are ([`StoreOptions::remote_runs`]). Runs that are not on the disk return to it, at
    /// `hydration_rate`, as far as they fit. A disk that is nearly full keeps less. Default `None`: all of it.
    #[setters(into)]
    pub local_bytes: Option<u64>,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            retention: Duration::from_hours(30 * 24),
            max_bytes: 64 << 30,
            hydration_rate: None,
            local_bytes: None,
        }
    }
}

impl ArchiveOptions {
    /// The time in which this many bytes may be written in the background after a restore.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        self.hydration_rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
        })
    }
}
