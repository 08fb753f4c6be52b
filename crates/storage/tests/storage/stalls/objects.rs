//! Objects beside each other: what one waits for does not hold up the others.

use crate::{
    common::key,
    stalls::{LONG, open, options, put},
};
use abide_storage::{DiskOp, FaultyDisk, ObjectKey, Store};
use std::{sync::mpsc, thread::JoinHandle};

/// Opens an object in its own thread and says when it is open.
fn opened(store: &Store, key: ObjectKey) -> (JoinHandle<()>, mpsc::Receiver<()>) {
    let (told, heard) = mpsc::channel();
    let store = store.clone();
    let opening = std::thread::spawn(move || {
        drop(store.open_object(key).expect("the object"));
        let _ = told.send(());
    });
    (opening, heard)
}

#[test]
fn objects_open_while_a_manifest_is_written() {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let key = key(&store, 1);
    disk.hold(&[DiskOp::Sync], "/MANIFEST");
    let naming = {
        let store = store.clone();
        std::thread::spawn(move || store.namespace("another").expect("a namespace"))
    };
    disk.wait_until_held();
    let (opening, heard) = opened(&store, key);
    let waited = heard.recv_timeout(LONG);
    assert_eq!(store.namespaces().len(), 1, "it is not durable yet");
    disk.clear();
    naming.join().expect("a namespace");
    opening.join().expect("the object");
    assert!(waited.is_ok(), "an object waited for the manifest");
    assert_eq!(store.namespaces().len(), 2);
}

#[test]
fn objects_open_while_the_file_of_another_is_read() {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let [slow, other, third] = [1, 2, 3].map(|id| key(&store, id));
    let db = store.open_object(slow).expect("the object");
    put(&db, 1, 100);
    drop(db);
    store.checkpoint().expect("a checkpoint");
    let path = store.object_path(slow).expect("its file");
    disk.hold(&[DiskOp::Open], &path.to_string_lossy());
    let (opening, _) = opened(&store, slow);
    disk.wait_until_held();
    // Opening the same object waits for its file, but not with a lock of all objects.
    let again = {
        let store = store.clone();
        std::thread::spawn(move || drop(store.open_object(slow)))
    };
    let asking = {
        let store = store.clone();
        std::thread::spawn(move || store.bookmark(slow).map(drop))
    };
    std::thread::sleep(std::time::Duration::from_millis(50));
    let others = [other, third].map(|key| opened(&store, key));
    let waited = others.each_ref().map(|(_, heard)| heard.recv_timeout(LONG));
    disk.clear();
    opening.join().expect("the object");
    let _ = again.join();
    asking.join().expect("a thread").expect("a bookmark");
    for (opening, _) in others {
        opening.join().expect("the object");
    }
    assert!(
        waited.iter().all(Result::is_ok),
        "an object waited for another"
    );
}
