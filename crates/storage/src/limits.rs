//! Every bound of the storage engine, by name.
//!
//! The limits a user meets are those of Cloudflare's SQLite-backed Durable Objects
//! (<https://developers.cloudflare.com/durable-objects/platform/limits/>), so that code written against them
//! behaves the same here. The others are the engine's own.

use std::time::Duration;

/// Longest key of the key-value API, in bytes of UTF-8. Source: Cloudflare's limit for keys.
pub const MAX_KEY_BYTES: usize = 2 * 1024;

/// Longest encoded value of the key-value API, and longest string, blob or row in SQL, in bytes, by default.
/// Source: Cloudflare's "maximum string, BLOB or table row size".
pub const MAX_VALUE_BYTES: usize = 2 * 1024 * 1024;

/// What [`MAX_VALUE_BYTES`] can be raised to: the longest result of a call.
pub const MOST_VALUE_BYTES: usize = 32 * 1024 * 1024;

/// Room that SQLite needs beside a value of the largest size in one row: its key and the record header.
pub const ROW_OVERHEAD_BYTES: usize = MAX_KEY_BYTES + 1024;

/// Longest SQL text, in bytes. Source: Cloudflare's "maximum SQL statement length".
pub const MAX_SQL_BYTES: usize = 100_000;

/// Most parameters bound to one statement, by default. Source: Cloudflare.
pub const MAX_BOUND_PARAMETERS: usize = 100;

/// What [`MAX_BOUND_PARAMETERS`] can be raised to. Source: SQLite's `SQLITE_MAX_VARIABLE_NUMBER`.
pub const MOST_BOUND_PARAMETERS: usize = 32_766;

/// Most columns of a table, and of a result, by default. Source: Cloudflare.
pub const MAX_COLUMNS: usize = 100;

/// What [`MAX_COLUMNS`] can be raised to. Source: SQLite's `SQLITE_MAX_COLUMN`.
pub const MOST_COLUMNS: usize = 2_000;

/// Most bytes of one object's database. Source: Cloudflare.
pub const MAX_OBJECT_BYTES: u64 = 10 * 1024 * 1024 * 1024;

/// The reserve beyond the limit of an object, and beyond that of all objects, is one part in this many. Work that must
/// be able to finish may use it.
pub const RESERVE_SHARE: u64 = 16;

/// The minimum of such a reserve.
pub const MIN_RESERVE_BYTES: u64 = 256 * 1024;

/// The maximum reserve of one object: a few values of [`MAX_VALUE_BYTES`].
pub const MAX_OBJECT_RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// The maximum reserve of all objects.
pub const STORE_RESERVE_BYTES: u64 = 1024 * 1024 * 1024;

/// The largest database that frees its free pages at a commit while all objects together have reached their limit.
pub const VACUUM_WHEN_FULL_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of rows that one `exec` gathers in memory; larger results are read row by row with `for_each`.
pub const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// Longest idempotency key, in bytes. Common services take 255.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// How long a call's result is remembered under its idempotency key. Common services keep it a day.
pub const IDEMPOTENCY_TTL: Duration = Duration::from_hours(24);

/// Calls that an object remembers; beyond it the oldest are forgotten before they expire.
pub const MAX_IDEMPOTENCY_KEYS: i64 = 100_000;

/// Bytes of keys and results that an object remembers; beyond it the oldest are forgotten before they expire.
pub const MAX_IDEMPOTENCY_BYTES: i64 = 64 << 20;

/// The largest result that is remembered. If a result is larger, only the call is remembered.
pub const MAX_REMEMBERED_RESULT_BYTES: usize = 1 << 20;

/// Expired keys that are removed when a new one is written: more than one, so that they cannot accumulate.
pub(crate) const EXPIRED_KEYS_PER_WRITE: u32 = 8;

/// Most keys of one multi-key call. Source: Cloudflare.
pub const MAX_KEYS_PER_CALL: usize = 128;

/// A wall clock that moves back by more than this was set back; smaller steps come from threads and time services.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// Prepared statements kept for each open object.
pub const STATEMENT_CACHE: usize = 64;

/// The longest text, in bytes, of a statement that is kept: for each open object, the texts take at most 1 MiB, half of it
/// as SQLite's copies.
pub const MAX_KEPT_SQL_BYTES: usize = 8 * 1024;

/// Memory of an open connection besides its page cache, schema and statements, as measured with 10,000 connections.
pub const CONNECTION_BYTES: u64 = 8 * 1024;

/// SQLite's page size here, in bytes. Fixed: every object file and every record of the log uses it.
pub const PAGE_BYTES: usize = 4096;

