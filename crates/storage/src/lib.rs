//! The storage engine of `abide`: one commit log for all objects of a node, one SQLite database for each object.
//!
//! ```text
//! ObjectDb ── SQLite ── VFS ── PageFile ── commit ──▶ Log ── group ──▶ provider (segments, fdatasync) ──▶ durable LSN
//!                                 ▲                    │
//!                                 │ reads              ▼ after it is durable
//!                              overlay ── checkpoint ──▶ object files (plain SQLite databases)
//!                                             └── the log before it ──▶ archive (every commit of the last days)
//! ```
//!
//! A commit costs one record in a log that all objects share, so thousands of objects share one disk sync. The record
//! holds the changed pages, or the changes within them. Until a checkpoint writes an object's file, its pages are in an
//! overlay in memory; after a crash the overlay is rebuilt from the log. When a checkpoint has made a part of the log
//! superfluous, that part goes to the archive, from which an object can be restored to any bookmark. The crate has no
//! async runtime, and knows nothing of HTTP or of objects' code.
//!
//! # Layers
//!
//! A module imports only from its own layer and from those below; a test of `verify/harness` checks that. From bottom to
//! top:
//!
//! 1. **Plain data**, errors, options, locks and small tools: `ident`, `limits`, `sql_limits`, `error`,
//!    `alarm_entry`, `bookmark`, `timeline`, `cbor`, `sync`, `panics`, `parallel`, `wakeup`, `timing`, `random`,
//!    `memory`, `waits`.
//! 2. **The disk**, the files that any part may need, and the options: `disk`, `reserve`, `temporary`, `remote_runs`, `shared_namespaces`,
//!    `options`.
//! 3. **The manifest**, which lists the contents of the data directory: `manifest`, `catalog`.
//! 4. **The log**, and transactions as bytes: `delta`, `log`, `encoding`.
//! 5. **The alarm index** of all objects: `alarms`.
//! 6. **The VFS**, through which SQLite reads and writes pages: `vfs`.
//! 7. **Pages in memory**, open files, and what all parts of the engine share: `overlay`, `open_files`, `stand_ins`,
//!    `reclaiming`, `shared`.
//! 8. **The archive**, and the pages saved for quarantined objects: `archive`, `quarantine`.
//! 9. **Live objects** and checkpoints: `objects`, `checkpoint`, `stored`, `hydration`.
//! 10. **The engine**, which holds these parts, what it does on its own, shards that are taken over and given up, and its
//!     threads: `engine`, `ending`, `deletion`, `counting`, `sweeping`, `hydrating`, `shards`, `maintenance`, `threads`.
//! 11. **The page file**, which commits to the engine: `pagefile`.
//! 12. **The database** of one object: `params`, `template`, `guard`, `rows`, `database`, `kv`,
//!     `idempotency`.
//! 13. **Restore and repair**, of an object and of a whole directory, and proofs of copies: `restore`, `repair`,
//!     `restore_directory`, `proof`.
//! 14. **The store**, what it counts, and how it is opened: `recovery`, `statistics`, `store`.
//!
//! Data flows in both directions: a commit goes down from the database to the log, a checkpoint up to the files. The
//! layers follow the imports, so the engine is below the page file that calls it. No modules import each other in
//! circles, except a module and its own private parts: the database, the log and the alarm index are each split into
//! several files around one type.
//!
//! # Invariants
//!
//! Each is checked by a test named after it in `tests/`.
//!
//! - **s1** An acknowledged commit survives a crash at any write.
//! - **s2** An unacknowledged commit is wholly there or wholly absent after a crash.
//! - **s3** An object file never holds what is not durable in the log.
//! - **s4** After a checkpoint's redo position, the first image of each page is a full image; a delta refers to a later
//!   image only.
//! - **s5** An object's commit numbers have no holes: a hole quarantines the object, and only it.
//! - **s6** A torn tail ends replay, and nothing after it is accepted.
//! - **s7** Damage before the durable end is reported as an error; it is never mistaken for a torn tail.
//! - **s8** A failed sync poisons the log: nothing is released by it or after it.
//! - **s9** Directories are synced after a file in them is created or renamed, before anything relies on the name.
//! - **s10** What recovery has accepted is synced before anything builds on it, even if an earlier sync of it has failed, and
//!   the next epoch begins a new segment.
//! - **s11** A segment of the log is recycled only after the object files are synced and the manifest is published.
//! - **s12** A full disk rejects commits before they are half written, loses nothing, and accepts commits again once
//!   space is freed. Commits take precedence over history.
//! - **s13** One connection for each object; a rejected commit leaves the committed state as it was.
//! - **s14** The alarm index is never later than the object's row, whatever crash happened between their updates and
//!   whatever happened to the saved index.
//! - **s15** Every acknowledged commit within the retention can be restored, whatever crashes happened since: a segment
//!   is recycled only after it is archived, and a run of the archive replaces others only when it is durable.
//!   Exceptions are reported: when the disk is full or fails ([`StoreStats::archive_failing`]), and while the archive
//!   is off.
//! - **s16** Damage in the archive is detected and reported; it never yields a wrong state, costs only the history in
//!   the damaged file, and never stops an object or the node.
//! - **s17** A restore is one commit, however large: wholly there or absent after a crash, and undone by another restore, whether or not the
//!   archive had the state before it.
//! - **s18** A fault of one object's file affects that object alone. A quarantined object loses nothing acknowledged:
//!   redo does not pass changes that are neither in its file nor saved separately.
//! - **s19** A repair completes or can be repeated, whatever crash interrupts it; what it replaces is kept.
//! - **s20** The log alone determines what a page holds: the commit that adds a page to a database has a full image of
//!   it, even if SQLite has not written it.
//! - **s21** An object that has deleted everything stays deleted, whatever crash happens while its file is removed. Each
//!   state of its lives can be restored, and positions and timelines rise from life to life.
//! - **s22** When the archive says that it is complete ([`HistoryCopy::is_complete`]), its runs alone have the state of
//!   every object as of the archived end of the log, and no object that was deleted before it.
//! - **s23** A directory that is restored from its archive, and perhaps the tail of its log, has each object as they have it,
//!   at the end or at a time: with a tail, after each transaction of the log up to one position. It is complete or refused,
//!   whatever crash happened meanwhile. Each object is on a new timeline, and positions continue above all that the lost
//!   directory had. After a lazy restore, each object is so when it is first opened, with or without a file, and no checkpoint builds on a file
//!   of it that is not whole and durable.
//! - **s24** A fingerprint of an object is of one commit, and a whole copy of the archive that has the commit compares as the
//!   same ([`CopiedArchive::compare`]). A page that differs is named.
//! - **s25** A cut ([`Store::cut`]) has each object as it was at one position of the log, whatever happens to the objects afterwards. It is
//!   complete or refused.
//! - **s26** An import is one commit, however large: the object is whole or absent after a crash. It replaces nothing, and its timelines are
//!   above those that the object had.
//! - **s27** Stores that share objects ([`StoreOptions::claims_shards`]) log no record of a shard at or after the position where they
//!   closed it ([`Store::close_shard`]). A store that claims the shard ([`Store::claim_shard`]) has exactly the objects
//!   and alarms that the records of the earlier owners describe, whether they are in logs or in runs ([`Store::write_run`]).
//!
//! # Example
//!
//! ```
//! use abide_storage::{ObjectKey, SimDisk, Store, StoreOptions};
//! use std::{path::Path, sync::Arc};
//!
//! let store = Store::open(Arc::new(SimDisk::new()), Path::new("/data"), StoreOptions::small())?;
//! let namespace = store.namespace("counters")?;
//! let db = store.open_object(ObjectKey { namespace, id: [7; 32] })?;
//! db.exec("CREATE TABLE hits (n INTEGER)", ())?;
//! db.exec("INSERT INTO hits VALUES (?1)", [1])?;
//! let lsn = db.commit()?.expect("something was written");
//! assert_eq!(db.exec("SELECT n FROM hits", ())?.one::<i64>()?, 1);
//! while store.durable() < lsn { std::thread::yield_now(); }
//! # drop(db); store.close()?;
//! # Ok::<(), abide_storage::Error>(())
//! ```

