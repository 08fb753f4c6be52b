//! A directory that is restored from a copy of the history and the tail of the log: it has what was shipped, to the last
//! transaction.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use abide_storage::{
    Disk as _, Lsn, RealDisk, RestoreOptions, SplitMix64, Store, restore_directory,
};

use super::{
    life::{CLASSES, Life, large_by, object_files},
    shipped::{Shipped, small},
    time::{Values, difference, values, values_at},
};
use crate::common::{DIR, flush, read_file};

/// The size of a part.
fn size(random: &mut SplitMix64) -> usize {
    match random.below(4) {
        0 => 1,
        1 => random.below(1000) as usize,
        2 => random.below(100_000) as usize,
        _ => usize::MAX,
    }
}

/// A random step of a node that ships its log and sometimes copies its history.
fn step(life: &mut Life, shipped: &mut Shipped, random: &mut SplitMix64) {
    match random.below(60) {
        0 => shipped.renew(life),
        1 => {
            let key = life.key("Fourth", random.below(3) as u8);
            life.put(key, &format!("of a new class at {}", life.now()));
        }
        2 if !life.past.is_empty() => {
            let state = &life.past[random.below(life.past.len() as u64) as usize];
            let (key, bookmark) = (state.key, state.bookmark);
            // What was folded, or its class deleted, cannot be forked.
            let _ = life.at(&bookmark, key);
        }
        3..7 => {
            flush(&life.store);
            shipped.ship(life, || size(random));
        }
        _ => life.step(random),
    }
}

#[test]
fn s23_random_lives_are_restored_with_the_tail_as_they_were() {
    let mut in_tail = 0;
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::with(Duration::from_hours(6), large_by(seed));
        for round in 0..3 {
            let context = format!("seed {seed}, round {round}");
            for _ in 0..random.below(60) {
                life.step(&mut random);
            }
            let mut shipped = Shipped::of(&life);
            for _ in 0..random.below(60) {
                step(&mut life, &mut shipped, &mut random);
            }
            flush(&life.store);
            shipped.ship(&life, || size(&mut random));
            in_tail += is_restored(&mut life, &shipped, &mut random, &context);
        }
    }
    assert!(in_tail > 200, "{in_tail}");
}

/// Returns the number of commits that only the tail had.
fn is_restored(life: &mut Life, shipped: &Shipped, random: &mut SplitMix64, context: &str) -> u64 {
    let (alarms, stored) = (life.alarms(), life.stored());
    life.store.close().unwrap();
    let files = object_files(&life.disk);
    let (disk, made) = shipped.restore_at(life, None).unwrap();
    assert_eq!(made.quarantined, [], "{context}");
    assert_eq!(made.objects, stored.len() as u64, "{context}");
    assert!(object_files(&disk) == files, "{context}");
    life.open(&disk);
    assert_eq!(life.alarms(), alarms, "{context}");
    assert_eq!(life.stored(), stored, "{context}");
    life.store.verify_archive().unwrap();
    for key in &stored {
        let before = life.timelines.get(key).copied();
        life.see_timeline(*key);
        let now = life.timelines.get(key).copied();
        assert!(now > before, "{context}: {key}");
    }
    // The history reaches back over the tail.
    for _ in 0..10.min(life.past.len()) {
        let state = &life.past[random.below(life.past.len() as u64) as usize];
        let (key, bookmark, value) = (state.key, state.bookmark, state.value.clone());
        if let Ok(found) = life.at(&bookmark, key) {
            assert_eq!(found, value, "{context}: {key} at {bookmark}");
        }
    }
    made.log_commits
}

/// The values after the commits up to a position, according to the model.
fn values_up_to(life: &Life, end: Lsn) -> Values {
    let mut values = Values::new();
    for state in life.past.iter().filter(|state| state.end <= end) {
        match &state.value {
            Some(value) => values.insert(state.key, value.clone()),
            None => values.remove(&state.key),
        };
    }
    values
}

