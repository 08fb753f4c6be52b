//! A disk for a store whose log counts elsewhere.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use abide_storage::{Barrier, Disk, DiskFile, OpenMode};

/// Another disk, on which files of one directory are not synced. What reads them has to check what it reads: the log's records have
/// checksums. All other files are synced, although they need not survive the process, because only that reports a page that the
/// system could not write: it would be read again with an older content.
pub(crate) struct UnsyncedLog<D> {
    disk: D,
    log: PathBuf,
}

struct Unsynced(Arc<dyn DiskFile>);

impl<D> UnsyncedLog<D> {
    /// `log` is the directory that is not synced.
    pub(crate) fn new(disk: D, log: PathBuf) -> Self {
        Self { disk, log }
    }
}

impl<D: Disk> Disk for UnsyncedLog<D> {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn others_may_read(&self, dir: &Path) -> bool {
        self.disk.others_may_read(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, mode)?;
        if path.parent() == Some(&self.log) {
            return Ok(Arc::new(Unsynced(file)));
        }
        Ok(file)
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.disk.file_len(path)
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.temporary(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if dir == self.log {
            return Ok(());
        }
        self.disk.sync_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        if dir == self.log {
            return Ok(Box::new(|| Ok(())));
        }
        self.disk.names(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.disk.available(dir)
    }

    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        self.disk.barrier(dir)
    }
}

impl DiskFile for Unsynced {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide_storage::{DiskEvent, LOG_DIR, ObjectKey, SimDisk, Store, StoreOptions};

    #[test]
    fn commits_sync_nothing_and_checkpoints_do() {
        let disk = SimDisk::new();
        let dir = Path::new("/data");
        let unsynced = UnsyncedLog::new(disk.clone(), dir.join(LOG_DIR));
        let options = StoreOptions::small().manual(true);
        let store = Store::open(Arc::new(unsynced), dir, options).unwrap();
        let namespace = store.namespace("Synced").unwrap();
        let id = [3; 32];
        let db = store.open_object(ObjectKey { namespace, id }).unwrap();
        let syncs = || {
            let events = disk.take_events().into_iter();
            let is_sync = |event: &DiskEvent| {
                matches!(
                    event,
                    DiskEvent::Sync(_) | DiskEvent::SyncDir(_) | DiskEvent::SyncAll
                )
            };
            events.filter(is_sync).count()
        };
        disk.record_events();
        for value in 0..10_u8 {
            db.kv_put("k", &[value]).unwrap();
            db.commit().unwrap();
            assert!(store.write_group());
        }
        assert_eq!(syncs(), 0);
        disk.record_events();
        store.checkpoint().unwrap();
        assert!(syncs() > 0);
    }
}
