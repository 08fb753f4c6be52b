//! How often an archive is read when the newest rows of a large object are asked for before it has a file.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use abide_storage::{DiskFile, MemoryBudget, RemoteRuns, SimDisk, Store, StoreOptions};

use super::large::{Far, key, lose_and_leave, options};
use super::life::object_files;
use crate::{
    common::{DIR, flush},
    recovery_points::world::noise,
};

/// A store elsewhere that counts what is read.
#[derive(Clone)]
struct Counting {
    far: SimDisk,
    /// The number of the run for each read.
    reads: Arc<Mutex<Vec<u64>>>,
}

struct CountingFile {
    number: u64,
    file: Arc<dyn DiskFile>,
    reads: Arc<Mutex<Vec<u64>>>,
}

impl RemoteRuns for Counting {
    fn open(&self, number: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = Far(self.far.clone()).open(number, place)?;
        let reads = self.reads.clone();
        Ok(Arc::new(CountingFile {
            number,
            file,
            reads,
        }))
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.lock().unwrap().push(self.number);
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

#[test]
fn s23_the_newest_rows_of_a_large_object_need_few_reads() {
    for rows_in_commit in [1, 40] {
        few_reads(&options(), rows_in_commit, 500);
    }
}

#[test]
fn s23_a_run_without_full_images_has_them_of_hot_pages() {
    // Archived in steps of 64 KiB, all of them in the checkpoint at the end.
    let small_steps = options().memory(MemoryBudget::new(1 << 20));
    few_reads(&small_steps, 3, 1500);
}

/// Opens a restored directory, of which the runs are elsewhere. Returns which of them are read from now on.
fn open_far(disk: &SimDisk, far: SimDisk) -> (Store, Arc<Mutex<Vec<u64>>>) {
    let reads = Arc::new(Mutex::new(Vec::new()));
    let counting: Arc<dyn RemoteRuns> = Arc::new(Counting {
        far,
        reads: reads.clone(),
    });
    let how = options().remote_runs(Some(counting));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), how).unwrap();
    reads.lock().unwrap().clear();
    (store, reads)
}

/// The reads of a first answer, which need the newest run alone.
fn are_few(reads: &Mutex<Vec<u64>>) {
    let reads = std::mem::take(&mut *reads.lock().unwrap());
    assert!((1..=20).contains(&reads.len()), "{} reads", reads.len());
    let newest = reads.iter().max();
    assert!(reads.iter().all(|run| Some(run) == newest), "{reads:?}");
}

/// A large object of three or more runs, whose newest row is in the newest.
fn few_reads(how: &StoreOptions, rows_in_commit: i64, rows_in_checkpoint: i64) {
    const ROWS: i64 = 1500;
    let value = |row: i64| noise(row.cast_unsigned(), 900);
    let (disk, far) = (SimDisk::new(), SimDisk::new());
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), how.clone()).unwrap();
    let of_store = key(&store, 1);
    let db = store.open_object(of_store).unwrap();
    let table = "CREATE TABLE rows (id INTEGER PRIMARY KEY, value BLOB)";
    db.exec(table, ()).unwrap();
    for row in 0..ROWS {
        db.exec("INSERT INTO rows VALUES (?1, ?2)", (row, value(row)))
            .unwrap();
        if (row + 1) % rows_in_commit == 0 || row + 1 == ROWS {
            db.commit().unwrap();
            flush(&store);
        }
        if (row + 1) % rows_in_checkpoint == 0 {
            store.checkpoint().unwrap();
        }
    }
    drop(db);
    let disk = lose_and_leave(store, &disk, &far, |_| true);
    let (store, reads) = open_far(&disk, far);
    assert!(store.stats().archive_runs >= 3);

    let db = store.open_object(of_store).unwrap();
    let query = "SELECT id, hex(value) FROM rows ORDER BY id DESC LIMIT 1";
    let newest: (i64, String) = db.exec(query, ()).unwrap().one().unwrap();
    let hex = |row: i64| hex::encode_upper(value(row));
    assert_eq!(newest, (ROWS - 1, hex(ROWS - 1)));
    are_few(&reads);

    for row in 0..ROWS {
        let query = "SELECT hex(value) FROM rows WHERE id = ?1";
        let read: String = db.exec(query, (row,)).unwrap().one().unwrap();
        assert!(read == hex(row), "row {row}");
    }
    assert_eq!(object_files(&disk), BTreeMap::new());
}

#[test]
fn s23_the_newest_run_leads_to_the_newest_rows_of_others() {
    newest_row_of_an_outline(1);
}

#[test]
fn s23_a_merged_run_leads_to_the_newest_rows_of_others() {
    newest_row_of_an_outline(8);
}

/// An object of more than 16 MiB in one run, and changes of an old row in another one, which was merged from this many.
fn newest_row_of_an_outline(merged: u8) {
    const ROWS: i64 = 4800;
    const ROWS_IN_RUN: i64 = 600;
    let value = |row: i64| noise(row.cast_unsigned(), 3900);
    let (disk, far) = (SimDisk::new(), SimDisk::new());
    let how = options().checkpoint_bytes(64 << 20);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), how).unwrap();
    let of_store = key(&store, 1);
    let db = store.open_object(of_store).unwrap();
    let archive = || {
        db.commit().unwrap();
        flush(&store);
        store.checkpoint().unwrap();
    };
    db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, value BLOB)", ())
        .unwrap();
    for row in 0..ROWS {
        db.exec("INSERT INTO rows VALUES (?1, ?2)", (row, value(row)))
            .unwrap();
        if (row + 1) % ROWS_IN_RUN == 0 {
            archive();
        }
    }
    for change in 1..=merged {
        let value = vec![change; 10];
        db.exec("UPDATE rows SET value = ?1 WHERE id = 3", (value,))
            .unwrap();
        archive();
    }
    drop(db);
    store.run_maintenance().unwrap();
    assert_eq!(store.stats().archive_runs, 2);
    let disk = lose_and_leave(store, &disk, &far, |_| true);
    let (store, reads) = open_far(&disk, far);
    let db = store.open_object(of_store).unwrap();
    let query = "SELECT id FROM rows ORDER BY id DESC LIMIT 1";
    let newest: i64 = db.exec(query, ()).unwrap().one().unwrap();
    assert_eq!(newest, ROWS - 1);
    are_few(&reads);
    for row in [0, 3, 4, ROWS / 2, ROWS - 1] {
        let query = "SELECT hex(value) FROM rows WHERE id = ?1";
        let read: String = db.exec(query, (row,)).unwrap().one().unwrap();
        let value = match row {
            3 => vec![merged; 10],
            _ => value(row),
        };
        assert!(read == hex::encode_upper(value), "row {row}");
    }
}
