//! Fingerprints of objects beside copies of the archive.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use abide_storage::{
    Comparison, CopiedArchive, Disk as _, ErrorKind, Fingerprint, ObjectKey, OpenMode, Result,
    SimDisk, SplitMix64, Store,
};

use super::life::{Life, write_file};
use crate::common::{DIR, flush, key, open, read_file, threaded};

/// A copy of what the archive has now. `None` if a merge replaces a run meanwhile.
fn copy_now(store: &Store, disk: &SimDisk) -> Option<(Vec<u8>, SimDisk)> {
    let copy = store.history_copy()?;
    let copied = SimDisk::new();
    copied
        .create_dir_all(&Path::new(DIR).join("archive"))
        .unwrap();
    for run in &copy.runs {
        let file = disk.open(&run.path, OpenMode::Existing).ok()?;
        let mut bytes = vec![0; run.bytes as usize];
        file.read_at(&mut bytes, 0).unwrap();
        write_file(&copied, &run.path, &bytes);
    }
    Some((copy.manifest, copied))
}

fn open_copy(store: &Store, (manifest, disk): &(Vec<u8>, SimDisk)) -> Result<CopiedArchive> {
    store.open_copy(disk, Path::new(DIR), manifest)
}

fn in_copy(copy: &CopiedArchive) -> Result<BTreeSet<ObjectKey>> {
    let mut keys = BTreeSet::new();
    for byte in 0..=u8::MAX {
        keys.extend(copy.objects(byte)?);
    }
    Ok(keys)
}

fn fingerprints(life: &Life) -> Vec<Fingerprint> {
    let keys: BTreeSet<_> = life.past.iter().map(|state| state.key).collect();
    let taken = keys
        .into_iter()
        .filter_map(|key| life.store.fingerprint(key).unwrap());
    taken.collect()
}

#[test]
fn s24_random_lives_compare_as_the_same_with_their_copies() {
    let (mut same, mut earlier, mut absent) = (0, 0, 0);
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::new(Duration::from_hours(24));
        for round in 0..8 {
            let context = format!("seed {seed}, round {round}");
            for _ in 0..12 {
                life.step(&mut random);
            }
            let taken = fingerprints(&life);
            // The node continues before the copy is made.
            for _ in 0..random.below(6) {
                life.step(&mut random);
            }
            flush(&life.store);
            if let Some(copy) = copy_now(&life.store, &life.disk) {
                let mut copy = open_copy(&life.store, &copy).unwrap();
                for of in &taken {
                    let found = copy.compare(of).unwrap();
                    let is_early = found == Comparison::NotYet;
                    earlier += u32::from(is_early);
                    assert!(
                        is_early || is_fine(&life, of, &found),
                        "{context}: {of:?}: {found:?}"
                    );
                }
            }
            life.checkpoint();
            let copy = copy_now(&life.store, &life.disk).unwrap();
            let mut copy = open_copy(&life.store, &copy).unwrap();
            let stored: BTreeSet<_> = life.stored().into_iter().collect();
            assert_eq!(in_copy(&copy).unwrap(), stored, "{context}");
            for of in taken.iter().chain(&fingerprints(&life)) {
                let found = copy.compare(of).unwrap();
                assert!(is_fine(&life, of, &found), "{context}: {of:?}: {found:?}");
                same += u32::from(found == Comparison::Same);
                absent += u32::from(found == Comparison::Same && of.pages() == 0);
            }
        }
    }
    assert!(
        same > 1000 && earlier > 50 && absent > 20,
        "{same} {earlier} {absent}"
    );
}

/// Nothing is missing but what was deleted with its class.
fn is_fine(life: &Life, of: &Fingerprint, found: &Comparison) -> bool {
    let mut classes = life.store.namespaces().into_iter();
    let has_class = classes.any(|(number, _)| number == of.key().namespace);
    *found == Comparison::Same || (*found == Comparison::KnownGap && !has_class)
}

#[test]
fn a_page_that_differs_is_named() {
    let life = Life::small();
    life.checkpoint();
    let copy = copy_now(&life.store, &life.disk).unwrap();
    let mut copy = open_copy(&life.store, &copy).unwrap();
    let mut pages = 0;
    for key in life.stored() {
        let path = life.store.object_path(key).unwrap();
        let whole = read_file(&life.disk, &path);
        for page in 0..whole.len() / 4096 {
            let mut changed = whole.clone();
            changed[page * 4096 + 1000] ^= 1;
            write_file(&life.disk, &path, &changed);
            let of = life.store.fingerprint(key).unwrap().unwrap();
            let found = copy.compare(&of).unwrap();
            let size = of.pages();
            let expected = Comparison::Differs {
                sizes: [size, size],
                count: 1,
                pages: vec![page as u32 + 1],
            };
            assert_eq!(found, expected);
            pages += 1;
        }
        write_file(&life.disk, &path, &whole);
        let of = life.store.fingerprint(key).unwrap().unwrap();
        assert_eq!(copy.compare(&of).unwrap(), Comparison::Same);
    }
    assert!(pages > 20, "{pages}");
}

