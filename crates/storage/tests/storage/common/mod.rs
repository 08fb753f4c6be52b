//! What the tests share: small stores on a simulated disk.
#![allow(unreachable_pub, reason = "all of it is for the tests of this binary")]

use abide_storage::{ObjectDb, ObjectKey, Progress, SimDisk, Store, StoreOptions, Value};
use rusqlite::types::Value as Plain;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub const DIR: &str = "/data";

/// A store without threads: the test decides when groups are written.
pub fn manual(disk: &SimDisk) -> Store {
    try_manual(disk).expect("the store opens")
}

pub fn try_manual(disk: &SimDisk) -> abide_storage::Result<Store> {
    let options = StoreOptions::small().manual(true);
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options)
}

/// What listeners were told.
pub fn listen(store: &Store) -> Arc<Mutex<Vec<Progress>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    store.subscribe(Box::new(move |progress| {
        tell.lock()
            .expect("a listener does not panic")
            .push(progress);
    }));
    told
}

/// A value of plain SQLite.
pub fn value(plain: Plain) -> Value {
    match plain {
        Plain::Null => Value::Null,
        Plain::Integer(integer) => Value::Integer(integer),
        Plain::Real(real) => Value::Real(real),
        Plain::Text(text) => Value::Text(text),
        Plain::Blob(bytes) => Value::Blob(bytes),
    }
}

/// A value for plain SQLite.
pub fn plain(value: Value) -> Plain {
    match value {
        Value::Null => Plain::Null,
        Value::Integer(integer) => Plain::Integer(integer),
        Value::Real(real) => Plain::Real(real),
        Value::Text(text) => Plain::Text(text),
        Value::Blob(bytes) => Plain::Blob(bytes),
    }
}

/// A store with its threads.
pub fn threaded(disk: &SimDisk) -> Store {
    Store::open(
        Arc::new(disk.clone()),
        Path::new(DIR),
        StoreOptions::small(),
    )
    .expect("the store opens")
}

pub fn key(store: &Store, id: u8) -> ObjectKey {
    let namespace = store.namespace("tests").expect("a namespace");
    ObjectKey {
        namespace,
        id: [id; 32],
    }
}

/// Records that an object's code was told of its timeline, as a runtime does before alarms of a restored object go off.
pub fn tell(store: &Store, id: u8) {
    let db = open(store, id);
    if db.timeline().expect("a timeline").untold.is_some() {
        db.timeline_told().expect("a write");
        db.commit().expect("a commit");
        flush(store);
    }
}

pub fn open(store: &Store, id: u8) -> ObjectDb {
    store.open_object(key(store, id)).expect("the object opens")
}

pub fn flush(store: &Store) {
    while store.write_group() {}
}

/// The segments of the log, oldest first.
pub fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    use abide_storage::Disk as _;
    let dir = Path::new(DIR).join("log");
    let mut names = disk.list(&dir).expect("the log's directory");
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

pub fn read_file(disk: &SimDisk, path: &Path) -> Vec<u8> {
    use abide_storage::{Disk as _, OpenMode};
    let file = disk.open(path, OpenMode::Existing).expect("the file");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_at(&mut bytes, 0).expect("the bytes");
    bytes
}
