//! The object files that are kept open for reading: up to [`OPEN_FILES`]; beyond that the least recently used is
//! closed.
//!
//! The table is sharded by object. A shard's lock is taken when a file is opened or closed, but not when it is used. A
//! use is recorded in the object itself, dated by the number of files that the shard had opened until then, which
//! orders uses closely enough. The table lists each file by its last known use, and checks the object before it closes
//! the file.
//!
//! Locks: the pages of an object are locked before a shard, never after. A file whose object is locked by another
//! thread at this moment stays open, so each thread can have one more file open than the table allows; the next file
//! that is opened makes up for it.

use crate::disk::DiskFile;
use crate::ident::ObjectKey;
use crate::limits::{OPEN_FILE_SHARDS, OPEN_FILES, PARALLEL_CORES};
use crate::overlay::{FileState, Object, Pages};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

pub(crate) struct OpenFiles {
    shards: Box<[Shard]>,
    /// Files of each shard.
    capacity: usize,
}

#[derive(Default)]
struct Shard {
    /// Files opened so far.
    opened: AtomicU64,
    /// By the last known use.
    open: Mutex<BTreeMap<(u64, ObjectKey), Weak<Object>>>,
}

impl OpenFiles {
    /// A table for a machine with this many cores. On a small machine there is no lock contention, and a single shard
    /// knows best which file to close.
    pub(crate) fn new(cores: usize) -> Self {
        let shards = if cores < PARALLEL_CORES {
            1
        } else {
            OPEN_FILE_SHARDS
        };
        Self::with_shards(shards, OPEN_FILES / shards)
    }

    fn with_shards(shards: usize, capacity: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            capacity,
        }
    }

    fn shard(&self, key: ObjectKey) -> &Shard {
        // Ids are hashes or random.
        &self.shards[usize::from(key.id[31]) % self.shards.len()]
    }

    /// An object's file, if it is open, to be used now.
    pub(crate) fn get<'a>(
        &self,
        object: &Object,
        pages: &'a Pages,
    ) -> Option<&'a Arc<dyn DiskFile>> {
        let FileState::Open(file) = &pages.file else {
            return None;
        };
        let now = self.shard(object.key).opened.load(Ordering::Relaxed);
        object.file_use.last.store(now, Ordering::Relaxed);
        Some(file)
    }

    /// Adds a newly opened file, used now. Closes the least recently used ones beyond the capacity.
    pub(crate) fn add(&self, object: &Arc<Object>, pages: &mut Pages, file: Arc<dyn DiskFile>) {
        self.close(object, pages);
        pages.file = FileState::Open(file);
        let shard = self.shard(object.key);
        let now = shard.opened.fetch_add(1, Ordering::Relaxed) + 1;
        object.file_use.last.store(now, Ordering::Relaxed);
        object.file_use.listed.store(now, Ordering::Relaxed);
        let closed = {
            let mut open = shard.open.lock();
            open.insert((now, object.key), Arc::downgrade(object));
            make_room(&mut open, self.capacity, object.key)
        };
        // The files are closed without holding the lock.
        drop(closed);
    }

    /// Closes an object's file, or forgets that it had none.
    pub(crate) fn close(&self, object: &Object, pages: &mut Pages) {
        if let FileState::Open(file) = std::mem::take(&mut pages.file) {
            let mut open = self.shard(object.key).open.lock();
            let listed = object.file_use.listed.swap(0, Ordering::Relaxed);
            open.remove(&(listed, object.key));
            drop(open);
            drop(file);
        }
    }

    /// Closes every file whose object is not locked at this moment, whatever the caller has locked. Returns whether
    /// there was one.
    pub(crate) fn close_idle(&self) -> bool {
        let mut closed = Vec::new();
        for shard in &self.shards {
            shard.open.lock().retain(|_, object| {
                let Some(object) = object.upgrade() else {
                    return false;
                };
                let Some(mut pages) = object.try_pages() else {
                    return true;
                };
                object.file_use.listed.store(0, Ordering::Relaxed);
                closed.push(std::mem::take(&mut pages.file));
                false
            });
        }
        // The files are closed without holding the locks.
        !closed.is_empty()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.open.lock().len())
            .sum()
    }
}

