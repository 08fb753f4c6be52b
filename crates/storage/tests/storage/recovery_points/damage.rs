//! Runs that are damaged or gone, and files that are not runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use abide_storage::{ArchiveOptions, Disk as _, ErrorKind, OpenMode, Store, StoreOptions};

use crate::{
    common::{DIR, read_file},
    recovery_points::world::{MINUTE, World},
};

#[test]
fn s16_damage_in_any_byte_of_a_run_is_seen_and_never_gives_a_wrong_state() {
    let world = World::new(ArchiveOptions::default());
    let mut bookmarks = Vec::new();
    for i in 0..12 {
        bookmarks.push(world.put(1, &format!("value {i}")));
        world.put(2, "other");
    }
    world.store.checkpoint().unwrap();
    let [run] = &world.runs()[..] else {
        panic!("{:?}", world.runs());
    };
    for at in 0..read_file(&world.disk, run).len() as u64 {
        let mut damaged = World {
            disk: world.disk.after_kill(),
            clock: world.clock.clone(),
            archive: world.archive,
            large: world.large,
            store: world.store.clone(),
        };
        damaged.disk.flip(run, at);
        damaged.reopen();
        let error = damaged.store.verify_archive().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "byte {at}: {error}");
        let (i, bookmark) = (at as usize % 12, &bookmarks[at as usize % 12]);
        match damaged.at(1, bookmark) {
            Ok(value) => assert_eq!(value.unwrap(), format!("value {i}"), "byte {at}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "byte {at}: {error}"),
        }
        // The object itself continues, and so does its history.
        damaged.put(1, "after");
        damaged.store.checkpoint().unwrap();
    }
}

/// Writes a file whose header, with its checksum at this offset, has another version.
fn set_version(world: &World, path: &Path, version: u8, crc_at: usize) -> Vec<u8> {
    let mut bytes = read_file(&world.disk, path);
    bytes[8] = version;
    let crc = crc32c::crc32c(&bytes[..crc_at]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    let file = world.disk.open(path, OpenMode::Existing).unwrap();
    file.write_at(&bytes, 0).unwrap();
    bytes
}

#[test]
fn a_run_of_another_format_is_refused_and_left_as_it_is() {
    let mut world = World::new(ArchiveOptions::default());
    let one = world.put(1, "one");
    world.store.checkpoint().unwrap();
    let run = world.runs()[0].clone();
    for version in [0, 1, 3] {
        let other = set_version(&world, &run, version, 60);
        world.reopen();
        let error = world.at(1, &one).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let told = error.to_string();
        assert!(told.contains("use the program that wrote it"), "{told}");
        assert!(read_file(&world.disk, &run) == other);
    }
    set_version(&world, &run, 2, 60);
    world.reopen();
    assert_eq!(world.at(1, &one).unwrap().unwrap(), "one");
}

#[test]
fn a_log_segment_of_another_format_is_refused_and_left_as_it_is() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "one");
    world.disk = world.disk.after_kill();
    let dir = Path::new(DIR).join("log");
    let names = world.disk.list(&dir).unwrap().into_iter();
    let is_used = |path: &PathBuf| read_file(&world.disk, path).starts_with(b"abidelog");
    let segment = names.map(|name| dir.join(name)).find(is_used).unwrap();
    for version in [0, 2] {
        let other = set_version(&world, &segment, version, 44);
        let options = StoreOptions::small().manual(true);
        let opened = Store::open(Arc::new(world.disk.clone()), Path::new(DIR), options);
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let told = error.to_string();
        assert!(told.contains("use the program that wrote it"), "{told}");
        assert!(read_file(&world.disk, &segment) == other);
    }
    set_version(&world, &segment, 1, 44);
    world.reopen();
    assert_eq!(world.get(1).unwrap(), "one");
}

#[test]
fn s16_a_missing_run_does_not_stop_the_node_and_others_are_merged() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "first");
    world.store.checkpoint().unwrap();
    world.disk.remove(&world.runs()[0]).unwrap();
    for start in 0..2 {
        for i in 0..20 {
            world.pass(1000);
            world.put(1, &format!("value {start} {i}"));
            world.store.checkpoint().unwrap();
            world.keep();
        }
        assert!(!world.store.failed());
        world.reopen();
    }
    assert!(world.runs().len() < 20, "{:?}", world.runs());
}

#[test]
fn s16_a_damaged_run_leaves_with_its_time_and_does_not_stop_the_tidying() {
    let world = World::new(ArchiveOptions::default().retention(Duration::from_mins(50)));
    let idle = world.put(2, "idle");
    world.put(1, "first");
    world.store.checkpoint().unwrap();
    world.pass(MINUTE);
    world.put(1, "second");
    world.store.checkpoint().unwrap();
    world.disk.flip(&world.runs()[1], 80); // In its first block.
    let mut last = Vec::new();
    for i in 0..200 {
        world.pass(MINUTE);
        last.push(world.put(1, &format!("value {i}")));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.runs().len() < 60, "{:?}", world.runs());
    let horizon = world.store.stats().archive_horizon_ms;
    assert!(horizon > world.now() - 100 * MINUTE);
    assert_eq!(world.at(2, &idle).unwrap().unwrap(), "idle");
    for (i, bookmark) in last.iter().enumerate().skip(160) {
        assert_eq!(
            world.at(1, bookmark).unwrap().unwrap(),
            format!("value {i}")
        );
    }
}

#[test]
fn s16_a_damaged_run_costs_only_the_history_in_it() {
    let mut world = World::new(ArchiveOptions::default());
    let one = world.put(1, "one");
    world.store.checkpoint().unwrap();
    let run = world.runs()[0].clone();
    let two = world.put(2, "two");
    world.put(2, "two later");
    world.store.checkpoint().unwrap();
    let len = read_file(&world.disk, &run).len() as u64;
    world.disk.flip(&run, len - 20); // The footer.
    world.reopen();
    assert_eq!(world.at(2, &two).unwrap().unwrap(), "two");
    let error = world.at(1, &one).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error.to_string().contains("0000000000000001.run"),
        "{error}"
    );
}

#[test]
fn the_archive_leaves_alone_what_it_has_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("archive");
    let open = || {
        let disk = Arc::new(abide_storage::RealDisk);
        Store::open(disk, dir.path(), StoreOptions::small()).unwrap()
    };
    std::fs::create_dir_all(archive.join("lost+found")).unwrap();
    open().close().unwrap();
    let (copy, left) = ("0000000000000007.run.bak", "0000000000000007.run");
    std::fs::write(archive.join(copy), "a copy").unwrap();
    std::fs::write(archive.join(left), "left by a crash").unwrap();
    open().close().unwrap();
    assert!(archive.join(copy).exists() && !archive.join(left).exists());
}
