//! The store: an open data directory.

use crate::alarms::AlarmIndex;
use crate::archive::HistoryCopy;
use crate::bookmark::Bookmark;
use crate::database::ObjectDb;
use crate::disk::Disk;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{Lsn, NamespaceNo, ObjectKey, Shard};
use crate::limits::MIN_SEGMENT_BYTES;
use crate::log::Progress;
use crate::log::part::LogPart;
use crate::manifest::ArchiveHole;
use crate::memory::MemoryBudget;
use crate::options::StoreOptions;
use crate::proof::{CopiedArchive, Fingerprint};
use crate::quarantine::QuarantinedObject;
use crate::recovery;
use crate::repair::{Repair, Repaired};
use crate::restore::{Cut, CutPage, Import, Incoming, PastDatabase, TimelinesEnd};
use crate::shards::{Claims, Inherited, MergedRun, ShardClaim, SharedRun, WrittenRun};
use crate::statistics::StoreStats;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle};
use crate::threads;
use crate::timeline::Afterwards;
use crate::waits::CommitWait;
use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An open data directory. Clones share it. Dropping the last one stops the threads without a checkpoint: call
/// [`Store::close`] for a clean shutdown.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held while the store is closed.
    closed: Mutex<bool>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.0.engine.shared.dir)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a data directory, or initializes an empty one, and recovers everything that was acknowledged.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InUse`]: another process is using it. [`crate::ErrorKind::Refused`]: it has another format
    /// or is damaged; nothing is changed in this case. [`crate::ErrorKind::NoSpace`], [`crate::ErrorKind::Io`]: a disk
    /// error.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: StoreOptions) -> Result<Self> {
        if options.segment_bytes < MIN_SEGMENT_BYTES {
            return Err(Error::input(format!(
                "segment_bytes is {}, but must be at least {MIN_SEGMENT_BYTES}",
                options.segment_bytes
            )));
        }
        let has_all = options.archive.enabled || options.max_bytes.is_some();
        let is_shared = options.await_copy && options.shared_namespaces.is_some();
        if options.claims_shards && (has_all || !is_shared) {
            return Err(Error::input(
                "claims_shards needs await_copy = true, shared_namespaces, archive.enabled = false and no max_bytes: other stores read \
                 this store's log, and no store has a shard's whole history or size",
            ));
        }
        crate::vfs::configure();
        let engine = recovery::open(disk, dir, options)?;
        // If a thread cannot be started, dropping it stops the others.
        let store = Self(Arc::new(Inner {
            engine: engine.clone(),
            threads: Mutex::default(),
            closed: Mutex::new(false),
        }));
        // One segment must exist before the first commit; the others can follow.
        match engine.run_maintenance() {
            // Reads can be served; commits are rejected until space is freed.
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                tracing::warn!(%error, "starting on a full disk");
            }
            done => done?,
        }
        if engine.shared.threads {
            threads::start(&engine, &mut store.0.threads.lock())?;
        }
        Ok(store)
    }

    /// The node's memory budget.
    pub fn memory(&self) -> &MemoryBudget {
        &self.0.engine.shared.options.memory
    }

    /// Returns whether the directory is a copy that was restored to be looked at ([`RestoreOptions::inspect`]). No node may
    /// serve it: each of its objects would do what the original does.
    ///
    /// [`RestoreOptions::inspect`]: crate::RestoreOptions::inspect
    pub fn is_for_inspection(&self) -> bool {
        self.0.engine.shared.catalog.current().inspect
    }

    /// The number of the namespace with this unique key (1 to 128 bytes). A new one is durable before it is returned.
    pub fn namespace(&self, unique_key: &str) -> Result<NamespaceNo> {
        self.0.engine.namespace(unique_key)
    }

    /// The namespaces of this data directory, by number, with their unique keys.
    pub fn namespaces(&self) -> Vec<(NamespaceNo, String)> {
        let manifest = self.0.engine.shared.catalog.current();
        (1..)
            .map(NamespaceNo)
            .zip(manifest.namespaces.iter().cloned())
            .filter(|(_, unique_key)| !unique_key.is_empty())
            .collect()
    }

    /// Looks into the runs for what they have of these shards, once for all, so that each can be claimed. For a store with
    /// [`StoreOptions::claims_shards`]. All runs are listed that have records of the shards, and no other run with such records is listed before they are claimed.
    /// Reads the runs: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the store does not claim shards. [`ErrorKind::Busy`]: a run cannot be read now.
    /// [`ErrorKind::Damaged`]: a run is damaged.
    pub fn begin_claims(&self, shards: impl IntoIterator<Item = Shard>) -> Result<Claims> {
        self.0.engine.must_share("claim a shard")?;
        let alarms = self.0.engine.archived_alarms(shards)?;
        let engine = self.0.engine.clone();
        Ok(Claims { engine, alarms })
    }

    /// Claims a single shard: see [`Store::begin_claims`] and [`Claims::claim`].
    ///
    /// # Errors
    /// Of both.
    pub fn claim_shard(&self, claim: &ShardClaim) -> Result<()> {
        self.begin_claims([claim.shard])?.claim(claim)
    }

    /// Writes a run of history with records of tenures: what earlier owners have left of the store's shards, and then its own records of
    /// them up to a checkpoint ([`Store::checkpointed`]). `number` is that of no other run of any store. `None` if there are no records.
    ///
    /// The run is durable on this disk, and no store lists it yet. All runs that were listed before are listed here, and have what is
    /// before these records. The tenures of each shard come in the order of their generations. Takes memory for all records, and reads
    /// older runs: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the store does not share runs, or a log lacks a part. [`ErrorKind::Damaged`]: the runs lack commits that are
    /// before the records. [`ErrorKind::Busy`]: a run cannot be read now. A disk error. In all cases there is no run.
    pub fn write_run(
        &self,
        number: u64,
        tenures: &[(Shard, Inherited)],
    ) -> Result<Option<WrittenRun>> {
        self.0.engine.write_shared_run(number, tenures)
    }

    /// Returns whether there are runs to merge, for which the disk has room.
    pub fn has_runs_to_merge(&self) -> bool {
        self.0.engine.archive.runs_to_merge().is_some()
    }

    /// Merges adjacent runs of the list into one that has all that they have: eight that were made by as many merges. `None` if there are
    /// none. `number` is that of no other run of any store. No other store merges any of them meanwhile, and none is removed.
    ///
    /// The run is durable on this disk, and no store lists it yet: [`Store::list_runs`] puts it in the place of those that it replaces.
    /// Reads them as a whole: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the store does not share runs. [`ErrorKind::Busy`]: a run cannot be read now. [`ErrorKind::Damaged`]: a run
    /// is damaged. A disk error. In all cases there is no run, and those that were to be merged are left out for an hour.
    pub fn merge_runs(&self, number: u64) -> Result<Option<MergedRun>> {
        self.0.engine.merge_shared_runs(number)
    }

    /// Adds runs to the list, which all stores have in the same order. One that has the places of others replaces them. From now on objects that a claim finds in no log have their states
    /// in the runs, and get their files when they are opened.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the store does not share runs, or a place is too high. [`ErrorKind::Damaged`]: a description is not valid. A
    /// disk error.
    pub fn list_runs(&self, runs: &[SharedRun]) -> Result<()> {
        self.0.engine.list_shared_runs(runs)
    }

    /// The position of the newest checkpoint. The records after it can be read without those before it and without object files, if they
    /// have what is before them in runs.
    pub fn checkpointed(&self) -> Lsn {
        self.0.engine.shared.catalog.current().redo()
    }

    /// Stops logging a shard. Returns the end of the log: all records of the shard are before it. Another store may claim the shard
    /// once [`Store::durable`] has reached that position. From now on its objects cannot be opened, and their commits fail with
    /// [`ErrorKind::Moved`].
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the store does not claim shards, or does not own this one.
    pub fn close_shard(&self, shard: Shard) -> Result<Lsn> {
        self.0.engine.close_shard(shard)
    }

    /// Removes the objects, alarms and files of a shard that was closed, so that it can be claimed again. Not for a thread that runs
    /// objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the store does not claim shards, or the shard is not closed. [`ErrorKind::Refused`]: one of its
    /// objects is open; nothing has changed. A disk error: some of it may be removed; call it again.
    pub fn forget_shard(&self, shard: Shard) -> Result<()> {
        self.0.engine.forget_shard(shard)
    }

    /// Deletes a namespace with all its objects and their alarms. Returns whether there was one. This cannot be undone.
    /// A new namespace with the same unique key has nothing of it. The archive drops the history of the objects when it
    /// merges the runs that hold it, at the latest when it expires.
    ///
    /// The deletion is durable when this returns; if the process ends before all files are removed, the next start
    /// removes the rest. Takes a checkpoint: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: one of its objects is open. Nothing has changed.
    pub fn delete_namespace(&self, unique_key: &str) -> Result<bool> {
        self.0.engine.delete_namespace(unique_key)
    }

    /// Returns whether the object may have its state in the archive alone, because the directory was restored lazily
    /// ([`RestoreOptions::lazy`](crate::RestoreOptions::lazy)), or because stores share runs ([`Store::list_runs`]): then [`Store::open_object`] first does what [`Store::hydrate`]
    /// does. Does not ask the disk.
    pub fn may_need_hydration(&self, key: ObjectKey) -> bool {
        self.0.engine.hydration.may_lack(key)
    }

    /// The objects whose pages are read from the archive as they are needed, because they are large and have no files yet.
    /// Reading one may take as long as the archive does: they should not share a thread with others. While the archive cannot be
    /// read, objects that have their files may be among them.
    pub fn large_cold_objects(&self) -> Vec<ObjectKey> {
        self.0.engine.large_cold_objects()
    }

    /// Has the object ready to be opened, if it has its state in the archive alone: its file is written, durably. All such objects
    /// get their files in the background, except those in shared runs; this one gets it now. Takes as long as reading and writing the object does: not for a
    /// thread that runs objects. A large one ([`RestoreOptions::large_bytes`](crate::RestoreOptions::large_bytes)) is ready without
    /// a file: it is read page by page until it has one.
    ///
    /// # Errors
    /// The archive or the disk cannot be read or written; nothing is lost, and a later call tries again. An object without a
    /// whole state in the archive is quarantined, and the call succeeds. [`ErrorKind::Moved`]: the store does not own its shard.
    pub fn hydrate(&self, key: ObjectKey) -> Result<()> {
        self.0.engine.hydrate(key)
    }

    /// Opens an object's database, or creates a new one. An object has one connection at a time.
    pub fn open_object(&self, key: ObjectKey) -> Result<ObjectDb> {
        self.0.engine.open_database(key)
    }

    /// The bookmark of the object's newest commit, durable when it returns. The object may be open.
    pub fn bookmark(&self, key: ObjectKey) -> Result<Bookmark> {
        self.0.engine.bookmark(key)
    }

    /// The bookmark of the object's newest commit at or before a time (milliseconds since 1970). Reads files and may take a
    /// checkpoint: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the object did not exist at that time, its archived history begins later, or a part of the
    /// history is missing there, because the archive was off or had to drop it; the message says when.
    /// [`ErrorKind::Damaged`]: the archive is damaged; the message names the file.
    pub fn bookmark_at(&self, key: ObjectKey, unix_millis: u64) -> Result<Bookmark> {
        self.0.engine.bookmark_at(key, unix_millis)
    }

    /// The database of an object as it was at a bookmark, which changes nothing. The object may be open, deleted or
    /// quarantined. Reads files, may take a checkpoint, and takes as much disk space as the object had then: not for a thread
    /// that runs objects.
    ///
    /// # Errors
    /// As [`Store::bookmark_at`]; [`ErrorKind::NoSpace`] if the disk has no room for it beside commits.
    pub fn database_at(&self, key: ObjectKey, at: &Bookmark) -> Result<PastDatabase> {
        self.0.engine.database_at(key, at)
    }

    /// Restores an object to a bookmark with its own commit, and returns the bookmark that undoes it. If the
    /// archive lacks the present state, a snapshot of it is archived first. Durable when it returns. The object must
    /// not be open. Reads files and may take a checkpoint: not for a thread that runs objects.
    ///
    /// For an object that is quarantined, or whose file cannot be read, this is a repair ([`Repair::Restore`]),
    /// whatever its size. The bookmark is then that of the newest state in its history.
    ///
    /// # Errors
    /// As [`Store::bookmark_at`]; [`ErrorKind::Limit`] if more pages differ than one transaction may change;
    /// [`ErrorKind::Refused`] if the object is open. Nothing is changed in these cases.
    pub fn restore(&self, key: ObjectKey, to: &Bookmark) -> Result<Bookmark> {
        self.0.engine.restore(key, to, Afterwards::Act)
    }

    /// As [`Store::restore`]; the object is then dormant: its alarms do not go off until it is activated.
    ///
    /// # Errors
    /// As [`Store::restore`].
    pub fn restore_dormant(&self, key: ObjectKey, to: &Bookmark) -> Result<Bookmark> {
        self.0.engine.restore(key, to, Afterwards::Dormant)
    }

    /// Performs the restore requested with [`ObjectDb::request_restore`], if there is one. An impossible restore is
    /// discarded, with an error in the program's log, so that the object can start. Otherwise as [`Store::restore`].
    pub fn restore_requested(&self, key: ObjectKey) -> Result<()> {
        self.0.engine.restore_requested(key)
    }

    /// Gives `to`, which is new or [has no content](ObjectDb::is_vacant), the content that `from` had at a bookmark, in one
    /// commit, whatever its size. The two may be of different namespaces. `name` is the name of `to`; without one it keeps its
    /// own, if it has any. It is dormant: its alarms do not go off until it is activated. Durable when it returns. Reads files and
    /// may take a checkpoint: not for a thread that runs objects.
    ///
    /// # Errors
    /// As [`Store::restore`], of both objects; [`ErrorKind::Input`] if `to` has content, or is the same object. Nothing is
    /// changed in these cases.
    pub fn fork(
        &self,
        from: ObjectKey,
        at: &Bookmark,
        to: ObjectKey,
        name: Option<&str>,
    ) -> Result<()> {
        self.0.engine.fork(from, at, to, name)
    }

    /// Takes a cut: the present end of the durable log, at which all objects can be exported while they are written. Takes a
    /// checkpoint: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: the archive is off, or lacks the state of an object that is not quarantined.
    pub fn cut(&self) -> Result<Cut> {
        self.0.engine.cut()
    }

    /// The first `limit` objects after one, as of a cut: of a namespace, or of all. [`Store::database_at`] has the database of
    /// each at its bookmark. Reads the archive's indexes, and the history of each object that was written since: not for a thread
    /// that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: history of the cut was lost, or dropped because it had expired; take another cut.
    /// [`ErrorKind::Damaged`]: the archive is damaged.
    pub fn cut_objects(
        &self,
        cut: &Cut,
        namespace: Option<NamespaceNo>,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<CutPage> {
        self.0.engine.cut_objects(cut, namespace, after, limit)
    }

    /// The position that no timeline is above at the moment: for an export of a store in which nothing is written.
    pub fn timelines_end(&self) -> TimelinesEnd {
        self.0.engine.timelines_end()
    }

    /// A database on its way into the store, for [`Store::import`].
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn incoming(&self) -> Result<Incoming> {
        self.0.engine.incoming()
    }

    /// Creates an object from a database, in one commit: whole or absent after a crash, whatever its size. It is on a new timeline,
    /// above those in its tables and [`Import::above`]. Durable when it returns. Reads and writes files: not for a thread that
    /// runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the object exists, or it cannot have this database; the message says why. [`ErrorKind::Limit`]: the
    /// database is too large. [`ErrorKind::NoSpace`]. Nothing has changed in these cases.
    pub fn import(&self, key: ObjectKey, database: Incoming, import: &Import<'_>) -> Result<()> {
        self.0.engine.import(key, database, import)
    }

    /// The objects that are unavailable until they are repaired, and why.
    pub fn quarantined(&self) -> Vec<QuarantinedObject> {
        self.0.engine.objects.quarantined()
    }

    /// Ends the quarantine of an object, or repairs one whose file cannot be read. The old file is kept in the same
    /// directory: [`Repaired::kept`]. Durable when it returns. The object must not be open. Reads files and takes
    /// checkpoints: not for a thread that runs objects.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the object is not quarantined, or as [`Store::bookmark_at`]; [`ErrorKind::Refused`]:
    /// there is no valid database to accept, or the object is open; otherwise a disk error. The object then stays
    /// quarantined, and nothing is lost.
    pub fn repair(&self, key: ObjectKey, how: Repair) -> Result<Repaired> {
        self.0.engine.repair(key, how, Afterwards::Act)
    }

    /// The path of the object's file, whether or not it exists yet. It is a plain SQLite database; after
    /// [`Store::checkpoint`] or [`Store::close`] it is complete.
    pub fn object_path(&self, key: ObjectKey) -> Option<PathBuf> {
        self.0.engine.shared.catalog.object_path(key)
    }

    /// The stored objects, in the order of their ids, with those that are quarantined. Reads directories: not for hot paths.
    pub fn objects(&self, namespace: NamespaceNo) -> Result<Vec<ObjectKey>> {
        self.objects_after(namespace, None, usize::MAX)
    }

    /// The first `limit` stored objects after an id, in the order of their ids. Reads directories: not for hot paths.
    pub fn objects_after(
        &self,
        namespace: NamespaceNo,
        after: Option<[u8; 32]>,
        limit: usize,
    ) -> Result<Vec<ObjectKey>> {
        self.0.engine.objects_after(namespace, after, limit)
    }

    /// Returns whether an object is stored. Reads a directory and opens no file: not for hot paths.
    pub fn has_object(&self, key: ObjectKey) -> Result<bool> {
        self.0.engine.has_object(key)
    }

    /// Returns whether an object has a past that can be restored: it was stored once, and its history is kept. Reads the archive's
    /// indexes.
    pub fn has_history(&self, key: ObjectKey) -> bool {
        let engine = &self.0.engine;
        let has_just_ended = engine.has_ended(key);
        has_just_ended || engine.archive.has_history(key)
    }

    /// The alarms of all objects.
    pub fn alarms(&self) -> &AlarmIndex {
        &self.0.engine.alarms
    }

    /// Notes that the wall clock was set back by this many milliseconds: waiting alarms go off as if it had not been.
    /// Call it before anything is written with the new time: the step is durable when this returns.
    ///
    /// # Errors
    /// If the manifest cannot be written. The step counts, and is saved before the next commit, or that fails.
    pub fn clock_set_back(&self, by_millis: i64) -> Result<()> {
        self.0.engine.clock_set_back(by_millis)
    }

    /// The time of the store's clock ([`StoreOptions::unix_millis`]), in milliseconds since 1970.
    pub fn unix_millis(&self) -> u64 {
        self.0.engine.shared.unix_millis()
    }

    /// Has `watch` called after each reading of the wall clock whose time is stored. If the clock was set back, it must
    /// [say so](Self::clock_set_back) before it returns, so that waits and the times of commits agree about the step. It
    /// replaces an earlier watch.
    pub fn watch_clock(&self, watch: impl Fn() + Send + Sync + 'static) {
        *self.0.engine.shared.clock_watch.write() = Some(Arc::new(watch));
    }

    /// Counts a step back of the wall clock since the newest time that was stored: no process saw it. Call it when a process
    /// begins to look at the clock, and before [`Self::watch_clock`].
    ///
    /// # Errors
    /// As [`Self::clock_set_back`].
    pub fn catch_up_with_clock(&self) -> Result<()> {
        self.0.engine.catch_up_with_clock()
    }

    /// Whether the store has its own threads, which write the log and take checkpoints. Without them
    /// ([`StoreOptions::manual`]) the caller does that work.
    pub fn has_threads(&self) -> bool {
        self.0.engine.shared.threads
    }

    /// The position after the newest commit of any object, durable or not.
    pub fn appended(&self) -> Lsn {
        self.0.engine.shared.log.appended()
    }

    /// Everything before this position is durable and, with [`StoreOptions::await_copy`], copied: others may see it.
    pub fn durable(&self) -> Lsn {
        self.0.engine.shared.log.released()
    }

    /// Everything before this position is durable on this machine.
    pub fn durable_here(&self) -> Lsn {
        self.0.engine.shared.log.durable()
    }

    /// Returns once the log is durable on this machine beyond a position, has failed or is closed, or after a time.
    pub fn wait_beyond(&self, lsn: Lsn, timeout: Duration) {
        self.0.engine.shared.log.wait_beyond(lsn, timeout);
    }

    /// Says that everything before this position is copied to another place, where it survives the loss of this machine.
    /// With [`StoreOptions::await_copy`] that releases what is durable here up to this position: listeners may be
    /// notified on the calling thread. A position that is not above the last one, and a failed log, change nothing.
    pub fn copied(&self, lsn: Lsn) {
        self.0.engine.shared.log.copied(lsn);
    }

    /// Says that this version of the history ([`Store::history_version`]) is copied to another place, or one that is newer. A
    /// commit of a large restore or fork continues a new state that is among [`HistoryCopy::runs`]: [`Store::log_part`] ends
    /// before it until the version that has the state is copied.
    pub fn history_copied(&self, version: u64) {
        self.0.engine.gate.copied(version);
    }

    /// Says which runs of [`HistoryCopy::runs`] the store of [`StoreOptions::remote_runs`] has durably, by their numbers, each with
    /// what [`RemoteRuns::open`](crate::RemoteRuns::open) is to be told of it. It keeps them as long as the history lists them. They may leave the disk:
    /// see [`ArchiveOptions::local_bytes`](crate::ArchiveOptions::local_bytes). Each call replaces what the one before has said.
    pub fn runs_copied(&self, places: BTreeMap<u64, String>) {
        self.0.engine.archive.note_copied(places);
        self.0.engine.keeping.request();
    }

    /// Gives up the history that is in a store elsewhere alone, because that store is lost. Objects keep their states; the archive gets
    /// snapshots of them in the background. Returns how many bytes the runs had.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] after a lazy restore, until every object has its file.
    pub fn give_up_remote_history(&self) -> Result<u64> {
        self.0.engine.archive.give_up_remote()
    }

    /// Returns whether [`Store::log_part`] ends before what is durable until the present version of the history is copied.
    pub fn awaits_history_copy(&self) -> bool {
        self.0.engine.gate.is_waiting()
    }

    /// Reads whole records of the durable log, to copy them: from `from` on, which is the end of an earlier part, or from
    /// the end of the archive. `None` if nothing after that is durable. The part has about `most` bytes of records, or
    /// fewer, but at least one record; it may end within a transaction. Reads a file: not for a thread that runs objects.
    ///
    /// If the log no longer has `from`, because it is archived, the part begins at the oldest position that is kept: then
    /// its `first` is above `from`, and a new [`Store::history_copy`] has what is before.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`]: the log is damaged there, or `from` is not the end of a record. Otherwise a disk error.
    pub fn log_part(&self, from: Option<Lsn>, most: usize) -> Result<Option<LogPart>> {
        self.0.engine.log_part(from, most)
    }

    /// Fails the log, because of an error of the caller: nothing more is acknowledged until the process restarts. What waits for
    /// the log fails, and [`Store::failed`] returns true.
    pub fn fail(&self, why: &str) {
        self.0.engine.shared.log.poison(why);
    }

    /// The same without a word in the log: the caller has given its objects to others, and ends.
    pub fn retire(&self, why: &str) {
        self.0.engine.shared.log.end(why);
    }

    /// Returns whether the log has failed: the process must restart.
    pub fn failed(&self) -> bool {
        self.0.engine.shared.log.failed()
    }

    /// Notifies `listener` of each new [`Store::durable`], in order, and once of a failure, from a thread of the store or from
    /// the one that calls [`Store::copied`] or made the log fail. The listener must return quickly and must not call the store. A panic of it is
    /// logged and counted in [`StoreStats::listener_panics`]; it is still notified of the next group.
    pub fn subscribe(&self, listener: Box<dyn Fn(Progress) + Send + Sync>) {
        self.0.engine.shared.log.subscribe(listener);
    }

    /// Brings every object file up to date with what has been committed.
    pub fn checkpoint(&self) -> Result<()> {
        self.0.engine.checkpoint()
    }

    /// Clean shutdown: every commit is durable, every object file is up to date, threads have ended and the lock is
    /// released. Drop all [`ObjectDb`]s first. Afterwards the store can only be dropped. A second call waits for the first
    /// and does nothing.
    pub fn close(&self) -> Result<()> {
        let mut closed = self.0.closed.lock();
        if mem::replace(&mut *closed, true) {
            return Ok(());
        }
        let result = self.0.engine.checkpoint();
        self.0.stop();
        self.0.engine.checkpointer.close();
        result
    }

    /// Writes one group to the log; returns whether there was one. For `manual` stores.
    pub fn write_group(&self) -> bool {
        self.0.engine.shared.log.write_group()
    }

    /// Reads the whole archive, checks every checksum, and returns the number of its entries.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] with the name of the file.
    pub fn verify_archive(&self) -> Result<u64> {
        self.0.engine.archive.verify()
    }

    /// The parts of the history that were dropped for lack of space, oldest first. Individual commits in them cannot be
    /// restored. Those older than the retention are no longer listed.
    pub fn archive_holes(&self) -> Vec<ArchiveHole> {
        self.0.engine.shared.catalog.current().archive.holes.clone()
    }

    /// What to copy so that a data directory can be built from the archive. `None` while the archive is off, and while a
    /// part of the log before the last checkpoint is not archived: ask again after the next change of
    /// [`Store::history_version`]. In that case a store with threads soon takes a checkpoint, which archives it. Reads no
    /// files.
    pub fn history_copy(&self) -> Option<HistoryCopy> {
        let copy = self.0.engine.history_copy();
        // A manifest that was published can be encoded.
        copy.ok().flatten()
    }

    /// Opens a copy of the archive, to compare objects with it. `disk` shows its runs below `dir`, as a data directory has them,
    /// and is only read; `manifest` is that of the copy ([`HistoryCopy::manifest`]).
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`]: a run is missing or damaged. [`ErrorKind::Refused`]: the manifest is damaged, or of another format.
    pub fn open_copy(&self, disk: &dyn Disk, dir: &Path, manifest: &[u8]) -> Result<CopiedArchive> {
        self.0.engine.open_copy(disk, dir, manifest)
    }

    /// Reads all pages of an object as they are in its file and in memory, at one commit. The object may be open: commits and
    /// checkpoints wait for one page at most. `None` if the object is quarantined, was written again each time, or has no file yet
    /// after a lazy restore, or in a store that shares runs. Reads a file: not for a thread that runs objects.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn fingerprint(&self, key: ObjectKey) -> Result<Option<Fingerprint>> {
        self.0.engine.fingerprint(key)
    }

    /// A number that rises whenever what [`Store::history_copy`] returns changes, except its `archived_millis` and
    /// `missing_objects`. It begins anew when the store is opened. While nothing is written, it stays.
    pub fn history_version(&self) -> u64 {
        self.0.engine.shared.catalog.current_history().1
    }

    /// Prepares segments, merges runs of the archive, and takes a checkpoint if one is due, as the threads of a store do unless
    /// it is `manual`.
    pub fn run_maintenance(&self) -> Result<()> {
        self.0.engine.run_maintenance()
    }

    /// Returns whether there is no space for new segments of the log or for checkpoints.
    pub fn no_space(&self) -> bool {
        self.0.engine.shared.no_space()
    }

    /// The commit that has been waiting longest, and for what.
    pub fn commit_wait(&self) -> Option<CommitWait> {
        self.0.engine.waits.longest()
    }

    /// How long the commits being made durable have waited for the disk, at least. Later commits may be queued.
    pub fn sync_wait(&self) -> Option<Duration> {
        self.0.engine.shared.log.group_wait()
    }

    /// How long the log's listeners have been running since they were last notified. Answers wait until they return.
    pub fn listener_wait(&self) -> Option<Duration> {
        self.0.engine.shared.log.listener_wait()
    }

    /// Statistics for metrics.
    pub fn stats(&self) -> StoreStats {
        StoreStats::of(&self.0.engine)
    }
}

impl Inner {
    fn stop(&self) {
        self.engine.stop();
        for thread in self.threads.lock().drain(..) {
            // A listener may drop the last handle, on the writer's own thread.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
        self.engine.shared.catalog.give_up();
    }
}
