//! An import survives a loss of power at any change of the disk, or has never happened.

use std::sync::{Arc, atomic::AtomicU64};

use abide_storage::{Afterwards, ArchiveOptions, Result, SimDisk, Store};

use super::{import_as, made};
use crate::{
    common::{flush, key, open},
    recovery_points::world::{World, off},
};

/// Staged in the log, and as a replacement.
const LARGE: [u64; 2] = [u64::MAX, 0];

#[derive(Default)]
struct Seen {
    begun: u8,
    imported: u8,
}

fn database() -> Vec<u8> {
    made(
        "CREATE TABLE t (b); INSERT INTO t VALUES (zeroblob(30000)), (randomblob(9000)); CREATE INDEX i ON t (b)",
    )
}

fn script(store: &Store, bytes: &[u8], seen: &mut Seen) -> Result<()> {
    for id in 1..=3 {
        seen.begun = id;
        let afterwards = [Afterwards::Act, Afterwards::Dormant][usize::from(id) % 2];
        import_as(store, key(store, id), bytes, None, afterwards)?;
        seen.imported = id;
        if id == 2 {
            store.checkpoint()?;
        }
    }
    store.run_maintenance()?;
    store.checkpoint()
}

fn check(
    disk: &SimDisk,
    clock: &Arc<AtomicU64>,
    (archive, large): (ArchiveOptions, u64),
    seen: &Seen,
    context: &str,
) {
    let mut world = World {
        disk: disk.clone(),
        clock: clock.clone(),
        archive,
        large,
        store: World::open(disk, clock, archive, large),
    };
    let bytes = database();
    for _ in 0..2 {
        for id in 1..=3 {
            let own = key(&world.store, id);
            let exists = world.store.has_object(own).unwrap();
            assert!(exists || id > seen.imported, "{context}: {id} is lost");
            assert!(!exists || id <= seen.begun, "{context}: {id}");
            if exists {
                let db = open(&world.store, id);
                let sum = db.exec("SELECT sum(length(b)) FROM t", ()).unwrap();
                assert_eq!(sum.one::<i64>().unwrap(), 39_000, "{context}: {id}");
                let sound = db.exec("PRAGMA integrity_check", ()).unwrap();
                assert_eq!(sound.one::<String>().unwrap(), "ok", "{context}: {id}");
                assert_eq!(db.name().unwrap().as_deref(), Some("imported"));
            }
        }
        assert_eq!(world.store.quarantined(), [], "{context}");
        world.store.checkpoint().unwrap();
        world.reopen();
    }
    // An interrupted import can be repeated.
    for id in 1..=3 {
        let own = key(&world.store, id);
        if !world.store.has_object(own).unwrap() {
            import_as(&world.store, own, &bytes, None, Afterwards::Dormant).unwrap();
        }
    }
    flush(&world.store);
    world.store.checkpoint().unwrap();
    if world.store.stats().archive_complete {
        let cut = world.store.cut().unwrap();
        assert_eq!(
            super::objects(&world.store, &cut, 2).unwrap().len(),
            3,
            "{context}"
        );
    }
    world.store.verify_archive().unwrap();
}

#[test]
fn s26_an_import_survives_a_loss_of_power_at_any_change_of_the_disk() {
    let bytes = database();
    for archive in [ArchiveOptions::default(), off()] {
        for large in LARGE {
            let mut is_done = false;
            for stop in 0..2_000 {
                let world = World::with(archive, large);
                let (disk, clock, store) = (world.disk, world.clock, world.store);
                store.namespace("tests").unwrap();
                disk.stop_at(disk.changes() + stop);
                let mut seen = Seen::default();
                let done = script(&store, &bytes, &mut seen);
                drop(store);
                let context = format!("{large}, change {stop}");
                check(&disk.crash(stop), &clock, (archive, large), &seen, &context);
                if !disk.has_stopped() {
                    done.unwrap();
                    is_done = stop > 10;
                    break;
                }
                check(
                    &disk.after_kill(),
                    &clock,
                    (archive, large),
                    &seen,
                    &context,
                );
            }
            assert!(is_done, "the script never ends");
        }
    }
}
