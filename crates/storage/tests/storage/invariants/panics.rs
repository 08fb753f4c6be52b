//! A panic on a thread of the store is never silence: the store continues or says that it has failed, and it closes.

use std::{path::Path, sync::mpsc, thread, time::Duration};

use abide_storage::{ErrorKind, Progress, SimDisk, Store, StoreOptions};

use crate::{
    common::{DIR, key, open, threaded},
    invariants::acts::{put, wait_until},
};

/// Longer than any of this takes on the slowest machine.
const LONG: Duration = Duration::from_mins(1);

/// Closes a store, which must not wait forever.
fn close(store: Store) -> abide_storage::Result<()> {
    let (closed, result) = mpsc::channel();
    thread::spawn(move || closed.send(store.close()));
    result.recv_timeout(LONG).expect("close does not return")
}

#[test]
fn a_panicking_listener_stops_neither_the_log_nor_other_listeners() {
    let store = threaded(&SimDisk::new());
    let (told, heard) = mpsc::channel();
    store.subscribe(Box::new(|_| panic!("a listener's panic")));
    store.subscribe(Box::new(move |progress| told.send(progress).unwrap()));
    let db = open(&store, 1);
    for text in ["first", "second"] {
        let end = put(&db, text);
        wait_until("durability", || store.durable() >= end);
        loop {
            let progress = heard.recv_timeout(LONG).expect("the second is not told");
            if matches!(progress, Progress::Durable(lsn) if lsn >= end) {
                break;
            }
        }
    }
    assert!(!store.failed());
    assert!(store.stats().listener_panics >= 2);
    drop(db);
    close(store).unwrap();
}

#[test]
fn a_writer_that_panics_fails_the_store_loudly() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let (told, heard) = mpsc::channel();
    store.subscribe(Box::new(move |progress| told.send(progress).unwrap()));
    let db = open(&store, 1);
    let durable = put(&db, "durable");
    wait_until("durability", || store.durable() >= durable);
    disk.while_syncing(|_| {
        assert_ne!(thread::current().name(), Some("abide-log"), "on purpose");
    });
    put(&db, "lost");
    wait_until("the failure", || store.failed());
    assert_eq!(store.durable(), durable);
    while heard.recv_timeout(LONG).expect("it is reported") != Progress::Failed {}
    db.kv_put("k", b"more").unwrap();
    assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::LogFailed);
    // Waits for the log.
    assert_eq!(
        store.bookmark(key(&store, 1)).unwrap_err().kind(),
        ErrorKind::LogFailed
    );
    drop(db);
    assert_eq!(close(store).unwrap_err().kind(), ErrorKind::LogFailed);
}

#[test]
fn a_checkpoint_that_panics_on_its_thread_fails_the_store_loudly() {
    let disk = SimDisk::new();
    let options = StoreOptions::small().checkpoint_interval(Duration::from_millis(1));
    let store = Store::open(std::sync::Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    disk.while_syncing(|path| {
        assert!(!path.to_string_lossy().contains("/objects/"), "on purpose");
    });
    let db = open(&store, 1);
    put(&db, "durable");
    wait_until("the failure", || store.failed());
    drop(db);
    assert_eq!(close(store).unwrap_err().kind(), ErrorKind::LogFailed);
}
