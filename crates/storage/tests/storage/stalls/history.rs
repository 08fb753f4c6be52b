//! History beside errors of the archive: one that passes costs nothing, and what must be given up is named.

use crate::{
    common::{DIR, flush, key, open as open_object},
    stalls::put,
};
use abide_storage::{
    ArchiveOptions, Bookmark, DiskOp, Fault, FaultyDisk, Store, StoreOptions,
    errno::{EIO, EMFILE, ENOSPC},
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const HOUR: u64 = 3_600_000;

/// A store that the test drives, with its own clock.
struct World {
    disk: FaultyDisk,
    store: Store,
    clock: Arc<AtomicU64>,
}

fn options(clock: &Arc<AtomicU64>) -> StoreOptions {
    let clock = clock.clone();
    StoreOptions::small()
        .manual(true)
        .unix_millis(Arc::new(move || clock.load(Ordering::Relaxed)))
        .archive(ArchiveOptions::default().retention(Duration::from_hours(24)))
}

impl World {
    fn new() -> Self {
        let disk = FaultyDisk::default();
        let clock = Arc::new(AtomicU64::new(1_000 * HOUR));
        let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options(&clock));
        Self {
            store: store.expect("the store opens"),
            disk,
            clock,
        }
    }

    fn pass(&self, millis: u64) {
        self.clock.fetch_add(millis, Ordering::Relaxed);
    }

    fn put(&self, n: u32, length: usize) -> Bookmark {
        self.pass(1000);
        let db = open_object(&self.store, 1);
        put(&db, n, length);
        flush(&self.store);
        db.bookmark()
    }

    fn restores(&self, bookmark: &Bookmark) -> Result<(), String> {
        let key = key(&self.store, 1);
        let restored = self.store.restore(key, bookmark);
        restored.map(drop).map_err(|error| error.to_string())
    }

    /// The store after the process was killed and has started again.
    fn reopened(self) -> Self {
        let disk = FaultyDisk::new(self.disk.sim.after_kill());
        let clock = self.clock.clone();
        drop(self.store);
        let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options(&clock));
        Self {
            store: store.expect("the store opens"),
            disk,
            clock,
        }
    }
}

#[test]
fn one_error_of_the_archive_costs_no_history() {
    for (op, errno) in [
        (DiskOp::Open, EMFILE),
        (DiskOp::Open, EIO),
        (DiskOp::Sync, EIO),
        (DiskOp::Open, ENOSPC),
    ] {
        let world = World::new();
        let first = world.put(0, 100);
        // The last segment is used up, and another was not prepared yet.
        for n in 1..50 {
            world.put(n, 14_000);
        }
        world
            .disk
            .inject(&[op], "/archive/", Fault::error(errno).times(1));
        world.store.checkpoint().expect("a checkpoint");
        assert!(world.store.stats().archive_failing, "{op:?} {errno}");
        assert_eq!(world.restores(&first), Ok(()), "{op:?} {errno}");
        assert_eq!(world.store.stats().history_losses, 0);
    }
}

#[test]
fn an_error_in_reading_the_log_for_the_archive_costs_no_history() {
    let world = World::new();
    let first = world.put(0, 100);
    for n in 1..50 {
        world.put(n, 14_000);
    }
    world
        .disk
        .inject(&[DiskOp::Read], "/log/", Fault::error(EIO).times(1));
    world.store.checkpoint().expect("a checkpoint");
    assert!(world.store.stats().archive_failing);
    assert_eq!(world.restores(&first), Ok(()));
}

#[test]
fn history_is_kept_while_there_is_room_for_the_log() {
    let world = World::new();
    let first = world.put(0, 100);
    world.disk.fail(&[DiskOp::Open], "/archive/", EMFILE);
    let bound = 4 * (4 << 20);
    for n in 1..500 {
        world.put(n, 14_000);
        if n % 100 == 0 {
            world.store.checkpoint().expect("a checkpoint");
        }
    }
    let lag = world.store.stats().archive_lag_bytes;
    assert!(lag > bound / 3, "{lag}");
    world.disk.clear();
    assert_eq!(world.restores(&first), Ok(()));
}

#[test]
fn history_that_is_given_up_is_named_and_commits_continue() {
    let world = World::new();
    let first = world.put(0, 100);
    world.store.checkpoint().expect("a checkpoint");
    let before = world.put(1, 100);
    world.store.checkpoint().expect("a checkpoint");
    world.disk.fail(&[DiskOp::Open], "/archive/", EMFILE);
    let lost = world.put(2, 100);
    let lost_at = world.clock.load(Ordering::Relaxed);
    let mut n = 3;
    while world.store.stats().history_losses == 0 {
        world.put(n, 14_000);
        world.store.run_maintenance().expect("maintenance");
        n += 1;
        assert!(n < 2000, "the log grows forever");
    }
    let log = world.store.stats().appended_lsn;
    assert!(log > 2 * (4 << 20), "given up at {log} bytes already");
    world.disk.clear();
    let after = world.put(n, 100);
    world.store.checkpoint().expect("a checkpoint");
    // It is known after a crash, too.
    let world = world.reopened();
    let holes = world.store.archive_holes();
    assert_eq!(holes.len(), 1, "{holes:?}");
    assert_eq!(world.store.stats().archive_holes, 1);
    assert!(holes[0].reason.contains("os error 24"), "{holes:?}");
    assert!(holes[0].after_millis < lost_at && lost_at <= holes[0].until_millis);
    let refused = world.restores(&lost).expect_err("it was given up");
    assert!(
        refused.contains("was dropped") && refused.contains("os error 24"),
        "{refused}"
    );
    let refused = world.store.bookmark_at(key(&world.store, 1), lost_at + 1);
    let refused = refused.expect_err("it was given up").to_string();
    assert!(refused.contains("was dropped"), "{refused}");
    for kept in [first, before, after] {
        assert_eq!(world.restores(&kept), Ok(()));
    }
}

#[test]
fn one_read_error_while_history_is_folded_costs_nothing() {
    let mut folded = 0;
    for passing in 0..40 {
        let world = World::new();
        for n in 0..3 {
            world.put(n, 100_000);
            world.store.checkpoint().expect("a checkpoint");
        }
        let last = world.put(9, 50_000);
        world.store.checkpoint().expect("a checkpoint");
        world.pass(30 * HOUR);
        world.disk.inject(
            &[DiskOp::Read],
            "/archive/",
            Fault::error(EIO).times(1).after(passing),
        );
        world.store.run_maintenance().expect("maintenance");
        world.disk.clear();
        world.store.run_maintenance().expect("maintenance");
        folded += u32::from(world.store.stats().archive_runs == 1);
        assert_eq!(world.restores(&last), Ok(()), "after {passing} reads");
    }
    assert!(folded > 20, "{folded} folds");
}

#[test]
fn one_refusal_of_a_disk_with_room_folds_no_history_away() {
    let world = World::new();
    let first = world.put(0, 100_000);
    for n in 1..4 {
        world.put(n, 100_000);
        world.store.checkpoint().expect("a checkpoint");
    }
    world.put(4, 100);
    world
        .disk
        .inject(&[DiskOp::Open], "/archive/", Fault::error(ENOSPC).times(1));
    world.store.checkpoint().expect("a checkpoint");
    world.store.run_maintenance().expect("maintenance");
    world.store.checkpoint().expect("a checkpoint");
    assert_eq!(world.restores(&first), Ok(()));
    assert_eq!(world.store.archive_holes(), []);
}
