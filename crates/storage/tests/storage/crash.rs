//! Crashes at every write, on a disk that loses and tears what was not synced, compared with a model.
//!
//! A workload is a script made from a seed: it writes to a few objects, commits, lets groups be written, evicts and
//! takes checkpoints. It is run once to count the changes of the disk, then once for each of them with the power cut
//! there; what is found afterwards is compared with the states that the model has seen. `ABIDE_CRASH_SEEDS` sets the
//! number of workloads.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use abide_storage::{
    AlarmRow, ListOptions, Lsn, ObjectDb, SimDisk, SplitMix64, Store, StoreOptions,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

const OBJECTS: u8 = 3;
const STEPS: u64 = 50;

/// On this many cores several threads take a checkpoint. What they do to the disk has another order each time.
const LARGE_MACHINE: usize = 16;

/// What an object holds: its keys, and its alarm under [`ALARM`].
type Keys = BTreeMap<String, Vec<u8>>;

const ALARM: &str = "the alarm";

fn seeds(default: u64) -> u64 {
    std::env::var("ABIDE_CRASH_SEEDS").map_or(default, |n| n.parse().expect("a number"))
}

/// What an object has been: its content after each commit, with the commit's position.
#[derive(Clone, Default)]
struct History {
    now: Keys,
    commits: Vec<(Lsn, Keys)>,
    /// How many of the commits were durable before the power was cut.
    durable: usize,
}

#[derive(Clone)]
struct Model {
    /// Those that the store works for: see [`LARGE_MACHINE`].
    cores: usize,
    objects: BTreeMap<u8, History>,
}

impl Model {
    fn new(cores: usize) -> Self {
        Self {
            cores,
            objects: BTreeMap::new(),
        }
    }

    fn acknowledge(&mut self, durable: Lsn) {
        for history in self.objects.values_mut() {
            let count = history
                .commits
                .iter()
                .filter(|(lsn, _)| *lsn <= durable)
                .count();
            history.durable = history.durable.max(count);
        }
    }

    /// After recovery the states found become the history.
    fn restart(&mut self, found: &BTreeMap<u8, Keys>) {
        for (id, history) in &mut self.objects {
            *history = History {
                now: found[id].clone(),
                ..History::default()
            };
        }
    }
}

fn options(cores: usize) -> StoreOptions {
    StoreOptions::small()
        .manual(true)
        .cores(NonZero::new(cores))
        .checkpoint_bytes(300 << 10)
}

fn open_store(disk: &SimDisk, cores: usize) -> abide_storage::Result<Store> {
    let options = options(cores);
    Store::open(Arc::new(disk.clone()), Path::new(common::DIR), options)
}

