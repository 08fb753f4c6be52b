//! A restore of a directory that is interrupted, and repeated.

use std::{path::Path, sync::Arc};

use abide_storage::{
    Disk as _, DiskOp, ErrorKind, FaultyDisk, RestoreOptions, SimDisk, Store, errno,
    restore_directory,
};

use super::{
    life::{Copy, Life, object_files, restore},
    shipped::{has_tail, small},
};
use crate::common::{DIR, read_file};

/// Restores with the power cut at each change of the disk, and repeats it.
fn is_repeated(life: &Life, copy: &Copy, at: Option<u64>) {
    let (whole, made) = copy.restore_at(life, at).unwrap();
    let (files, manifest) = (object_files(&whole), manifest(&whole));
    let mut refused = 0;
    for stop in 0..10_000 {
        let disk = copy.disk.after_kill();
        disk.stop_at(disk.changes() + stop);
        let done = restore(&disk, &copy.manifest, at, &life.options()).is_ok();
        let disk = disk.crash(stop);
        let context = format!("power cut at change {stop}");
        let opened = disk.after_kill();
        match Store::open(Arc::new(opened.clone()), Path::new(DIR), life.options()) {
            Ok(store) => {
                assert_eq!(object_files(&opened), files, "{context}");
                assert!(!has_tail(&opened), "{context}");
                drop(store);
            }
            Err(error) => {
                assert!(!done, "{context}: {error}");
                assert_eq!(error.kind(), ErrorKind::Refused, "{context}: {error}");
                refused += 1;
            }
        }
        match restore(&disk, &copy.manifest, at, &life.options()) {
            Ok(again) => assert_eq!(again, made, "{context}"),
            Err(error) => assert!(
                error.to_string().contains("is a data directory already"),
                "{context}: {error}"
            ),
        }
        // What it says is durable.
        let disk = disk.crash(stop + 1);
        assert_eq!(object_files(&disk), files, "{context}");
        assert_eq!(self::manifest(&disk), manifest, "{context}");
        Store::open(Arc::new(disk), Path::new(DIR), life.options()).unwrap();
        if done {
            assert!(refused > 20, "{refused}");
            return;
        }
    }
    panic!("it never ends");
}

fn manifest(disk: &SimDisk) -> Vec<u8> {
    read_file(disk, &Path::new(DIR).join("MANIFEST"))
}

#[test]
fn s23_an_interrupted_restore_is_refused_and_can_be_repeated() {
    let life = Life::small();
    is_repeated(&life, &life.copy(), None);
}

#[test]
fn s23_an_interrupted_restore_to_a_time_can_be_repeated() {
    let mut life = Life::small();
    let at = life.now();
    life.pass(5);
    let keys = [
        life.key("First", 0),
        life.key("Second", 1),
        life.key("First", 3),
    ];
    life.put(keys[0], "later");
    life.delete(keys[1]);
    life.put(keys[2], "a later life");
    is_repeated(&life, &life.copy(), Some(at));
}

#[test]
fn s23_an_interrupted_restore_with_a_tail_can_be_repeated() {
    for step in [0, 500] {
        let (life, shipped) = small(100_000);
        let copy = Copy {
            disk: shipped.disk(),
            manifest: shipped.manifest,
        };
        let at = (step > 0).then(|| life.now() - step);
        is_repeated(&life, &copy, at);
    }
}

#[test]
fn an_interrupted_restore_can_be_repeated_with_another_time() {
    let mut life = Life::small();
    let at = life.now();
    life.pass(5);
    let key = life.key("First", 0);
    life.put(key, "later");
    let new = life.key("Third", 4);
    life.put(new, "new");
    let copy = life.copy();
    let whole = object_files(&copy.restore_at(&life, Some(at)).unwrap().0);
    for stop in [8, 14, 20, 26, 32, 38] {
        let disk = copy.disk.after_kill();
        disk.stop_at(disk.changes() + stop);
        restore(&disk, &copy.manifest, None, &life.options()).unwrap_err();
        let disk = disk.after_kill();
        restore(&disk, &copy.manifest, Some(at), &life.options()).unwrap();
        assert_eq!(object_files(&disk), whole, "{stop}");
        let archive = Path::new(DIR).join("archive");
        life.open(&disk);
        assert!(disk.list(&archive).unwrap().len() >= 2);
        life.store.verify_archive().unwrap();
    }
}

#[test]
fn the_refusal_of_an_unfinished_restore_says_how_to_continue() {
    let life = Life::small();
    let copy = life.copy();
    copy.disk.stop_at(copy.disk.changes() + 20);
    restore(&copy.disk, &copy.manifest, None, &life.options()).unwrap_err();
    let disk = Arc::new(copy.disk.after_kill());
    let refused = Store::open(disk.clone(), Path::new(DIR), life.options()).unwrap_err();
    let told = "the restore of the data directory /data was interrupted: repeat it with the same command, or remove the \
                directory; nothing was changed";
    assert_eq!(refused.to_string(), told);
    restore(&disk, &copy.manifest, None, &life.options()).unwrap();
    Store::open(disk, Path::new(DIR), life.options()).unwrap();
}

#[test]
fn a_restore_that_meets_a_fault_of_the_disk_fails_and_can_be_repeated() {
    let (life, shipped) = small(100_000);
    let copy = Copy {
        disk: shipped.disk(),
        manifest: shipped.manifest,
    };
    let whole = object_files(&copy.restore(&life));
    let ops = [
        DiskOp::Open,
        DiskOp::Read,
        DiskOp::Write,
        DiskOp::SetLen,
        DiskOp::Sync,
        DiskOp::Rename,
        DiskOp::Remove,
        DiskOp::CreateDir,
        DiskOp::SyncDir,
        DiskOp::Barrier,
        DiskOp::BarrierWait,
        DiskOp::OpenDir,
    ];
    let mut failed = 0;
    for op in ops {
        for path in [
            "archive",
            "tail",
            "objects",
            "log",
            "MANIFEST",
            "RESTORING",
            "/data",
        ] {
            let context = format!("{op:?} of {path}");
            let sim = copy.disk.after_kill();
            let disk = FaultyDisk::new(sim.clone());
            disk.fail(&[op], path, errno::EIO);
            let options = life.options();
            let dir = Path::new(DIR);
            let made = restore_directory(
                Arc::new(disk.clone()),
                dir,
                &copy.manifest,
                RestoreOptions::default(),
                &options,
                &|_| {},
            );
            // The tail that stays is removed when the directory is opened.
            if disk.failed() > 0 && (op, path) != (DiskOp::Remove, "tail") {
                made.expect_err(&context);
                failed += 1;
                restore(&sim, &copy.manifest, None, &options).expect(&context);
            }
            assert_eq!(object_files(&sim.crash(3)), whole, "{context}");
        }
    }
    assert!(failed > 20, "{failed}");
}
