//! Files of objects that were deleted: what the node can know of that, and how the object comes back.

use abide_storage::{AlarmRow, Disk as _, ErrorKind, FaultyDisk, Repair, SimDisk};

use crate::common::{flush, key, tell};
use crate::faults::world::{get, path, put, store};

#[test]
fn an_object_whose_file_is_missing_comes_back_from_its_history() {
    for how in ["restore", "repair", "fork", "anew"] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk);
        put(&store, 1, "kept").unwrap();
        let bookmark = store.bookmark(key(&store, 1)).unwrap();
        put(&store, 1, "later").unwrap();
        let file = path(&store, 1);
        store.close().unwrap();
        drop(store);
        disk.sim.remove(&file).unwrap();

        let store = self::store(&disk);
        let lost = key(&store, 1);
        // The archive is not searched when an object is opened.
        assert_eq!(get(&store, 1).unwrap(), None);
        let (id, value) = match how {
            "restore" => {
                let undo = store.restore(lost, &bookmark).unwrap();
                assert_eq!(get(&store, 1).unwrap().as_deref(), Some("kept"));
                store.restore(lost, &undo).unwrap();
                (1, Some("later"))
            }
            "repair" => {
                store.repair(lost, Repair::Restore(bookmark)).unwrap();
                (1, Some("kept"))
            }
            "fork" => {
                store.fork(lost, &bookmark, key(&store, 2), None).unwrap();
                (2, Some("kept"))
            }
            _ => {
                store.repair(lost, Repair::Anew).unwrap();
                (1, None)
            }
        };
        assert_eq!(get(&store, id).unwrap().as_deref(), value, "{how}");
        assert_eq!(store.quarantined(), []);
        put(&store, id, "continues").unwrap();
        store.checkpoint().unwrap();
        store.close().unwrap();
        drop(store);
        let store = self::store(&disk);
        assert_eq!(get(&store, id).unwrap().as_deref(), Some("continues"));
    }
}

#[test]
fn an_object_that_never_was_is_not_taken_for_a_lost_one() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "kept").unwrap();
    let bookmark = store.bookmark(key(&store, 1)).unwrap();
    store.checkpoint().unwrap();
    store.restore(key(&store, 2), &bookmark).unwrap_err();
    let refused = store.repair(key(&store, 2), Repair::Anew).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Input);
    assert_eq!(store.quarantined(), []);
    assert_eq!(get(&store, 2).unwrap(), None);
}

#[test]
fn an_object_with_an_alarm_and_no_file_is_quarantined() {
    for how in ["restore", "anew"] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk);
        put(&store, 1, "kept").unwrap();
        let db = store.open_object(key(&store, 1)).unwrap();
        db.set_alarm(Some(&AlarmRow::at(7))).unwrap();
        db.commit().unwrap();
        let bookmark = db.bookmark();
        drop(db);
        flush(&store);
        let file = path(&store, 1);
        store.close().unwrap();
        drop(store);
        disk.sim.remove(&file).unwrap();

        let store = self::store(&disk);
        let error = get(&store, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("its file is missing"), "{error}");
        assert_eq!(
            put(&store, 1, "other").unwrap_err().kind(),
            ErrorKind::Damaged
        );
        assert_eq!(store.quarantined().len(), 1);
        let lost = key(&store, 1);
        assert_eq!(store.objects(lost.namespace).unwrap(), [lost]);
        let (repair, value, due) = match how {
            "restore" => (Repair::Restore(bookmark), Some("kept"), Some(7)),
            _ => (Repair::Anew, None, None),
        };
        store.repair(key(&store, 1), repair).unwrap();
        assert_eq!(get(&store, 1).unwrap().as_deref(), value, "{how}");
        tell(&store, 1);
        let entry = store.alarms().get(key(&store, 1));
        assert_eq!(entry.map(|entry| entry.due), due, "{how}");
    }
}

#[test]
fn objects_without_an_alarm_open_although_their_file_is_missing() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    for change in [Some(&AlarmRow::at(7)), None] {
        let db = store.open_object(key(&store, 1)).unwrap();
        db.set_alarm(change).unwrap();
        db.commit().unwrap();
        drop(db);
        flush(&store);
        store.checkpoint().unwrap();
    }
    for id in [1, 2] {
        assert_eq!(get(&store, id).unwrap(), None);
        put(&store, id, "value").unwrap();
    }
    assert_eq!(store.quarantined(), []);
}
