//! Exports of all objects as of one position, and imports.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod crash;
mod cut;
mod cut_refused;
mod import;
mod import_refused;
mod timelines;

use abide_storage::{
    Afterwards, Cut, CutObject, Import, ObjectKey, PastDatabase, Result, Store, TimelinesEnd,
};
use rusqlite::{Connection, MAIN_DB};

use crate::common::flush;

/// Stands for the listing of an export.
const SOURCE: [u8; 32] = [7; 32];

/// Ends an object.
fn delete(store: &Store, key: ObjectKey) {
    let db = store.open_object(key).unwrap();
    let timeline = db.timeline().unwrap();
    if timeline.dormant {
        db.activate(true).unwrap();
    }
    // Otherwise it stays, to be told.
    if timeline.untold.is_some() {
        db.timeline_told().unwrap();
    }
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    flush(store);
}

/// The bytes of a database.
fn bytes(database: &PastDatabase) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(database.len()).unwrap()];
    assert_eq!(database.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// The bytes of an object's database as it is.
fn export(store: &Store, key: ObjectKey) -> Vec<u8> {
    let bookmark = store.bookmark(key).unwrap();
    bytes(&store.database_at(key, &bookmark).unwrap())
}

/// A database in memory, as SQLite alone reads it.
fn plain(bytes: &[u8]) -> Connection {
    let mut plain = Connection::open_in_memory().unwrap();
    let length = bytes.len();
    plain
        .deserialize_read_exact(MAIN_DB, bytes, length, true)
        .unwrap();
    let sound: String = plain
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    plain
}

/// The value in an exported database of the world's objects.
fn value_in(bytes: &[u8]) -> String {
    let sql = "SELECT value FROM _abide_kv WHERE key = 'k'";
    let value: Vec<u8> = plain(bytes).query_row(sql, (), |row| row.get(0)).unwrap();
    String::from_utf8(value).unwrap()
}

/// A database that another program made with these statements.
fn made(sql: &str) -> Vec<u8> {
    let mut made = Connection::open_in_memory().unwrap();
    made.execute_batch(sql).unwrap();
    made.serialize(MAIN_DB).unwrap().to_vec()
}

fn import_as(
    store: &Store,
    key: ObjectKey,
    bytes: &[u8],
    above: Option<TimelinesEnd>,
    afterwards: Afterwards,
) -> Result<()> {
    let mut incoming = store.incoming()?;
    // In pieces that are no whole pages.
    for piece in bytes.chunks(10_000) {
        incoming.write(piece)?;
    }
    let import = Import {
        name: Some("imported"),
        source: SOURCE,
        above,
        afterwards,
    };
    store.import(key, incoming, &import)
}

/// Imports a database as a dormant object.
fn import(store: &Store, key: ObjectKey, bytes: &[u8]) -> Result<()> {
    import_as(store, key, bytes, None, Afterwards::Dormant)
}

/// All objects of a cut, which are read in pages.
fn objects(store: &Store, cut: &Cut, limit: usize) -> Result<Vec<CutObject>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.cut_objects(cut, None, after, limit)?;
        assert!(page.objects.len() <= limit);
        all.extend(page.objects);
        after = page.next;
        if after.is_none() {
            assert!(all.is_sorted_by_key(|object| object.key));
            return Ok(all);
        }
    }
}
