//! A directory that is restored to an earlier time, beside a model of the history.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use abide_storage::{AlarmRow, ErrorKind, ObjectKey, SplitMix64};

use super::life::{Life, State, large_by, object_files};
use crate::common::flush;

pub(super) type Values = BTreeMap<ObjectKey, String>;

/// The values of all objects at a time, according to the model.
pub(super) fn values_at(life: &Life, at: u64) -> Values {
    let mut values = Values::new();
    for state in life.past.iter().filter(|state| state.millis <= at) {
        match &state.value {
            Some(value) => values.insert(state.key, value.clone()),
            None => values.remove(&state.key),
        };
    }
    values
}

pub(super) fn values(life: &Life) -> Values {
    let value = |key| Some((key, life.value(key)?));
    life.stored().into_iter().filter_map(value).collect()
}

/// The objects that differ, and the beginnings of their values.
pub(super) fn difference(found: &Values, expected: &Values) -> Vec<(String, [Option<String>; 2])> {
    let short = |of: Option<&String>| of.map(|value| value[..value.len().min(20)].to_owned());
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differ = keys
        .into_iter()
        .filter(|key| found.get(key) != expected.get(key));
    differ
        .map(|key| {
            (
                key.to_string(),
                [found, expected].map(|of| short(of.get(key))),
            )
        })
        .collect()
}

#[test]
fn s23_random_lives_are_restored_to_any_time() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::with(Duration::from_hours(10_000), large_by(seed));
        for round in 0..3 {
            for _ in 0..80 {
                life.step(&mut random);
                life.pass(1);
            }
            let first = life.past[0].millis;
            let at = first + random.below(life.now() - first + 10);
            let context = format!("seed {seed}, round {round}, at {at}");
            let expected = values_at(&life, at);
            let copy = life.copy();
            let (disk, made) = copy.restore_at(&life, Some(at)).unwrap();
            assert_eq!(made.quarantined, [], "{context}");
            life.open(&disk);
            life.pass(1);
            assert_eq!(difference(&values(&life), &expected), [], "{context}");
            life.store.verify_archive().unwrap();
            for key in life.stored() {
                let before = life.timelines.get(&key).copied();
                life.see_timeline(key);
                assert!(
                    life.timelines.get(&key).copied() > before,
                    "{context}: {key}"
                );
            }
            continues(&mut life, &mut random, &expected, &context);
        }
    }
}

/// Each earlier state can still be found and restored, and the directory is restored again as it is.
fn continues(life: &mut Life, random: &mut SplitMix64, expected: &Values, context: &str) {
    // In the model, the restore is a commit of each object that it has changed.
    for key in life.stored() {
        if let Some(value) = expected.get(&key) {
            life.put(key, value);
        }
    }
    let now = values_at(life, life.now()).into_keys();
    let gone: Vec<_> = now.filter(|key| !expected.contains_key(key)).collect();
    for key in gone {
        life.past.push(State {
            key,
            bookmark: life.store.bookmark(key).unwrap(),
            end: life.store.durable(),
            millis: life.now(),
            value: None,
        });
    }
    for _ in 0..10 {
        let state = &life.past[random.below(life.past.len() as u64) as usize];
        let (key, bookmark, value) = (state.key, state.bookmark, state.value.clone());
        let millis = state.millis;
        let found = life.at(&bookmark, key).unwrap();
        assert_eq!(found, value, "{context}: {key} at {bookmark}");
        let then = values_at(life, millis).remove(&key);
        let bookmark = life.store.bookmark_at(key, millis).unwrap();
        assert_eq!(
            life.at(&bookmark, key).unwrap(),
            then,
            "{context}: {key} at {millis}"
        );
    }
    life.store.run_maintenance().unwrap();
    let copy = life.copy();
    let files = object_files(&life.disk);
    let disk = copy.restore(life);
    assert_eq!(object_files(&disk), files, "{context}");
    life.open(&disk);
}

#[test]
fn a_time_after_the_newest_commit_restores_the_newest_state() {
    let life = Life::small();
    let copy = life.copy();
    let (disk, _) = copy.restore_at(&life, Some(u64::MAX)).unwrap();
    assert_eq!(object_files(&disk), object_files(&life.disk));
}

#[test]
fn a_time_before_the_history_is_refused_with_when_it_begins() {
    let mut life = Life::new(Duration::from_hours(1));
    let key = life.key("First", 1);
    let begin = life.now();
    life.put(key, "first");
    life.checkpoint();
    life.pass(60_000);
    life.put(key, "second");
    life.checkpoint();
    life.pass(3 * 3_600_000);
    // The first two are folded.
    life.store.run_maintenance().unwrap();
    life.pass(60_000);
    life.put(key, "third");
    let copy = life.copy();
    let error = copy.restore_at(&life, Some(begin)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    let told = "the archive does not have every object at 2001-09-09T01:46:40Z: the history of 1 of them begins later. \
                Choose 2001-09-09T01:47:40Z or a later time";
    assert_eq!(error.to_string(), told);
    let (disk, _) = copy.restore_at(&life, Some(begin + 60_000)).unwrap();
    life.open(&disk);
    assert_eq!(life.value(key).as_deref(), Some("second"));
}

#[test]
fn alarms_are_those_of_the_time() {
    let mut life = Life::small();
    let keys = [0, 1].map(|id| life.key("First", id));
    life.set_alarm(keys[0], Some(&AlarmRow::at(5)));
    life.checkpoint();
    let at = life.now();
    life.pass(10);
    life.set_alarm(keys[0], None);
    life.set_alarm(keys[1], Some(&AlarmRow::at(7)));
    let copy = life.copy();
    let (disk, _) = copy.restore_at(&life, Some(at)).unwrap();
    life.open(&disk);
    flush(&life.store);
    let alarms: Vec<_> = life
        .alarms()
        .into_iter()
        .map(|(key, entry)| (key, entry.due))
        .collect();
    assert_eq!(alarms, [(keys[0], 5)]);
}
