//! The power is cut at every change of the disk during a repair.

use abide_storage::{DiskOp, Fault, FaultyDisk, Repair, SimDisk, Store, errno::EIO};

use crate::common::{flush, key};
use crate::faults::repair::with_an_old_file;
use crate::faults::world::{content, get, part, put, store};

/// Repairs with the power cut at each change, and then again after the crash, and compares.
fn at_every_change(
    prepare: impl Fn() -> FaultyDisk,
    repair: impl Fn(&Store) -> abide_storage::Result<()>,
    check: impl Fn(&Store, &str),
) {
    let (mut quarantined, mut repaired) = (0, 0);
    for stop in 0..400 {
        let disk = prepare();
        let now = store(&disk);
        disk.sim.stop_at(disk.sim.changes() + stop);
        let done = repair(&now);
        drop(now);
        for seed in [stop, stop + 1_000] {
            let context = format!("power cut at change {stop}, seed {seed}");
            let disk = FaultyDisk::new(disk.sim.crash(seed));
            let mut now = store(&disk);
            if now.open_object(key(&now, 1)).is_err() {
                assert!(done.is_err(), "{context}: an acknowledged repair is lost");
                quarantined += 1;
                // A second crash during the second repair, and then a third one that succeeds.
                disk.sim.stop_at(disk.sim.changes() + stop % 17);
                let _ = repair(&now);
                drop(now);
                let disk = FaultyDisk::new(disk.sim.crash(seed + 7));
                now = store(&disk);
                if now.open_object(key(&now, 1)).is_err() {
                    repair(&now).unwrap_or_else(|error| panic!("{context}: {error}"));
                }
            } else {
                repaired += 1;
            }
            check(&now, &context);
            assert_eq!(now.quarantined(), [], "{context}");
            // The object continues, over another crash.
            put(&now, 1, "after").unwrap();
            now.checkpoint().unwrap();
            assert_eq!(get(&now, 1).unwrap().as_deref(), Some("after"), "{context}");
        }
        if done.is_ok() {
            break;
        }
        assert!(stop < 399, "the repair never ends");
    }
    assert!(quarantined > 20 && repaired > 0, "{quarantined} {repaired}");
}

#[test]
fn s19_restoring_a_quarantined_object_survives_a_crash_at_any_change() {
    let prepare = || with_an_old_file(store).0;
    let (_, first, _) = with_an_old_file(store);
    at_every_change(
        prepare,
        |store| store.restore(key(store, 1), &first).map(drop),
        |store, context| {
            assert_eq!(get(store, 1).unwrap().as_deref(), Some("1"), "{context}");
            assert_eq!(get(store, 2).unwrap().as_deref(), Some("other"));
        },
    );
}

#[test]
fn s19_beginning_an_object_anew_survives_a_crash_at_any_change() {
    at_every_change(
        || with_an_old_file(store).0,
        |store| store.repair(key(store, 1), Repair::Anew).map(drop),
        |store, context| assert_eq!(get(store, 1).unwrap(), None, "{context}"),
    );
}

#[test]
fn s19_accepting_a_file_loses_nothing_in_a_crash_at_any_change() {
    let prepare = || {
        let disk = FaultyDisk::new(SimDisk::new());
        let now = store(&disk);
        let write = |value: u8| {
            let db = now.open_object(key(&now, 1)).unwrap();
            for n in 0..10 {
                db.kv_put(&format!("key {value} {n}"), &[value; 2_000])
                    .unwrap();
            }
            db.commit().unwrap();
            flush(&now);
        };
        write(1);
        now.checkpoint().unwrap();
        write(2);
        // The first pages are written, the others are not.
        disk.inject(&[DiskOp::Write], &part(&now, 1), Fault::error(EIO).after(1));
        for _ in 0..3 {
            now.checkpoint().unwrap_or_default();
        }
        assert_eq!(now.quarantined().len(), 1);
        drop(now);
        FaultyDisk::new(disk.sim.after_kill())
    };
    at_every_change(
        prepare,
        |store| store.repair(key(store, 1), Repair::Accept).map(drop),
        |store, context| {
            let all = content(&store.open_object(key(store, 1)).unwrap());
            for (value, n) in [1_u8, 2].iter().flat_map(|v| (0..10).map(move |n| (*v, n))) {
                let found = all.get(&format!("key {value} {n}"));
                assert_eq!(found, Some(&vec![value; 2_000]), "{context}");
            }
        },
    );
}

#[test]
fn s18_quarantining_an_object_loses_nothing_in_a_crash_at_any_change() {
    for stop in 0..200 {
        let disk = FaultyDisk::new(SimDisk::new());
        let now = store(&disk);
        put(&now, 1, "old").unwrap();
        put(&now, 2, "old").unwrap();
        now.checkpoint().unwrap();
        put(&now, 1, "new").unwrap();
        put(&now, 2, "new").unwrap();
        disk.fail(&[DiskOp::Write, DiskOp::SetLen], &part(&now, 1), EIO);
        disk.sim.stop_at(disk.sim.changes() + stop);
        let mut done = Ok(());
        for _ in 0..3 {
            done = now.checkpoint();
        }
        let stopped = disk.sim.has_stopped();
        drop(now);
        let disk = FaultyDisk::new(disk.sim.crash(stop));
        let now = store(&disk);
        if now.open_object(key(&now, 1)).is_err() {
            now.repair(key(&now, 1), Repair::Accept).unwrap();
        }
        for id in [1, 2] {
            assert_eq!(get(&now, id).unwrap().as_deref(), Some("new"), "{stop}");
        }
        if !stopped {
            done.unwrap();
            return;
        }
    }
    panic!("the checkpoint never ends");
}
