//! What the parts of a store share: the disk, the log, the objects that are open or have pages in the overlay, and
//! the bounds that make commits wait.

use crate::alarms::AlarmIndex;
use crate::archive::Archive;
use crate::broken::{Variant, broken};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{NamespaceNo, ObjectKey, Page};
use crate::limits::{LOG_TAIL_FACTOR, OPEN_FILES, OVERLAY_FACTOR, PAGE_BYTES};
use crate::log::Log;
use crate::log::local::Shelf;
use crate::manifest::Manifest;
use crate::overlay::{FileState, Object, Pages, header};
use crate::store::StoreOptions;
use crate::sync::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) struct Engine {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) log: Log,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) template: Vec<Arc<Page>>,
    pub(crate) alarms: AlarmIndex,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) archive: Archive,
    /// One checkpoint at a time.
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) checkpoints: AtomicU64,
    objects: Mutex<FxHashMap<ObjectKey, Arc<Object>>>,
    open_files: Mutex<VecDeque<Weak<Object>>>,
    /// Pages in all overlays.
    overlay_pages: AtomicU64,
    /// The last attempt to prepare a segment or to checkpoint met a full disk.
    no_space: AtomicBool,
    housekeeping: Mutex<Wanted>,
    pub(crate) wake: Condvar,
    /// True if threads write the log and keep house; else the caller of [`crate::Store`] does.
    pub(crate) threads: bool,
}

/// What housekeeping is asked to do.
#[derive(Default)]
struct Wanted {
    work: bool,
    stop: bool,
}