#[test]
fn s23_what_was_not_shipped_is_lost_at_one_position_for_all_objects() {
    let mut different = BTreeSet::new();
    for seed in 0..10 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::with(Duration::from_hours(10_000), large_by(seed));
        // A deletion is several commits: the model does not know which of them deletes the value.
        let mut deletions = Vec::new();
        let mut step = |life: &mut Life, random: &mut SplitMix64| match random.below(12) {
            0 => {
                let key = life.key(CLASSES[0], random.below(5) as u8);
                let bytes = crate::recovery_points::world::noise(random.below(99), 400_000);
                life.put(key, &hex::encode(bytes));
            }
            1 => {
                let key = life.key(CLASSES[1], random.below(5) as u8);
                let begun = life.store.durable();
                life.delete(key);
                deletions.push(begun..life.store.durable());
            }
            _ => {
                let class = CLASSES[random.below(3) as usize];
                let key = life.key(class, random.below(5) as u8);
                life.put(key, &format!("at {}", life.now()));
                life.pass(1);
            }
        };
        for _ in 0..20 {
            step(&mut life, &mut random);
        }
        life.checkpoint();
        let mut shipped = Shipped::of(&life);
        for _ in 0..30 {
            step(&mut life, &mut random);
            flush(&life.store);
            shipped.ship(&life, || size(&mut random));
        }
        let parts = shipped.parts.len();
        for _ in 0..4 {
            let cut = shipped.first(random.below(parts as u64 + 1) as usize);
            let (archived, end) = (cut.archived, cut.end);
            if deletions
                .iter()
                .any(|of| of.contains(&end) && of.start != end)
            {
                continue;
            }
            let (disk, made) = cut.restore_at(&life, None).unwrap();
            let expected = values_up_to(&life, end);
            let mut restored = Life::new(life.retention);
            restored.open(&disk);
            let context = format!("seed {seed}, {} of {parts} parts", cut.parts.len());
            assert_eq!(difference(&values(&restored), &expected), [], "{context}");
            let commits = life.past.iter().map(|state| state.end);
            let ends: BTreeSet<_> = commits.filter(|at| *at > archived && *at <= end).collect();
            assert!(made.log_commits >= ends.len() as u64, "{context}");
            different.insert(made.log_commits);
        }
    }
    assert!(different.len() > 10, "{different:?}");
}

#[test]
fn s23_random_lives_are_restored_to_any_time_before_and_in_the_tail() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::new(Duration::from_hours(10_000));
        for _ in 0..40 {
            life.step(&mut random);
            life.pass(1);
        }
        let mut shipped = Shipped::of(&life);
        let copied = life.now();
        for _ in 0..40 {
            life.step(&mut random);
            life.pass(1);
        }
        flush(&life.store);
        shipped.ship(&life, || size(&mut random));
        let (first, now) = (life.past[0].millis, life.now());
        let times = [
            first + random.below(copied - first),
            copied + random.below(now - copied),
            now + 1,
        ];
        for at in times {
            let context = format!("seed {seed}, at {at}");
            let expected = values_at(&life, at);
            let (disk, made) = shipped.restore_at(&life, Some(at)).unwrap();
            assert_eq!(made.quarantined, [], "{context}");
            let mut restored = Life::new(life.retention);
            restored.clock = life.clock.clone();
            restored.open(&disk);
            assert_eq!(difference(&values(&restored), &expected), [], "{context}");
            restored.store.verify_archive().unwrap();
        }
    }
}

#[test]
fn a_restored_directory_says_what_only_the_tail_had() {
    let (life, shipped) = small(1000);
    let (_, made) = shipped.restore_at(&life, None).unwrap();
    // The deletion is three commits.
    assert_eq!(made.log_commits, 8);
    assert_eq!(made.last_millis, Some(life.now()));
    let (_, made) = shipped.first(0).restore_at(&life, None).unwrap();
    assert_eq!((made.log_commits, made.last_millis), (0, None));
}

