//! Many small objects, on the disk of the machine.

use std::{
    num::NonZero,
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use super::life::{Life, object_files, restore};
use crate::{
    common::{DIR, flush, manual, read_file},
    recovery_points::world::noise,
};
use abide_storage::{
    Disk as _, ObjectKey, OpenMode, RealDisk, RestoreOptions, RestoreProgress, SimDisk, Store,
    StoreOptions, restore_directory,
};

const OBJECTS: u64 = 20_000;

#[test]
fn twenty_thousand_objects_are_restored_in_seconds() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let namespace = store.namespace("tests").unwrap();
    let key = |number: u64| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        ObjectKey { namespace, id }
    };
    for number in 0..OBJECTS {
        let db = store.open_object(key(number)).unwrap();
        db.kv_put("k", &number.to_le_bytes()).unwrap();
        db.commit().unwrap();
        drop(db);
        flush(&store);
    }
    store.close().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let archive = Path::new(DIR).join("archive");
    let target = dir.path().join("archive");
    RealDisk.create_dir_all(&target).unwrap();
    for name in disk.list(&archive).unwrap() {
        let file = RealDisk
            .open(&target.join(&name), OpenMode::Create)
            .unwrap();
        file.write_at(&read_file(&disk, &archive.join(&name)), 0)
            .unwrap();
    }
    let manifest = read_file(&disk, &Path::new(DIR).join("MANIFEST"));
    let options = StoreOptions::small().cores(NonZero::new(4));
    let told = Mutex::new(Vec::<RestoreProgress>::new());
    let tell = |progress| told.lock().unwrap().push(progress);
    let begun = Instant::now();
    let real = Arc::new(RealDisk);
    let how = RestoreOptions::default();
    let made =
        restore_directory(real.clone(), dir.path(), &manifest, how, &options, &tell).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} objects in {seconds:.1} s: {:.0}/s",
        made.objects,
        made.objects as f64 / seconds
    );
    assert_eq!((made.objects, made.quarantined.len()), (OBJECTS, 0));
    let told = told.into_inner().unwrap();
    let figures = |of: &RestoreProgress| [of.checked_bytes, of.objects, of.total_objects];
    assert!(told.windows(2).all(|two| {
        let [before, after] = [figures(&two[0]), figures(&two[1])];
        before
            .iter()
            .zip(after)
            .all(|(before, after)| *before <= after)
    }));
    let last = told.last().unwrap();
    assert_eq!((last.objects, last.total_objects), (OBJECTS, OBJECTS));
    assert_eq!(last.checked_bytes, last.total_bytes);
    let store = Store::open(real, dir.path(), options).unwrap();
    for number in (0..OBJECTS).step_by(997) {
        let db = store.open_object(key(number)).unwrap();
        assert_eq!(db.kv_get("k").unwrap().unwrap(), number.to_le_bytes());
    }
    let path = store.object_path(key(77)).unwrap();
    let plain =
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    let sound: String = plain
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    store.close().unwrap();
}

#[test]
fn the_pages_of_a_large_object_are_not_all_in_memory() {
    let life = Life::small();
    let key = life.key("Third", 3);
    let db = life.store.open_object(key).unwrap();
    for part in 0..8 {
        db.kv_put(&format!("part {part}"), &noise(part, 2_000_000))
            .unwrap();
        db.commit().unwrap();
    }
    db.kv_delete("part 7").unwrap();
    db.commit().unwrap();
    drop(db);
    flush(&life.store);
    let copy = life.copy();
    // With this many cores, each thread has room for half of it.
    let options = life.options().cores(NonZero::new(16));
    restore(&copy.disk, &copy.manifest, None, &options).unwrap();
    assert_eq!(object_files(&copy.disk), object_files(&life.disk));
    let left = copy.disk.list(&Path::new(DIR).join("archive")).unwrap();
    assert!(
        left.iter().all(|name| !name.contains("scratch")),
        "{left:?}"
    );
}