/// Most bytes of changed pages in one transaction (one poll of an object). A restore and a fork are one transaction
/// each: a fork of a larger object is rejected, and so is a restore that changes more.
pub const MAX_TRANSACTION_BYTES: usize = 256 * 1024 * 1024;

/// Most bytes of page images in one record; a larger transaction is a chain of records.
pub const MAX_RECORD_PAYLOAD: usize = 256 * 1024;

/// Most bytes appended to the log and not yet durable, including those being written; further commits wait for the
/// disk, first come, first served. A single transaction may exceed it.
pub const MAX_UNSYNCED_BYTES: usize = 64 * 1024 * 1024;

/// A transaction up to this size is copied after the previous one, under the log's lock, which takes at most some 100
/// ns: less than passing its buffer on. The buffer of a larger one is taken over.
pub(crate) const COPIED_TRANSACTION_BYTES: usize = 4 * 1024;

/// Small transactions share buffers of this size. A larger buffer is freed once it is empty.
pub(crate) const SHARED_BUFFER_BYTES: usize = 64 * 1024;

/// Empty buffers that the log keeps for the next transactions: together 4 MiB at most.
pub(crate) const SPARE_BUFFERS: usize = 64;

/// Bytes, and pages, that each thread keeps allocated between transactions.
pub(crate) const KEPT_ENCODING_BYTES: usize = 64 * 1024;
pub(crate) const MAX_KEPT_PAGES: usize = 256;

/// Bytes of the log's first segment, and the fewest of any: enough for a record with the largest payload, one more page,
/// and the header block.
pub(crate) const MIN_SEGMENT_BYTES: u64 = 512 << 10;

/// Bytes of small transactions that one call writes to a segment of the log.
pub(crate) const GATHERED_BYTES: usize = 1024 * 1024;

/// With this many cores or more, a separate thread notifies the log's listeners while the next group is written. With
/// fewer, that thread would take the place of the workers or the writer, at the cost of a thread switch.
pub(crate) const RELEASE_THREAD_CORES: usize = 3;

/// Disk space that is kept for what a start must write on a full disk: the manifest, several times over. The file
/// `RESERVE` of the data directory takes it.
pub const RECOVERY_RESERVE_BYTES: u64 = 256 * 1024;

/// Segments kept prepared ahead of the log's end.
pub const PREPARED_SEGMENTS: usize = 2;

/// The log's tail may grow to this many times `checkpoint_bytes` before commits wait for a checkpoint.
pub const LOG_TAIL_FACTOR: u64 = 4;

/// The overlay may grow to this many times `checkpoint_bytes` before commits wait for a checkpoint.
pub const OVERLAY_FACTOR: u64 = 4;

/// What a page of the overlay counts against the memory budget: its image with its reference counts, rounded up by the
/// allocator, and its entry in the table.
pub const OVERLAY_PAGE_BYTES: u64 = 5 << 10;

/// The overlay may take one part in this many of the node's memory budget before commits wait for a checkpoint, which
/// begins at half of that.
pub const OVERLAY_SHARE: u64 = 4;

/// Object files kept open for reading; all are closed when the process is out of descriptors. In addition, a checkpoint
/// has up to [`SYNC_ONE_BY_ONE`] written files open, and each thread may have one.
pub const OPEN_FILES: usize = 256;

/// The number of shards of the table of open object files, from [`PARALLEL_CORES`] on; with fewer cores there is one.
/// Each shard has its own lock and its share of [`OPEN_FILES`].
pub const OPEN_FILE_SHARDS: usize = 8;

/// With this many cores or more, checkpoints and compression use several threads, and the table of open files is
/// sharded.
pub const PARALLEL_CORES: usize = 4;

/// When several threads work on a checkpoint, or on the compression of history, they use one core in this many: the
/// others are for objects.
pub const CORES_PER_PARALLEL_THREAD: usize = 2;

/// Most threads that work together on a checkpoint, or on the compression of history. More would only wait for the
/// disk.
pub const MAX_PARALLEL_THREADS: usize = 8;

/// Blocks of the archive that each of several threads compresses at a time: together at most
/// [`MAX_PARALLEL_THREADS`] times this many blocks wait in memory, 4 MiB.
pub const ARCHIVE_BLOCKS_PER_THREAD: usize = 8;

/// Named alarms of an object. They are all in memory while the object is.
pub const MAX_NAMED_ALARMS: usize = 1_000;

/// Bytes of an alarm's name.
pub const MAX_ALARM_NAME_BYTES: usize = 256;

/// Runs of the alarm index on disk before they are merged into one.
pub const MAX_ALARM_RUNS: usize = 8;

