//! Object files on the real disk are plain SQLite databases that other programs can open.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_storage::{Disk as _, ErrorKind, ObjectKey, RealDisk, Store, StoreOptions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

fn store(dir: &std::path::Path) -> abide_storage::Result<Store> {
    Store::open(Arc::new(RealDisk), dir, StoreOptions::small())
}

#[test]
fn object_files_are_plain_databases_after_a_checkpoint_or_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).unwrap();
    let namespace = store.namespace("seats").unwrap();
    let keys: Vec<ObjectKey> = (0..100)
        .map(|i| ObjectKey {
            namespace,
            id: [i; 32],
        })
        .collect();
    let read = |key: &ObjectKey| -> i64 {
        let path = store.object_path(*key).unwrap();
        let plain = rusqlite::Connection::open(path).unwrap();
        let check: String = plain
            .query_row("PRAGMA integrity_check", (), |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
        plain
            .query_row("SELECT max(n) FROM t", (), |row| row.get(0))
            .unwrap()
    };
    let write = |n: i64| {
        for key in &keys {
            let db = store.open_object(*key).unwrap();
            db.exec("CREATE TABLE IF NOT EXISTS t (n)", ()).unwrap();
            db.exec("INSERT INTO t VALUES (?1)", [n]).unwrap();
            db.commit().unwrap().unwrap();
        }
    };
    write(1);
    store.checkpoint().unwrap();
    assert!(keys.iter().all(|key| read(key) == 1));
    // A few objects only: these files are synced one by one.
    let db = store.open_object(keys[0]).unwrap();
    db.exec("INSERT INTO t VALUES (2)", ()).unwrap();
    db.commit().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(read(&keys[0]), 2);
    drop(db);
    write(3);
    store.close().unwrap();
    assert!(keys.iter().all(|key| read(key) == 3));
    assert_eq!(store.objects(namespace).unwrap(), keys);
}

#[test]
fn a_directory_in_use_is_refused_and_can_be_opened_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(dir.path()).unwrap();
    let error = store(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(
        error.to_string().contains("in use by another process"),
        "{error}"
    );
    first.close().unwrap();
    store(dir.path()).unwrap().close().unwrap();
}

#[test]
fn a_data_directory_of_another_format_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).unwrap().close().unwrap();
    let path = dir.path().join("MANIFEST");
    let ours = std::fs::read_to_string(&path).unwrap();
    for version in [0, 2] {
        let text = ours.replacen("manifest 1", &format!("manifest {version}"), 1);
        std::fs::write(&path, &text).unwrap();
        let error = store(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        let told = error.to_string();
        assert!(
            told.contains(&format!("format {version}"))
                && told.contains("the program that wrote it"),
            "{told}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    std::fs::write(&path, &ours).unwrap();
    store(dir.path()).unwrap().close().unwrap();
}

#[test]
fn only_the_programs_own_user_reads_what_is_on_disk() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("data");
    let store = store(&dir).unwrap();
    let namespace = store.namespace("seats").unwrap();
    let id = [1; 32];
    let db = store.open_object(ObjectKey { namespace, id }).unwrap();
    db.kv_put("seat", b"14C").unwrap();
    db.commit().unwrap();
    store.checkpoint().unwrap();
    assert!(!RealDisk.others_may_read(&dir));
    let (mut files, mut dirs) = (0, vec![dir.clone()]);
    while let Some(dir) = dirs.pop() {
        let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", dir.display());
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 3, "the log, the manifest, the object, the lock");
    drop(db);
    store.close().unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(RealDisk.others_may_read(&dir));
}

#[test]
fn a_file_that_something_else_has_emptied_is_not_taken_for_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path()).unwrap();
    let key = ObjectKey {
        namespace: store.namespace("seats").unwrap(),
        id: [7; 32],
    };
    let db = store.open_object(key).unwrap();
    db.exec("CREATE TABLE t (n INTEGER)", ()).unwrap();
    db.commit().unwrap();
    store.checkpoint().unwrap();
    std::fs::File::create(store.object_path(key).unwrap()).unwrap();
    let checkpoint = |n: i64| {
        db.exec("INSERT INTO t VALUES (?1)", (n,)).unwrap();
        db.commit().unwrap();
        store.checkpoint()
    };
    // The log keeps what the file lacks.
    let error = checkpoint(1).unwrap_err().to_string();
    assert!(error.contains("does not begin like a database"), "{error}");
    while checkpoint(2).is_err() {}
    let quarantined = store.quarantined();
    assert_eq!(quarantined.len(), 1);
    assert_eq!(quarantined[0].key, key);
}