/// Runs a workload until it ends or the disk stops.
fn run(disk: &SimDisk, seed: u64, model: &mut Model) {
    let Ok(store) = open_store(disk, model.cores) else {
        return;
    };
    let Ok(namespace) = store.namespace("tests") else {
        return;
    };
    let mut random = SplitMix64::new(seed);
    let mut open: BTreeMap<u8, ObjectDb> = BTreeMap::new();
    for step in 0..STEPS {
        let id = random.below(u64::from(OBJECTS)) as u8;
        let history = model.objects.entry(id).or_default();
        match random.below(20) {
            0 => drop(open.remove(&id)),
            1 => {
                if store.checkpoint().is_err() {
                    break;
                }
            }
            2..=5 => {
                store.write_group();
            }
            _ => {
                let db = match open.entry(id) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        let key = abide_storage::ObjectKey {
                            namespace,
                            id: [id; 32],
                        };
                        let Ok(db) = store.open_object(key) else {
                            break;
                        };
                        entry.insert(db)
                    }
                };
                let mut now = history.now.clone();
                if write(db, &mut random, step, &mut now).is_err() {
                    break;
                }
                match db.commit() {
                    Ok(Some(lsn)) => {
                        history.now.clone_from(&now);
                        history.commits.push((lsn, now));
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        }
        model.acknowledge(store.durable());
        if store.failed() || store.run_maintenance().is_err() {
            break;
        }
    }
    model.acknowledge(store.durable());
}

fn write(
    db: &ObjectDb,
    random: &mut SplitMix64,
    step: u64,
    keys: &mut Keys,
) -> abide_storage::Result<()> {
    if random.below(3) == 0 {
        write_alarm(db, random, keys)?;
    }
    for _ in 0..=random.below(4) {
        let key = format!("key {:02}", random.below(30));
        if random.below(5) == 0 {
            db.kv_delete(&key)?;
            keys.remove(&key);
            continue;
        }
        // Now and then a value of many pages, and rarely one that needs a chain of records.
        let len = match random.below(100) {
            0 => 600_000,
            1..=20 => 9_000,
            _ => random.below(200) as usize,
        };
        let value = vec![(step % 251) as u8; len];
        db.kv_put(&key, &value)?;
        keys.insert(key, value);
    }
    Ok(())
}

fn write_alarm(
    db: &ObjectDb,
    random: &mut SplitMix64,
    keys: &mut Keys,
) -> abide_storage::Result<()> {
    let alarm = AlarmRow {
        attempts: random.below(3) as u32,
        failed: random.below(4) == 0,
        ..AlarmRow::at(random.below(1_000).cast_signed())
    };
    let alarm = (random.below(3) > 0).then_some(alarm);
    db.set_alarm(alarm.as_ref())?;
    note_alarm(keys, alarm.as_ref());
    Ok(())
}

fn note_alarm(keys: &mut Keys, alarm: Option<&AlarmRow>) {
    match alarm {
        Some(alarm) => drop(keys.insert(ALARM.to_owned(), format!("{alarm:?}").into_bytes())),
        None => drop(keys.remove(ALARM)),
    }
}

/// Recovers and checks every object against its history. Returns what was found.
fn check(disk: &SimDisk, model: &Model, context: &str) -> BTreeMap<u8, Keys> {
    let store = open_store(disk, model.cores).unwrap_or_else(|error| panic!("{context}: {error}"));
    let namespace = store.namespace("tests").expect("a namespace");
    let mut found = BTreeMap::new();
    for (&id, history) in &model.objects {
        let key = abide_storage::ObjectKey {
            namespace,
            id: [id; 32],
        };
        let db = store
            .open_object(key)
            .unwrap_or_else(|error| panic!("{context}: object {id}: {error}"));
        let mut keys: Keys = db
            .kv_list(&ListOptions::default())
            .expect("the keys")
            .into_iter()
            .collect();
        let alarm = db.alarm().expect("the alarm");
        assert_eq!(
            store.alarms().get(key),
            alarm.as_ref().map(AlarmRow::entry),
            "s14, {context}: object {id}"
        );
        note_alarm(&mut keys, alarm.as_ref());
        let integrity = db
            .exec("PRAGMA integrity_check", ())
            .expect("a check")
            .one::<String>()
            .expect("a row");
        assert_eq!(integrity, "ok", "{context}: object {id}");
        let before = (history.commits.len() - history.durable) as u64;
        let states = history.commits.iter().map(|(_, state)| state);
        let first = history.commits.first().map(|_| Keys::new());
        let matches = match history.durable {
            // Nothing was acknowledged: the state before the first commit will do too.
            0 => {
                states.chain(first.as_ref()).any(|state| *state == keys)
                    || history.commits.is_empty()
            }
            durable => states.skip(durable - 1).any(|state| *state == keys),
        };
        assert!(
            matches,
            "{context}: object {id} has a state that is neither the last acknowledged one nor a later one ({before} commits were unacknowledged)"
        );
        found.insert(id, keys);
    }
    found
}

fn workload(seed: u64, cores: usize) -> u64 {
    let disk = SimDisk::new();
    let mut whole = Model::new(cores);
    run(&disk, seed, &mut whole);
    let changes = disk.changes();
    check(
        &disk.after_kill(),
        &whole,
        &format!("seed {seed}, no crash"),
    );
    for stop in 0..changes {
        let disk = SimDisk::new();
        disk.stop_at(stop);
        let mut model = Model::new(cores);
        run(&disk, seed, &mut model);
        let context = format!("seed {seed}, power cut at change {stop}");
        let crashed = disk.crash(seed ^ stop);
        if stop % 4 != 0 {
            check(&crashed, &model, &context);
            continue;
        }
        // Recovery itself may be cut short, wherever: what was acknowledged is there the next time.
        crashed.stop_at(stop / 4 % 23);
        drop(open_store(&crashed, cores));
        check(
            &crashed.crash(stop),
            &model,
            &format!("{context}, and again at change {}", stop / 4 % 23),
        );
    }
    changes
}

#[test]
fn s1_s2_s14_acknowledged_commits_survive_others_are_whole_or_absent() {
    let mut crashes = 0;
    for seed in 0..seeds(2) {
        crashes += workload(seed, 1);
    }
    assert!(crashes > 100, "{crashes}");
}

#[test]
fn s1_s2_s14_hold_when_several_threads_take_a_checkpoint() {
    for seed in 0..seeds(1) {
        workload(seed + 100, LARGE_MACHINE);
    }
}

#[test]
fn what_was_recovered_and_seen_survives_the_next_crash() {
    for seed in 0..seeds(2) * 6 {
        let disk = SimDisk::new();
        let cores = if seed % 3 == 0 { LARGE_MACHINE } else { 1 };
        let mut model = Model::new(cores);
        disk.stop_at(40 + seed * 7 % 120);
        run(&disk, seed, &mut model);
        let mut disk = disk.crash(seed);
        for round in 0..4 {
            let context = format!("seed {seed}, round {round}");
            let found = check(&disk, &model, &context);
            model.restart(&found);
            for history in model.objects.values_mut() {
                // What was seen counts as acknowledged.
                history.commits.push((Lsn::ZERO, history.now.clone()));
                history.durable = 1;
            }
            disk = disk.after_kill();
            disk.stop_at(20 + (seed * 31 + round * 17) % 150);
            run(&disk, seed * 10 + round, &mut model);
            disk = disk.crash(seed * 100 + round);
        }
    }
}