/// Consecutive checkpoints that may fail to write an object's file before the object is quarantined. Until then the log
/// is kept for it. A transient fault thus has two more checkpoints to go away; when commits wait for log space, the
/// first failure quarantines.
pub const FILE_ATTEMPTS: u32 = 3;

/// Most objects that one checkpoint quarantines because their files cannot be written. If there are more, the disk is
/// failing rather than single files: none is quarantined, and commits that need space are rejected.
pub const MAX_FAILING_FILES: usize = 16;

/// Up to this many files are synced one by one at a checkpoint; more are synced with the whole file system.
pub const SYNC_ONE_BY_ONE: usize = 64;

/// Bytes of log that are gathered in memory for one run of the archive, unless one transaction has more.
pub const ARCHIVE_STEP_BYTES: usize = 64 * 1024 * 1024;

/// The same limit as a share of the node's memory budget: at most one part in this many.
pub const ARCHIVE_STEP_SHARE: u64 = 16;

/// Holes in the history that the manifest lists; beyond it the oldest are forgotten.
pub const MAX_ARCHIVE_HOLES: usize = 64;

/// Retries of archiving once the unarchived log has used up its space, before the history in it is dropped. The pauses
/// begin with [`ARCHIVE_RETRY_PAUSE`] and double: 1.5 s in total, which a commit can wait.
pub const ARCHIVE_RETRIES: u32 = 4;

/// See [`ARCHIVE_RETRIES`].
pub const ARCHIVE_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// If a disk that reports free space rejects the archive this many times in a row, it is considered full: a quota may
/// cause this.
pub const ARCHIVE_FULL_AFTER: u32 = 3;

/// After this many failed reads, for whatever reason, a run of the archive is treated as damaged.
pub const ARCHIVE_SET_ASIDE_AFTER: u32 = 8;

/// Bytes of entries that are compressed together in the archive. A block ends with the entry that reaches this size.
pub const ARCHIVE_BLOCK_BYTES: usize = 64 * 1024;

/// The longest block of the archive before compression; a longer one is damaged.
pub const MAX_ARCHIVE_BLOCK_BYTES: usize =
    ARCHIVE_BLOCK_BYTES + MAX_RECORD_PAYLOAD + 4 * PAGE_BYTES;

/// This many runs of one level are merged into one of the next.
pub const ARCHIVE_FAN_IN: usize = 8;

/// Runs that stores share are merged up to this size: a store has room for a merged run, and reads what it is made of, at once.
pub const MAX_SHARED_MERGE_BYTES: u64 = 16 << 30;

/// How long runs that stores share are left out of merges after one of them has failed: it would read them all again.
pub const UNMERGED_FOR: Duration = Duration::from_hours(1);

/// A merged run covers at most one part in this many of the retention, so that history expires in pieces.
pub const ARCHIVE_SPAN_SHARE: u64 = 8;

/// Expired history is folded when it has at least one part in this many of the bytes of the bases.
pub const ARCHIVE_FOLD_SHARE: u64 = 4;

/// An object gets a new snapshot in the archive when the history since the last one exceeds both its size and this.
pub const SNAPSHOT_FLOOR_BYTES: u64 = 256 * 1024;

/// Bytes of snapshots that one slice of a sweep writes, unless one object has more: no checkpoint can run meanwhile.
pub const ARCHIVE_SWEEP_BYTES: u64 = 32 * 1024 * 1024;

/// Objects that one slice of a sweep looks at.
pub const ARCHIVE_SWEEP_OBJECTS: usize = 1024;

/// Names that one slice of a sweep reads from directories, unless one directory has more.
pub const ARCHIVE_SWEEP_NAMES: usize = 64 * 1024;

/// The least time between two slices of a sweep.
pub const ARCHIVE_SWEEP_PAUSE: Duration = Duration::from_millis(100);

/// The least time between the end of a sweep that could not find, or make, a state of every object, and the next one.
pub const ARCHIVE_SWEEP_REST: Duration = Duration::from_mins(10);

/// Bytes of object files that hydration writes between two syncs, unless one object has more.
pub const HYDRATION_BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// Objects whose files hydration writes between two syncs.
pub const HYDRATION_BATCH_OBJECTS: usize = 1024;

/// The wait after a step of hydration that has failed; it doubles with each further failure.
pub const HYDRATION_RETRY: Duration = Duration::from_secs(1);

/// The longest wait after a step of hydration that has failed.
pub const MAX_HYDRATION_RETRY: Duration = Duration::from_mins(1);

/// Objects that are hydrated at once because they are needed. Each may take [`RESTORE_PAGES_IN_MEMORY`].
pub const HYDRATIONS_AT_ONCE: usize = 4;