#[test]
fn an_object_that_only_the_copy_has_is_told() {
    let life = Life::small();
    life.checkpoint();
    let before = copy_now(&life.store, &life.disk).unwrap();
    let mut life = life;
    let gone = life.stored()[0];
    life.delete(gone);
    let of = life.store.fingerprint(gone).unwrap().unwrap();
    assert_eq!(of.pages(), 0);
    // The copy ends before the deletion.
    let mut copy = open_copy(&life.store, &before).unwrap();
    assert!(in_copy(&copy).unwrap().contains(&gone));
    assert_eq!(copy.compare(&of).unwrap(), Comparison::NotYet);
    life.checkpoint();
    let after = copy_now(&life.store, &life.disk).unwrap();
    let mut copy = open_copy(&life.store, &after).unwrap();
    assert_eq!(copy.compare(&of).unwrap(), Comparison::Same);
    assert!(!in_copy(&copy).unwrap().contains(&gone));
}

#[test]
fn a_flipped_byte_of_a_copied_run_is_never_a_wrong_page() {
    let life = Life::small();
    life.checkpoint();
    let copy = copy_now(&life.store, &life.disk).unwrap();
    let taken = fingerprints(&life);
    let check = |copy: &(Vec<u8>, SimDisk)| -> Result<()> {
        let mut opened = open_copy(&life.store, copy)?;
        in_copy(&opened)?;
        for of in &taken {
            assert_eq!(opened.compare(of)?, Comparison::Same);
        }
        Ok(())
    };
    check(&copy).unwrap();
    let dir = Path::new(DIR).join("archive");
    let (mut found, mut unused) = (0, 0);
    for name in copy.1.list(&dir).unwrap() {
        let path = dir.join(name);
        let whole = read_file(&copy.1, &path);
        let file = copy.1.open(&path, OpenMode::Existing).unwrap();
        let ends = (0..200).chain(whole.len() - 600..whole.len());
        for at in ends.chain((200..whole.len()).step_by(997)) {
            file.write_at(&[whole[at] ^ 0x20], at as u64).unwrap();
            match check(&copy) {
                Ok(()) => unused += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                    found += 1;
                }
            }
            file.write_at(&[whole[at]], at as u64).unwrap();
        }
    }
    check(&copy).unwrap();
    // What a run says of itself, and states that are older, are not needed.
    assert!(found > unused, "{found} {unused}");
}

#[test]
fn fingerprints_are_of_one_commit_while_objects_are_written() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (1..4).map(|id| {
        let (store, is_over) = (store.clone(), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut random = SplitMix64::new(u64::from(id));
            let mut written = 0_u32;
            while !is_over.load(Ordering::Acquire) {
                let db = open(&store, id);
                for _ in 0..20 {
                    let bytes = vec![random.draw() as u8; random.below(30_000) as usize];
                    let key = format!("k{}", random.below(9));
                    db.kv_put(&key, &bytes).unwrap();
                    db.commit().unwrap();
                    written += 1;
                    thread::sleep(Duration::from_micros(random.below(400)));
                }
            }
            written
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut taken = Vec::new();
    let begun = Instant::now();
    for round in 0_u32.. {
        let id = (round % 3 + 1) as u8;
        let of = store.fingerprint(key(&store, id)).unwrap();
        taken.extend(of.filter(|of| of.pages() > 0));
        thread::sleep(Duration::from_micros(200));
        if round % 50 == 7 {
            store.checkpoint().unwrap();
        }
        let is_enough = taken.len() > 300 && begun.elapsed() > Duration::from_secs(1);
        if is_enough || begun.elapsed() > Duration::from_secs(30) {
            break;
        }
    }
    is_over.store(true, Ordering::Release);
    for writer in writers {
        assert!(writer.join().unwrap() > 0);
    }
    let copy = loop {
        store.checkpoint().unwrap();
        if let Some(copy) = copy_now(&store, &disk) {
            break copy;
        }
    };
    let mut copy = open_copy(&store, &copy).unwrap();
    for of in &taken {
        assert_eq!(copy.compare(of).unwrap(), Comparison::Same, "{of:?}");
    }
    assert!(taken.len() > 300, "{}", taken.len());
    store.close().unwrap();
}