#[test]
fn a_transaction_whose_end_was_not_shipped_is_left_out() {
    let (mut life, shipped) = small(1);
    let large = life.key("Second", 2);
    let value = life.value(large).unwrap();
    let end = |life: &Life| {
        let mut states = life.past.iter().rev();
        states.find(|state| state.key == large).unwrap().end
    };
    let whole = shipped.parts.iter().position(|part| part.end == end(&life));
    let whole = whole.unwrap() + 1;
    for (parts, has) in [(whole, true), (whole - 1, false), (whole - 2, false)] {
        let (disk, made) = shipped.first(parts).restore_at(&life, None).unwrap();
        assert_eq!(made.log_commits, 6 + u64::from(has));
        let mut restored = Life::new(life.retention);
        restored.open(&disk);
        assert_eq!(restored.value(large), has.then(|| value.clone()));
        let changed = restored.key("First", 0);
        assert_eq!(restored.value(changed).as_deref(), Some("changed"));
    }
    // What follows in the same place is another commit.
    let (disk, _) = shipped.first(whole - 1).restore_at(&life, None).unwrap();
    life.open(&disk);
    life.put(large, "after the restore");
    let copy = life.copy();
    let disk = copy.restore(&life);
    life.open(&disk);
    assert_eq!(life.value(large).as_deref(), Some("after the restore"));
}

#[test]
fn a_class_that_was_deleted_after_the_copy_is_not_restored() {
    let mut life = Life::small();
    life.checkpoint();
    let mut shipped = Shipped::of(&life);
    let gone = life.key("Third", 0);
    life.put(gone, "is deleted with its class");
    life.delete_class("Third");
    let again = life.key("Third", 0);
    assert_ne!(gone, again);
    life.put(again, "of the class that was created again");
    flush(&life.store);
    shipped.ship(&life, || usize::MAX);
    let stored = life.stored();
    let (disk, _) = shipped.restore_at(&life, None).unwrap();
    life.open(&disk);
    assert_eq!(life.key("Third", 0), again);
    assert_eq!(life.stored(), stored);
    assert_eq!(
        life.value(again).as_deref(),
        Some("of the class that was created again")
    );
}

#[test]
fn a_node_without_an_archive_yet_is_restored_from_its_log_alone() {
    let mut life = Life::new(Duration::from_hours(1));
    let mut shipped = Shipped::of(&life);
    let key = life.key("First", 1);
    for text in ["first", "second"] {
        life.put(key, text);
    }
    shipped.ship(&life, || 1);
    let (disk, made) = shipped.restore_at(&life, None).unwrap();
    assert_eq!((made.objects, made.log_commits), (1, 2));
    life.open(&disk);
    assert_eq!(life.value(key).as_deref(), Some("second"));
}

#[test]
fn on_a_real_disk_the_parts_are_removed_with_their_directory() {
    let (life, shipped) = small(100_000);
    let sim = shipped.disk();
    let temporary = tempfile::tempdir().unwrap();
    let data = temporary.path().join("data");
    for dir in ["archive", "tail"] {
        std::fs::create_dir_all(data.join(dir)).unwrap();
        for name in sim.list(&Path::new(DIR).join(dir)).unwrap() {
            let bytes = read_file(&sim, &Path::new(DIR).join(dir).join(&name));
            std::fs::write(data.join(dir).join(name), bytes).unwrap();
        }
    }
    let made = restore_directory(
        Arc::new(RealDisk),
        &data,
        &shipped.manifest,
        RestoreOptions::default(),
        &life.options(),
        &|_| {},
    );
    assert_eq!(made.unwrap().log_commits, 8);
    assert!(!data.join("tail").exists());
    // A crash before that leaves them for the next start.
    std::fs::create_dir(data.join("tail")).unwrap();
    std::fs::write(data.join("tail/0000000000000000.part"), b"left").unwrap();
    let store = Store::open(Arc::new(RealDisk), &data, life.options()).unwrap();
    assert!(!data.join("tail").exists());
    assert!(store.has_object(life.key("Fourth", 1)).unwrap());
}