/// An object of at least this many pages (256 KiB) has a map in each run of where its pages are.
pub const MAPPED_PAGES: u32 = 64;

/// Changes of pages of one object in one run of which there is a map: it is made in memory, with 8 bytes for each.
pub const MAX_MAPPED_CHANGES: usize = 1 << 22;

/// A page that a run changes at least this often is hot: the map has all these changes as one.
pub const HOT_PAGE_CHANGES: u32 = 4;

/// Pages of an object for each hot page it may have.
pub const HOT_PAGE_SHARE: u32 = 64;

/// The most hot pages in a map, the outline included.
pub const MAX_HOT_PAGES: usize = 64;

/// Bytes of the hot pages in all maps of a run, which are kept in memory until it is written.
pub const MAX_HOT_BYTES: usize = 8 * 1024 * 1024;

/// From this many pages on (16 MiB), the hot pages of an object include its outline: its first pages, and the rightmost paths of the
/// trees of which these are roots.
pub const OUTLINED_PAGES: u32 = 4096;

/// How many of the first pages of a database its outline includes.
pub const OUTLINE_FIRST_PAGES: u32 = 16;

/// The most levels that a tree of SQLite has (`BTCURSOR_MAX_DEPTH`).
pub const MAX_TREE_DEPTH: usize = 20;

/// Pages of an object whose content is followed while a run is written, to find the hot ones: those that were changed last.
pub const FOLLOWED_PAGES: usize = 1024;

/// New pages that are followed besides.
pub const FOLLOWED_NEW_PAGES: usize = 256;

/// Unless [`RestoreOptions::large_bytes`](crate::RestoreOptions::large_bytes) says otherwise, an object of at least this size is read
/// page by page from the archive while it has no file.
pub const LARGE_OBJECT_BYTES: u64 = 16 * 1024 * 1024;

/// Large objects whose pages a lazy restore lets be read so; further ones get their files before their first event.
pub const MAX_LARGE_OBJECTS: usize = 1024;

/// Bytes of commits in runs without a map of them that are kept in memory for a large object without a file. One with more gets its
/// file before its first event.
pub const MAX_LARGE_CHANGES: usize = 32 * 1024 * 1024;

/// Blocks of the archive that are kept in memory for a large object without a file; one has up to [`MAX_ARCHIVE_BLOCK_BYTES`].
pub const LARGE_OBJECT_BLOCKS: usize = 16;

/// Runs of the archive kept open by one step or lookup.
pub const OPEN_RUNS: usize = 32;

/// A merge or fold checks the disk's free space again after writing this many bytes.
pub const ARCHIVE_ROOM_CHECK_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of a run that returns to the disk from a store elsewhere that are read at a time.
pub const ARCHIVE_RETURN_BYTES: u64 = 1024 * 1024;

/// A run returns to the disk if there is room for this many of its size, beside what the archive leaves free. A run that left because the disk was
/// nearly full does not return at once.
pub const ARCHIVE_RETURN_ROOM: u64 = 2;

/// The longest interval between two checks of which runs are to be on the disk.
pub const ARCHIVE_KEEPING_PAUSE: Duration = Duration::from_mins(1);

/// A statement's temporary file checks the disk's free space again after writing this many bytes.
pub const TEMPORARY_ROOM_CHECK_BYTES: u64 = 16 * 1024 * 1024;

/// Temporary files leave space on the disk for this many segments of the log, so that no statement blocks other
/// objects' commits: the segments that are prepared ahead, and as many again while a checkpoint recycles some.
pub const TEMPORARY_RESERVE_SEGMENTS: u64 = 2 * PREPARED_SEGMENTS as u64;

/// Pages of an object being restored that are kept in memory (64 MiB); more go to a scratch file. The same number again
/// for its present state.
pub const RESTORE_PAGES_IN_MEMORY: usize = 16 * 1024;

// A value of the largest size and its key must fit a record chain, and a chain must fit the log.
const _: () = assert!(MOST_VALUE_BYTES + ROW_OVERHEAD_BYTES < MAX_TRANSACTION_BYTES);
const _: () = assert!(MAX_RECORD_PAYLOAD.is_multiple_of(PAGE_BYTES));
const _: () = assert!(MAX_RESULT_BYTES > MOST_VALUE_BYTES);
const _: () = assert!(MAX_REMEMBERED_RESULT_BYTES + MAX_IDEMPOTENCY_KEY_BYTES < MAX_VALUE_BYTES);
const _: () = assert!(OPEN_FILES.is_multiple_of(OPEN_FILE_SHARDS));
const _: () = assert!(PARALLEL_CORES >= 2 * CORES_PER_PARALLEL_THREAD);
