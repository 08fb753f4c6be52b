//! Random lives: what is restored is what was lost, down to each byte, and continues.

use std::time::Duration;

use abide_storage::{Bookmark, ObjectKey, SplitMix64};

use super::life::{Life, large_by, object_files};

#[test]
fn s23_random_lives_are_restored_as_they_were_and_continue() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::with(Duration::from_hours(6), large_by(seed));
        for round in 0..3 {
            let context = format!("seed {seed}, round {round}");
            for _ in 0..100 {
                life.step(&mut random);
            }
            is_restored(&mut life, &mut random, &context);
        }
    }
}

fn is_restored(life: &mut Life, random: &mut SplitMix64, context: &str) {
    let alarms = life.alarms();
    let stored = life.stored();
    let copy = life.copy();
    let files = object_files(&life.disk);
    // The node continues for a while, which is lost.
    life.reopen();
    let known = std::mem::take(&mut life.past);
    for _ in 0..20 {
        life.step(random);
    }
    for key in life.stored() {
        life.see_timeline(key);
    }
    let lost = std::mem::replace(&mut life.past, known);

    let disk = copy.restore(life);
    assert_eq!(object_files(&disk), files, "{context}");
    life.open(&disk);
    assert_eq!(life.alarms(), alarms, "{context}");
    assert_eq!(life.stored(), stored, "{context}");
    life.store.verify_archive().unwrap();
    for key in &stored {
        let before = life.timelines.get(key).copied();
        life.see_timeline(*key);
        assert!(
            life.timelines.get(key).copied() > before,
            "{context}: {key}"
        );
    }
    // Bookmarks of what is there restore it, those of what is lost nothing.
    for _ in 0..10 {
        let state = &life.past[random.below(life.past.len() as u64) as usize];
        let (key, bookmark, value) = (state.key, state.bookmark, state.value.clone());
        if let Ok(found) = life.at(&bookmark, key) {
            assert_eq!(found, value, "{context}: {key} at {bookmark}");
        }
    }
    for state in lost {
        let mut known = life.past.iter().rev();
        let newest = known.find(|of| of.key == state.key);
        let is_known = newest.is_some_and(|of| commit(&of.bookmark) == commit(&state.bookmark));
        let has_class = life
            .store
            .namespaces()
            .iter()
            .any(|of| of.0 == state.key.namespace);
        if has_class && !is_known && state.value.is_some() {
            let found = life
                .store
                .fork(state.key, &state.bookmark, unused(state.key), None);
            assert!(found.is_err(), "{context}: {} was lost", state.bookmark);
        }
    }
}

/// The number of the commit.
fn commit(bookmark: &Bookmark) -> String {
    let text = bookmark.to_string();
    text.split('-').nth(2).unwrap().to_owned()
}

fn unused(key: ObjectKey) -> ObjectKey {
    let mut unused = key;
    unused.id[31] ^= 1;
    unused
}
