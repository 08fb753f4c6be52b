//! What the tests do to a store: a disk with faults, and short forms of everyday acts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_storage::{
    Disk as _, FaultyDisk, ListOptions, ObjectDb, ObjectKey, OpenMode, Result, SimDisk, Store,
    StoreOptions,
};

use crate::common::{DIR, flush, key};

/// A store without threads on a disk with faults.
pub(crate) fn store(disk: &FaultyDisk) -> Store {
    try_store(disk).expect("the store opens")
}

pub(crate) fn try_store(disk: &FaultyDisk) -> Result<Store> {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options())
}

pub(crate) fn options() -> StoreOptions {
    StoreOptions::small().manual(true)
}

pub(crate) fn store_with(disk: &FaultyDisk, options: StoreOptions) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).expect("the store opens")
}

/// The same without history.
pub(crate) fn store_without_archive(disk: &FaultyDisk) -> Store {
    let mut options = options();
    options.archive.enabled = false;
    store_with(disk, options)
}

/// Sets the value of an object and waits until that is durable.
pub(crate) fn put(store: &Store, id: u8, value: &str) -> Result<()> {
    let db = store.open_object(key(store, id))?;
    db.kv_put("k", value.as_bytes())?;
    db.commit()?;
    flush(store);
    assert!(store.durable() >= db.newest() || store.failed());
    Ok(())
}

/// The value of an object.
pub(crate) fn get(store: &Store, id: u8) -> Result<Option<String>> {
    let db = store.open_object(key(store, id))?;
    value(&db)
}

pub(crate) fn value(db: &ObjectDb) -> Result<Option<String>> {
    let found = db.kv_get("k")?;
    Ok(found.map(|bytes| String::from_utf8(bytes).expect("text")))
}

pub(crate) fn path(store: &Store, id: u8) -> PathBuf {
    store.object_path(key(store, id)).expect("a path")
}

/// What is in the path of an object's file and of no other.
pub(crate) fn part(store: &Store, id: u8) -> String {
    let key: ObjectKey = key(store, id);
    format!("{}.sqlite", key.id_hex())
}

/// Puts other bytes in the place of a file.
pub(crate) fn overwrite(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).expect("the file");
    file.set_len(0).expect("cut");
    file.write_at(bytes, 0).expect("written");
    file.sync().expect("synced");
}

/// Every key and value of an object, whose database must be sound.
pub(crate) fn content(db: &ObjectDb) -> std::collections::BTreeMap<String, Vec<u8>> {
    let check = db.exec("PRAGMA integrity_check", ()).expect("a check");
    assert_eq!(check.one::<String>().expect("a row"), "ok");
    let keys = db.kv_list(&ListOptions::default()).expect("the keys");
    keys.into_iter().collect()
}
