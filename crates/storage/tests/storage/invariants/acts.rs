//! What the tests do to a store and its disk again and again.

use abide_storage::{AlarmRow, DiskEvent, ObjectDb, Store};

use crate::common::key;

pub(crate) fn put(db: &ObjectDb, value: &str) -> abide_storage::Lsn {
    db.kv_put("k", value.as_bytes()).unwrap();
    db.commit().unwrap().expect("a commit")
}

pub(crate) fn get(db: &ObjectDb) -> Option<String> {
    db.kv_get("k")
        .unwrap()
        .map(|value| String::from_utf8(value).unwrap())
}

pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 600, "{what} never came");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub(crate) fn put_durably(store: &Store, db: &ObjectDb, value: &str) {
    let lsn = put(db, value);
    wait_until("durability", || store.durable() >= lsn);
}

pub(crate) fn checkpoint_beside(
    store: &Store,
) -> std::thread::JoinHandle<abide_storage::Result<()>> {
    let store = store.clone();
    std::thread::spawn(move || store.checkpoint())
}

pub(crate) fn position(events: &[DiskEvent], found: impl Fn(&DiskEvent) -> bool) -> Option<usize> {
    events.iter().position(found)
}

pub(crate) fn is_publication(event: &DiskEvent) -> bool {
    matches!(event, DiskEvent::Rename(_, to) if to.ends_with("MANIFEST"))
}

pub(crate) fn set_alarm(db: &ObjectDb, due: i64) {
    db.set_alarm(Some(&AlarmRow::at(due))).unwrap();
    db.commit().unwrap().expect("a commit");
}

pub(crate) fn due(store: &Store, id: u8) -> Option<i64> {
    store.alarms().get(key(store, id)).map(|entry| entry.due)
}