/// The parts of an engine that recovery has made.
pub(crate) struct Parts {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) log: Log,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) template: Vec<Arc<Page>>,
    pub(crate) manifest: Manifest,
    pub(crate) archive: Archive,
    pub(crate) objects: FxHashMap<ObjectKey, Arc<Object>>,
    pub(crate) alarms: AlarmIndex,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Self {
        let overlay_pages = parts
            .objects
            .values()
            .map(|o| o.pages().overlay.len() as u64)
            .sum();
        let threads = !parts.options.manual;
        Self {
            disk: parts.disk,
            dir: parts.dir,
            options: parts.options,
            log: parts.log,
            shelf: parts.shelf,
            template: parts.template,
            alarms: parts.alarms,
            manifest: Mutex::new(parts.manifest),
            archive: parts.archive,
            checkpointing: Mutex::new(()),
            checkpoints: AtomicU64::new(0),
            objects: Mutex::new(parts.objects),
            open_files: Mutex::default(),
            overlay_pages: AtomicU64::new(overlay_pages),
            no_space: AtomicBool::new(false),
            housekeeping: Mutex::default(),
            wake: Condvar::default(),
            threads,
        }
    }

    pub(crate) fn unix_millis(&self) -> u64 {
        (self.options.unix_millis)()
    }

    /// The file of an object in the data directory.
    pub(crate) fn object_path(dir: &Path, manifest: &Manifest, key: ObjectKey) -> Option<PathBuf> {
        let hex = key.id_hex();
        let namespace = dir
            .join("objects")
            .join(directory_name(manifest.unique_key(key.namespace)?));
        Some(namespace.join(&hex[..2]).join(format!("{hex}.sqlite")))
    }

    /// The object, which stays in the map while it is open or has pages in the overlay.
    pub(crate) fn object(&self, key: ObjectKey) -> Result<Arc<Object>> {
        if let Some(object) = self.objects.lock().get(&key) {
            return Ok(object.clone());
        }
        let path = Self::object_path(&self.dir, &self.manifest.lock(), key).ok_or_else(|| {
            Error::input(format!(
                "there is no namespace number {} in this data directory",
                key.namespace.0
            ))
        })?;
        let mut objects = self.objects.lock();
        let object = objects
            .entry(key)
            .or_insert_with(|| Arc::new(Object::new(key, path)));
        Ok(object.clone())
    }

    /// All objects that are open or have pages in the overlay.
    pub(crate) fn live_objects(&self) -> Vec<Arc<Object>> {
        self.objects.lock().values().cloned().collect()
    }

    pub(crate) fn open_objects(&self) -> usize {
        self.objects.lock().len()
    }

    /// Takes an object for a connection: learns its size and commit number, and refuses it if it is damaged.
    pub(crate) fn open_object(&self, key: ObjectKey) -> Result<Arc<Object>> {
        if let Some(why) = self.manifest.lock().quarantined.get(&key.to_string()) {
            return Err(quarantined(key, why));
        }
        loop {
            let object = self.object(key)?;
            // Between the look-up and this lock a checkpoint may have dropped it from the map: look again then.
            let objects = self.objects.lock();
            let known = objects
                .get(&key)
                .is_some_and(|known| Arc::ptr_eq(known, &object));
            let mut pages = object.pages();
            drop(objects);
            if !known {
                continue;
            }
            let shared = broken(Variant::OpenedTwice);
            if pages.open && !shared {
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!("the object {key} is open already; an object has one connection"),
                ));
            }
            self.look_at_file(&object, &mut pages)?;
            if let Some(why) = &pages.quarantined {
                return Err(quarantined(key, why));
            }
            pages.open = true;
            drop(pages);
            return Ok(object);
        }
    }

    /// Reads size and commit number from the file, and compares them with the log's tail.
    pub(crate) fn look_at_file(&self, object: &Arc<Object>, pages: &mut Pages) -> Result<()> {
        if pages.size > 0 && pages.tail.is_none() {
            return Ok(());
        }
        let in_file = match self.file(object, pages)? {
            None => None,
            Some(file) => {
                let mut head = [0; 100];
                let read = file.read_at(&mut head, 0);
                let read = read.map_err(|e| {
                    Error::io(format_args!("reading {}", object.path.display()), &e)
                })?;
                // A file that was made but never synced can be found empty after a crash; the log then has it all.
                (read == head.len()).then_some((header::commit(&head), header::size(&head)))
            }
        };
        match (in_file, pages.tail.take()) {
            (Some((commit, _)), Some(first)) if first.is_after(commit.next()) => {
                pages.quarantined = Some(format!(
                    "its file ends with commit {}, the log goes on with commit {}",
                    commit.0, first.0
                ));
            }
            (Some((commit, _)), Some(_)) if commit.is_after(pages.commit) => {
                pages.quarantined = Some(format!(
                    "its file has commit {}, the log ends with commit {}",
                    commit.0, pages.commit.0
                ));
            }
            (None, Some(first)) if first.0 != 1 => {
                pages.quarantined = Some(format!(
                    "its file is missing, the log goes on with commit {}",
                    first.0
                ));
            }
            (Some((commit, size)), None) => {
                pages.commit = commit;
                pages.size = size;
                // Where it ends is not known; files hold nothing that was not durable.
                pages.newest = pages.newest.max(self.log.durable());
            }
            _ => {}
        }
        Ok(())
    }

    /// A connection has closed.
    pub(crate) fn close_object(&self, object: &Object) {
        object.pages().open = false;
        self.forget_if_idle(object);
    }

    /// Drops an object from the map if nobody has it open and its file has all of it.
    pub(crate) fn forget_if_idle(&self, object: &Object) {
        let mut objects = self.objects.lock();
        let pages = object.pages();
        // The map may hold a later incarnation under this key.
        let known = objects
            .get(&object.key)
            .is_some_and(|known| std::ptr::eq(&raw const **known, object));
        if known && !pages.open && pages.overlay.is_empty() && pages.quarantined.is_none() {
            objects.remove(&object.key);
        }
    }

    /// The object's file, if it has one. Descriptors are given back in the order in which they were opened.
    pub(crate) fn file(
        &self,
        object: &Arc<Object>,
        pages: &mut Pages,
    ) -> Result<Option<Arc<dyn DiskFile>>> {
        match &pages.file {
            FileState::Missing => return Ok(None),
            FileState::Open(file) => return Ok(Some(file.clone())),
            FileState::Unknown => {}
        }
        match self.disk.open(&object.path, OpenMode::Existing) {
            Ok(file) => {
                pages.file = FileState::Open(file.clone());
                self.give_back_descriptors(object);
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                pages.file = FileState::Missing;
                Ok(None)
            }
            Err(error) => Err(Error::io(
                format_args!("opening {}", object.path.display()),
                &error,
            )),
        }
    }

    /// The caller holds `newest` locked. Another that is locked at this moment keeps its descriptor until its file is
    /// looked up again.
    fn give_back_descriptors(&self, newest: &Arc<Object>) {
        let oldest = {
            let mut open = self.open_files.lock();
            open.push_back(Arc::downgrade(newest));
            if open.len() > OPEN_FILES {
                open.pop_front()
            } else {
                None
            }
        };
        if let Some(oldest) = oldest.and_then(|o| o.upgrade())
            && oldest.key != newest.key
            && let Some(mut pages) = oldest.try_pages()
        {
            pages.file = FileState::Unknown;
        }
    }

    /// Notes that an overlay went from `before` to `after` pages.
    pub(crate) fn count_overlay(&self, before: usize, after: usize) {
        self.overlay_pages.fetch_add(
            (after as u64).wrapping_sub(before as u64),
            Ordering::Relaxed,
        );
        if self.wants_checkpoint() {
            self.want_housekeeping();
        }
    }

    pub(crate) fn overlay_bytes(&self) -> u64 {
        self.overlay_pages.load(Ordering::Relaxed) * PAGE_BYTES as u64
    }

    /// Bytes of log that a recovery would read now.
    pub(crate) fn log_tail(&self) -> u64 {
        self.log
            .durable()
            .get()
            .saturating_sub(self.manifest.lock().redo)
    }

    pub(crate) fn wants_checkpoint(&self) -> bool {
        let bytes = self.options.checkpoint_bytes;
        let since = self
            .log
            .durable()
            .get()
            .saturating_sub(self.log.floor().get());
        since >= bytes || self.overlay_bytes() >= bytes
    }

    /// True if commits must wait for a checkpoint.
    pub(crate) fn overlay_is_full(&self) -> bool {
        self.overlay_bytes() >= self.options.checkpoint_bytes.saturating_mul(OVERLAY_FACTOR)
    }

    /// True if no further segment is prepared before a checkpoint has freed some.
    pub(crate) fn log_is_full(&self) -> bool {
        let kept = self.manifest.lock().archived().get();
        let tail = self.log.durable().get().saturating_sub(kept);
        tail >= self
            .options
            .checkpoint_bytes
            .saturating_mul(LOG_TAIL_FACTOR)
    }

    /// Waits until there may be room for a commit. Called by committers that were told [`crate::log::Refused::NoRoom`],
    /// who hold no lock.
    pub(crate) fn make_room(self: &Arc<Self>) -> Result<()> {
        if !self.threads {
            self.log.must_be_open()?;
            self.log.write_group();
            return self.keep_house();
        }
        self.log.must_be_open()?;
        // A segment that a transaction waits for, or the first one.
        let out_of_segments = self.log.wants_segment(1);
        if self.no_space() && (out_of_segments || self.overlay_is_full()) {
            return Err(Error::no_space());
        }
        self.want_housekeeping();
        self.log.wait_for_progress(Duration::from_millis(50));
        Ok(())
    }

    pub(crate) fn no_space(&self) -> bool {
        self.no_space.load(Ordering::Acquire)
    }

    pub(crate) fn set_no_space(&self, no_space: bool) {
        if self.no_space.swap(no_space, Ordering::AcqRel) != no_space {
            if no_space {
                tracing::error!(dir = %self.dir.display(), "the disk of the data directory is full: commits are refused until space is freed");
            } else {
                tracing::info!("the disk has space again; commits are accepted");
            }
        }
    }

    pub(crate) fn want_housekeeping(&self) {
        let mut wanted = self.housekeeping.lock();
        if !wanted.work {
            wanted.work = true;
            drop(wanted);
            self.wake.notify_all();
        }
    }

    pub(crate) fn stop_housekeeping(&self) {
        self.archive.stop();
        self.housekeeping.lock().stop = true;
        self.wake.notify_all();
    }

    /// Waits for work or a timeout. False: stop.
    pub(crate) fn await_housekeeping(&self, timeout: Duration) -> bool {
        let mut wanted = self.housekeeping.lock();
        if !wanted.work && !wanted.stop {
            wanted = self.wake.wait_timeout(wanted, timeout);
        }
        wanted.work = false;
        !wanted.stop
    }

    /// The number of a namespace; a new one is durable before it is returned.
    pub(crate) fn namespace(&self, unique_key: &str) -> Result<NamespaceNo> {
        if unique_key.is_empty() || unique_key.len() > 128 {
            return Err(Error::input("a namespace's unique key has 1 to 128 bytes"));
        }
        if directory_name(unique_key).len() > MAX_NAME_BYTES {
            return Err(Error::input(
                "a namespace's unique key is too long as a directory's name: use letters and digits",
            ));
        }
        let mut manifest = self.manifest.lock();
        if let Some(number) = manifest.namespace(unique_key) {
            return Ok(number);
        }
        let mut changed = manifest.clone();
        changed.namespaces.push(unique_key.to_owned());
        self.store_manifest(&changed)?;
        *manifest = changed;
        manifest.namespace(unique_key).ok_or_else(Error::no_space)
    }

    /// Publishes a manifest. If that fails for any reason but space, what is on disk is unknown: the log is poisoned.
    pub(crate) fn store_manifest(&self, manifest: &Manifest) -> Result<()> {
        manifest
            .store(&*self.disk, &self.dir)
            .inspect_err(|error| self.judge(error))
    }

    /// An error of the disk outside the log: a full disk is waited out, anything else stops the node.
    pub(crate) fn judge(&self, error: &Error) {
        match error.kind() {
            ErrorKind::NoSpace => self.set_no_space(true),
            ErrorKind::Io => self.log.poison(&error.to_string()),
            _ => {}
        }
    }
}

fn quarantined(key: ObjectKey, why: &str) -> Error {
    Error::damaged(format!(
        "the object {key} is quarantined: {why}. Restore the data directory from a backup"
    ))
}

/// The longest name in a directory, on every file system of Linux that matters (`NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// A directory's name for a unique key: letters, digits, `-`, `_` and inner dots stay, other bytes become `%XX`.
pub(crate) fn directory_name(unique_key: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    for (at, byte) in unique_key.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || (byte == b'.' && at > 0)
        {
            name.push(byte as char);
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::directory_name;

    #[test]
    fn a_unique_key_becomes_a_safe_directory_name() {
        assert_eq!(directory_name("FlightSeating"), "FlightSeating");
        assert_eq!(directory_name("../a b"), "%2E.%2Fa%20b");
    }
}