/// Removes files from a shard that has more than `capacity`, the least recently used first, but not that of `newest`,
/// whose pages the caller has locked.
fn make_room(
    open: &mut BTreeMap<(u64, ObjectKey), Weak<Object>>,
    capacity: usize,
    newest: ObjectKey,
) -> Vec<FileState> {
    let mut closed = Vec::new();
    let mut busy = Vec::new();
    while open.len() + busy.len() > capacity
        && let Some(((listed, key), object)) = open.pop_first()
    {
        let Some(object_now) = object.upgrade() else {
            continue;
        };
        let last = object_now.file_use.last.load(Ordering::Relaxed);
        if last > listed {
            object_now.file_use.listed.store(last, Ordering::Relaxed);
            open.insert((last, key), object);
            continue;
        }
        match object_now.try_pages() {
            Some(mut pages) if key != newest => {
                object_now.file_use.listed.store(0, Ordering::Relaxed);
                closed.push(std::mem::take(&mut pages.file));
            }
            _ => busy.push(((listed, key), object)),
        }
    }
    open.extend(busy);
    closed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, OpenMode, SimDisk};
    use crate::ident::{Generation, NamespaceNo};
    use std::path::{Path, PathBuf};

    struct World {
        disk: SimDisk,
        files: OpenFiles,
    }

    fn object(id: u8) -> Arc<Object> {
        let key = ObjectKey {
            namespace: NamespaceNo(1),
            id: [id; 32],
        };
        let path = PathBuf::from(format!("/objects/{id}"));
        Arc::new(Object::new(key, Generation(1).into(), path))
    }

    impl World {
        fn new(shards: usize, capacity: usize) -> Self {
            let disk = SimDisk::new();
            disk.create_dir_all(Path::new("/objects")).unwrap();
            Self {
                disk,
                files: OpenFiles::with_shards(shards, capacity),
            }
        }

        /// Uses an object's file. True if it had to be opened.
        fn read(&self, object: &Arc<Object>) -> bool {
            let mut pages = object.pages();
            if self.files.get(object, &pages).is_some() {
                return false;
            }
            let file = self.disk.open(&object.path, OpenMode::Create).unwrap();
            self.files.add(object, &mut pages, file);
            true
        }
    }

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let world = World::new(1, 3);
        let [a, b, c, d] = [1, 2, 3, 4].map(object);
        for object in [&a, &b, &c] {
            assert!(world.read(object));
        }
        assert!(!world.read(&a), "it is open");
        assert!(world.read(&d), "b is closed for it");
        assert!(!world.read(&c) && !world.read(&a) && !world.read(&d));
        assert!(world.read(&b));
        assert_eq!(world.files.len(), 3);
    }

    #[test]
    fn a_file_that_is_always_used_stays_open_however_many_others_are_opened() {
        for shards in [1, 8] {
            let world = World::new(shards, 4);
            let hot = object(0);
            assert!(world.read(&hot));
            let others: Vec<_> = (1..=255).map(object).collect();
            for _ in 0..3 {
                for other in &others {
                    assert!(world.read(other));
                    assert!(!world.read(&hot), "{shards} shards");
                }
            }
            assert_eq!(world.files.len(), 4 * shards);
        }
    }

    #[test]
    fn a_file_in_use_by_another_thread_stays_open_and_is_closed_later() {
        let world = World::new(1, 2);
        let [a, b, c, d] = [1, 2, 3, 4].map(object);
        world.read(&a);
        world.read(&b);
        let (in_use, also) = (a.pages(), b.pages());
        world.read(&c);
        assert_eq!(world.files.len(), 3);
        drop((in_use, also));
        world.read(&d);
        assert_eq!(world.files.len(), 2);
        assert!(!world.read(&c) && !world.read(&d));
    }

    #[test]
    fn closed_files_and_objects_that_are_gone_take_no_place() {
        let world = World::new(1, 2);
        let [a, b, c] = [1, 2, 3].map(object);
        world.read(&a);
        world.read(&b);
        world.files.close(&a, &mut a.pages());
        world.read(&c);
        assert!(!world.read(&b) && !world.read(&c));
        drop(b);
        assert!(world.read(&a));
        assert!(!world.read(&c));
        assert_eq!(world.files.len(), 2);
    }
}