#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod alarm_entry;
mod alarms;
mod archive;
mod bookmark;
mod catalog;
mod checkpoint;
mod counting;
mod database;
mod deletion;
mod delta;
mod disk;
mod encoding;
mod ending;
mod engine;
mod error;
mod guard;
mod hydrating;
mod hydration;
mod idempotency;
mod ident;
#[cfg(feature = "interleavings")]
#[doc(hidden)]
pub mod interleavings;
mod kv;
mod log;
mod maintenance;
mod manifest;
mod memory;
mod objects;
mod open_files;
mod options;
mod overlay;
mod pagefile;
mod panics;
mod parallel;
mod params;
mod proof;
mod quarantine;
mod random;
mod reclaiming;
mod recovery;
mod remote_runs;
mod repair;
mod reserve;
mod restore;
mod restore_directory;
mod rows;
mod shards;
mod shared;
mod shared_namespaces;
mod sql_limits;
mod stand_ins;
mod statistics;
mod store;
mod stored;
mod sweeping;
mod sync;
mod template;
mod temporary;
mod threads;
mod timeline;
mod timing;
mod vfs;
mod waits;
mod wakeup;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub mod cbor;
pub mod limits;

pub use alarm_entry::{AlarmChange, AlarmEntry, Isolation};
pub use alarms::{
    AlarmCounts, AlarmCursor, AlarmIndex, AlarmRow, AlarmState, BegunAttempt, ClockTime, DueAlarm,
};
pub use archive::{ArchivedRun, HistoryCopy};
pub use bookmark::Bookmark;
pub use database::ObjectDb;
pub use disk::{
    Barrier, Disk, DiskEvent, DiskFile, DiskOp, Fault, FaultyDisk, OpenMode, RealDisk, ScratchDisk,
    SimDisk, errno,
};
pub use error::{Error, ErrorKind, Result, SqlError, SqlErrorKind};
pub use idempotency::{KeyedCall, Remembered};
pub use ident::{Epoch, Lsn, NamespaceNo, ObjectKey, Shard};
pub use kv::ListOptions;
pub use log::part::LogPart;
pub use log::{LOG_DIR, Progress};
pub use manifest::ArchiveHole;
pub use memory::{MemoryAccount, MemoryBudget, MemoryCharge, MemoryUsage, MemoryUse};
pub use options::{ArchiveOptions, StoreOptions};
pub use params::{Param, Params, ParamsFromIter, ToSql, ToSqlError, Value, params_from_iter};
pub use proof::{Comparison, CopiedArchive, Fingerprint};
pub use quarantine::QuarantinedObject;
pub use random::SplitMix64;
pub use recovery::{FETCHED_FILE, NODE_FILE, STANDBY_LOCK};
pub use remote_runs::RemoteRuns;
pub use repair::{Repair, Repaired};
pub use restore::{
    Cut, CutObject, CutPage, Import, Incoming, PastDatabase, TimelinesEnd, object_file_fault,
};
pub use restore_directory::{
    RestoreOptions, RestoreProgress, RestoredDirectory, restore_directory,
};
pub use rows::{Row, Rows};
pub use shards::{Claims, EarlierLog, Inherited, MergedRun, ShardClaim, SharedRun, WrittenRun};
pub use shared_namespaces::SharedNamespaces;
pub use sql_limits::SqlLimits;
pub use statistics::StoreStats;
pub use store::Store;
pub use template::RESERVED_PREFIX;
pub use timeline::{Afterwards, StoredCause, TimelineId, TimelineRow, Untold};
pub use waits::{CommitWait, WaitReason, WaitStats};
