//! Syncs: their order, and what a failed one means.

use std::path::PathBuf;

use abide_storage::{DiskEvent, ErrorKind, SimDisk};

use crate::{
    common::{flush, manual, open, segments},
    invariants::acts::{get, is_publication, position, put},
};

#[test]
fn s8_a_failed_sync_poisons_the_log_and_releases_nothing() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "durable");
    flush(&store);
    let (told, heard) = std::sync::mpsc::channel();
    store.subscribe(Box::new(move |progress| told.send(progress).unwrap()));
    let durable = store.durable();
    let lost = put(&db, "lost");
    disk.fail_syncs(true);
    assert!(!store.write_group());
    disk.fail_syncs(false);
    assert!(!store.write_group(), "a failed sync is never tried again");
    assert!(store.failed());
    assert_eq!(store.durable(), durable);
    assert!(lost > durable);
    assert_eq!(
        heard.try_iter().collect::<Vec<_>>(),
        [abide_storage::Progress::Failed]
    );
    db.kv_put("k", b"more").unwrap();
    assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::LogFailed);
    assert_eq!(store.checkpoint().unwrap_err().kind(), ErrorKind::LogFailed);
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::LogFailed);
    let store = manual(&disk.crash(1));
    assert!(["durable", "lost"].contains(&get(&open(&store, 1)).unwrap().as_str()));
}

#[test]
fn s8_a_failed_sync_of_a_checkpoint_stops_the_store_too() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "durable");
    flush(&store);
    disk.fail_syncs(true);
    store.checkpoint().unwrap_err();
    assert!(store.failed());
    let store = manual(&disk.crash(3));
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("durable"));
}

#[test]
fn s9_directories_are_synced_before_a_new_name_is_relied_on() {
    let disk = SimDisk::new();
    disk.record_events();
    let store = manual(&disk);
    put(&open(&store, 1), "v");
    flush(&store);
    store.checkpoint().unwrap();
    let events = disk.take_events();
    let mut made: Vec<(usize, PathBuf)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            DiskEvent::Create(path) | DiskEvent::Rename(_, path) => made.push((at, path.clone())),
            _ => {}
        }
    }
    assert!(
        made.iter()
            .any(|(_, path)| path.extension().is_some_and(|e| e == "sqlite"))
    );
    assert!(
        made.iter()
            .any(|(_, path)| path.extension().is_some_and(|e| e == "seg"))
    );
    for (at, path) in made {
        if path.ends_with("MANIFEST.new") {
            continue;
        }
        let synced = events[at..]
            .iter()
            .position(|e| *e == DiskEvent::SyncDir(path.parent().unwrap().to_owned()));
        let synced = at + synced.unwrap_or_else(|| panic!("{} was never synced", path.display()));
        let next = events[at + 1..]
            .iter()
            .position(is_publication)
            .map(|next| at + 1 + next);
        assert!(
            next.is_none_or(|next| synced < next),
            "{} is published before its name is durable",
            path.display()
        );
        if path.extension().is_some_and(|e| e == "seg") {
            let used = position(&events, |e| matches!(e, DiskEvent::Write(p) if *p == path));
            let header = events[synced..]
                .iter()
                .position(|e| matches!(e, DiskEvent::Write(p) if *p == path));
            assert!(used.is_some() && header.is_none_or(|h| h > 0));
        }
    }
}

#[test]
fn s10_recovery_makes_pages_of_a_failed_sync_durable_before_use() {
    for seed in 0..50 {
        let disk = SimDisk::new();
        let store = manual(&disk);
        let db = open(&store, 1);
        put(&db, "durable");
        flush(&store);
        put(&db, "in the cache");
        disk.fail_sync();
        assert!(!store.write_group());
        // The process ends itself and is started again; the machine's cache still has what it wrote.
        let disk = disk.after_kill();
        let store = manual(&disk);
        let shown = get(&open(&store, 1));
        let store = manual(&disk.crash(seed));
        assert_eq!(get(&open(&store, 1)), shown, "seed {seed}");
    }
}

#[test]
fn s10_recovery_syncs_what_it_accepts_and_begins_a_new_segment() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&open(&store, 1), "1");
    flush(&store);
    let disk = disk.after_kill();
    disk.record_events();
    let store = manual(&disk);
    put(&open(&store, 1), "2");
    flush(&store);
    let events = disk.take_events();
    let first = segments(&disk)[0].clone();
    let synced = position(&events, |e| *e == DiskEvent::Sync(first.clone())).expect("a sync");
    let published = position(&events, is_publication).expect("a publication");
    assert!(synced < published);
    assert_eq!(
        position(&events[synced..], |e| *e == DiskEvent::Write(first.clone())),
        None,
        "nothing is added to the old segment"
    );
    assert_eq!(
        get(&open(&manual(&disk.after_kill()), 1)).as_deref(),
        Some("2")
    );
}
