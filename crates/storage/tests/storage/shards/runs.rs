//! Runs that stores share: a claim finds in them what no log has.

use super::world::{Node, SHARDS, SharedRuns, id};
use crate::common::DIR;
use abide_storage::{
    AlarmRow, Disk, DiskFile, ErrorKind, Inherited, Lsn, NODE_FILE, ObjectKey, OpenMode,
    RemoteRuns, SharedRun, SimDisk, SplitMix64, Store, StoreOptions,
};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const CLASS: &str = "Archived";
const SHARD: u16 = SHARDS[0];

fn key(node: &Node, object: u8) -> ObjectKey {
    let namespace = node.store().namespace(CLASS).unwrap();
    let id = id(SHARD, object);
    ObjectKey { namespace, id }
}

fn put(node: &mut Node, object: u8, value: &[u8]) {
    let db = node.open(CLASS, id(SHARD, object)).unwrap();
    db.kv_put("k", value).unwrap();
    db.commit().unwrap();
    drop(db);
    node.ship();
}

fn get(node: &Node, object: u8) -> Option<Vec<u8>> {
    let db = node.open(CLASS, id(SHARD, object)).unwrap();
    db.kv_get("k").unwrap()
}

/// The run of a node's own records of the shard, up to its checkpoint. Returns that position, too.
fn archive(node: &Node, runs: &SharedRuns, generation: u32, since: Lsn) -> (SharedRun, Lsn) {
    let until = node.store().checkpointed();
    let own = node.inherited(generation, since, until);
    let run = node.write_run(runs, &[(SHARD, own)]).unwrap();
    node.store().list_runs(std::slice::from_ref(&run)).unwrap();
    (run, until)
}

/// Three objects in a run: the first has an alarm, the second changes afterwards, and the third is deleted afterwards.
fn left_behind(runs: &SharedRuns) -> (SharedRun, Vec<Inherited>) {
    let mut node = Node::start_with_runs(runs);
    let since = node.claim(SHARD, 1, Vec::new()).unwrap();
    for object in 1..=3 {
        put(&mut node, object, &[object; 9_000]);
    }
    for object in 1..=2 {
        let db = node.open(CLASS, id(SHARD, object)).unwrap();
        let due = 1_000 + i64::from(object);
        db.set_alarm(Some(&AlarmRow::at(due))).unwrap();
        db.commit().unwrap();
    }
    node.ship();
    node.store().checkpoint().unwrap();
    let (run, until) = archive(&node, runs, 1, since);
    put(&mut node, 2, b"changed");
    let db = node.open(CLASS, id(SHARD, 3)).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    node.ship();
    let end = node.shipped;
    (run, vec![node.inherited(1, until, end)])
}

#[test]
fn an_owner_finds_objects_in_runs_and_what_follows_in_logs() {
    let runs = SharedRuns::default();
    let (run, parts) = left_behind(&runs);
    let mut heir = Node::start_with_runs(&runs);
    heir.store().list_runs(std::slice::from_ref(&run)).unwrap();
    let since = heir.claim(SHARD, 2, parts.clone()).unwrap();
    let store = heir.store();
    let due = |object| {
        store
            .alarms()
            .get(key(&heir, object))
            .map(|entry| entry.due)
    };
    assert_eq!([1, 2, 3].map(due), [Some(1_001), Some(1_002), None]);
    let exists = |object| store.has_object(key(&heir, object)).unwrap();
    assert_eq!([1, 2, 3, 4].map(exists), [true, true, false, false]);
    let namespace = key(&heir, 1).namespace;
    let all = store.objects_after(namespace, None, 9).unwrap();
    assert_eq!(all, [key(&heir, 1), key(&heir, 2)]);
    // The changes of the second are written to its file, although it was not opened.
    store.checkpoint().unwrap();
    assert_eq!(get(&heir, 1).unwrap(), [1; 9_000]);
    assert_eq!(get(&heir, 2).unwrap(), b"changed");
    assert_eq!(get(&heir, 3), None);
    put(&mut heir, 3, b"new");

    // Its run has what it has inherited, and then its own records.
    heir.store().checkpoint().unwrap();
    let until = heir.store().checkpointed();
    let mut tenures: Vec<_> = parts.into_iter().map(|part| (SHARD, part)).collect();
    tenures.push((SHARD, heir.inherited(2, since, until)));
    let second = heir.write_run(&runs, &tenures).unwrap();
    let third = Node::start_with_runs(&runs);
    third.store().list_runs(&[run, second]).unwrap();
    third.claim(SHARD, 3, Vec::new()).unwrap();
    assert_eq!(get(&third, 1).unwrap(), [1; 9_000]);
    assert_eq!(get(&third, 2).unwrap(), b"changed");
    assert_eq!(get(&third, 3).unwrap(), b"new");
}

/// A store of runs that can be out of reach.
struct Reached(SharedRuns, Arc<AtomicBool>);

impl RemoteRuns for Reached {
    fn open(&self, _: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        if !self.1.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.disk.open(Path::new(place), OpenMode::Existing)
    }
}

#[test]
fn a_shard_is_not_claimed_while_a_run_is_out_of_reach() {
    let runs = SharedRuns::default();
    let (run, parts) = left_behind(&runs);
    let is_reached = Arc::new(AtomicBool::new(false));
    let mut heir = Node::start_with_store(Arc::new(Reached(runs, is_reached.clone())));
    heir.store().list_runs(&[run]).unwrap();
    let error = heir.claim(SHARD, 2, parts.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    is_reached.store(true, Ordering::Relaxed);
    heir.claim(SHARD, 2, parts).unwrap();

    // The file of an object is written when it is opened, or later. Others are written meanwhile.
    let open = heir.open(CLASS, id(SHARD, 4)).unwrap();
    is_reached.store(false, Ordering::Relaxed);
    let error = heir.open(CLASS, id(SHARD, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    open.kv_put("k", b"open").unwrap();
    open.commit().unwrap();
    heir.ship();
    let before = heir.store().checkpointed();
    heir.store().checkpoint().unwrap();
    assert!(heir.store().checkpointed() > before);
    is_reached.store(true, Ordering::Relaxed);
    heir.store().checkpoint().unwrap();
    assert_eq!(get(&heir, 1).unwrap(), [1; 9_000]);
    assert_eq!(get(&heir, 2).unwrap(), b"changed");
}

#[test]
fn no_file_of_a_shard_that_was_given_up_stays() {
    let runs = SharedRuns::default();
    let (run, parts) = left_behind(&runs);
    let [mut one, mut two] = [(); 2].map(|()| Node::start_with_runs(&runs));
    for node in [&one, &two] {
        node.store().list_runs(std::slice::from_ref(&run)).unwrap();
    }
    // Neither before it owns the shard, nor after.
    let early = one.open(CLASS, id(SHARD, 1)).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Moved);
    one.claim(SHARD, 2, parts.clone()).unwrap();
    assert_eq!(get(&one, 1).unwrap(), [1; 9_000]);
    let until = one.give_up(SHARD);
    let late = one.open(CLASS, id(SHARD, 1)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Moved);
    let own = one.inherited(2, Lsn::ZERO, until);
    let parts: Vec<_> = parts.into_iter().chain([own]).collect();
    changes_and_comes_back(&runs, &mut two, &one, parts);
}

/// Another node changes an object, and everything that logs have is in a run when the shard comes back.
fn changes_and_comes_back(runs: &SharedRuns, two: &mut Node, one: &Node, parts: Vec<Inherited>) {
    let since = two.claim(SHARD, 3, parts.clone()).unwrap();
    put(two, 1, b"changed by two");
    two.store().checkpoint().unwrap();
    let until = two.give_up(SHARD);
    let own = two.inherited(3, since, until);
    let tenures: Vec<_> = parts
        .into_iter()
        .chain([own])
        .map(|of| (SHARD, of))
        .collect();
    let run = two.write_run(runs, &tenures).unwrap();
    one.store().list_runs(&[run]).unwrap();
    one.claim(SHARD, 4, Vec::new()).unwrap();
    assert_eq!(get(one, 1).unwrap(), b"changed by two");
}

/// A store of runs that makes one reader wait.
#[derive(Default)]
struct Waiting {
    runs: SharedRuns,
    /// Whether the next reader is to wait, whether one does, and whether it may read.
    state: Mutex<[bool; 3]>,
    changed: Condvar,
}

impl Waiting {
    fn set(&self, which: usize) {
        self.state.lock().unwrap()[which] = true;
        self.changed.notify_all();
    }

    fn wait(&self, which: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state[which]));
    }
}

impl RemoteRuns for Waiting {
    fn open(&self, _: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        let is_to_wait = std::mem::take(&mut self.state.lock().unwrap()[0]);
        if is_to_wait {
            self.set(1);
            self.wait(2);
        }
        self.runs.disk.open(Path::new(place), OpenMode::Existing)
    }
}

#[test]
fn a_file_that_is_being_written_does_not_outlive_the_tenure() {
    let waiting = Arc::new(Waiting::default());
    let runs = &waiting.runs;
    let (run, parts) = left_behind(runs);
    let mut one = Node::start_with_store(waiting.clone());
    let mut two = Node::start_with_runs(runs);
    for node in [&one, &two] {
        node.store().list_runs(std::slice::from_ref(&run)).unwrap();
    }
    one.claim(SHARD, 2, parts.clone()).unwrap();
    let (store, key) = (one.store().clone(), key(&one, 1));
    waiting.set(0);
    let hydration = thread::spawn(move || store.hydrate(key));
    waiting.wait(1);
    one.store().close_shard(shard()).unwrap();
    let store = one.store().clone();
    let (forgotten, is_forgotten) = mpsc::channel();
    let forgetting = thread::spawn(move || {
        store.forget_shard(shard()).unwrap();
        let _ = forgotten.send(());
    });
    // It should wait for the file.
    let _ = is_forgotten.recv_timeout(Duration::from_millis(300));
    waiting.set(2);
    hydration.join().unwrap().unwrap();
    forgetting.join().unwrap();
    one.ship();

    changes_and_comes_back(runs, &mut two, &one, parts);
}

#[test]
fn a_run_that_would_leave_a_gap_is_not_written() {
    let runs = SharedRuns::default();
    let (_, parts) = left_behind(&runs);
    let heir = Node::start_with_runs(&runs);
    // The run with the objects is not listed.
    let tenures: Vec<_> = parts.into_iter().map(|part| (shard(), part)).collect();
    let error = heir.store().write_run(99, &tenures).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    let file = Path::new(DIR).join(format!("archive/{:016x}.run", 99));
    assert!(heir.disk.open(&file, OpenMode::Existing).is_err());
    assert_eq!(heir.store().write_run(99, &[]).unwrap(), None);
    assert_eq!(
        heir.store().write_run(u64::MAX, &[]).unwrap_err().kind(),
        ErrorKind::Input
    );

    let alone = Node::start();
    let error = alone.store().write_run(1, &tenures).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    let unknown = SharedRun {
        about: "{}".to_owned(),
        place: "nowhere".to_owned(),
        first: 1,
        last: 1,
    };
    let error = heir.store().list_runs(&[unknown]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn a_run_of_tenures_that_do_not_follow_each_other_is_not_written() {
    let runs = SharedRuns::default();
    let mut nodes = [(); 3].map(|()| Node::start_with_runs(&runs));
    let mut parts = Vec::new();
    for (node, generation) in nodes.iter_mut().zip(1..) {
        let since = node.claim(SHARD, generation, parts.clone()).unwrap();
        put(node, 1, &[generation as u8; 100]);
        let until = node.give_up(SHARD);
        parts.push(node.inherited(generation, since, until));
    }
    let [_, _, last] = nodes;
    let write = |which: &[usize]| {
        let tenures: Vec<_> = which
            .iter()
            .map(|of| (shard(), parts[*of].clone()))
            .collect();
        last.store().write_run(7, &tenures)
    };
    for (which, kind) in [
        (&[0, 2][..], ErrorKind::Damaged),
        (&[1, 2], ErrorKind::Damaged),
        (&[1, 0], ErrorKind::Input),
        (&[0, 0], ErrorKind::Input),
    ] {
        assert_eq!(write(which).unwrap_err().kind(), kind, "{which:?}");
    }
    assert!(write(&[0, 1, 2]).unwrap().is_some());
}

#[test]
fn classes_are_learned_from_runs_and_a_run_is_listed_once() {
    let runs = SharedRuns::default();
    let (run, parts) = left_behind(&runs);
    let heir = Node::start_with_runs(&runs);
    let listed = [run.clone(), run];
    heir.store().list_runs(&listed).unwrap();
    heir.store().list_runs(&listed).unwrap();
    let classes: Vec<_> = heir.store().namespaces();
    assert!(classes.iter().any(|(_, name)| name == CLASS), "{classes:?}");
    heir.claim(SHARD, 2, parts).unwrap();
    assert_eq!(get(&heir, 1).unwrap(), [1; 9_000]);
}

#[test]
fn the_directory_of_a_node_of_a_cluster_is_no_data_directory() {
    let disk = SimDisk::new();
    let dir = Path::new(DIR);
    disk.create_dir_all(dir).unwrap();
    disk.open(&dir.join(NODE_FILE), OpenMode::Create).unwrap();
    let opened = Store::open(Arc::new(disk.clone()), dir, StoreOptions::small());
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(disk.list(dir).unwrap(), [NODE_FILE]);
}

#[test]
fn a_directory_that_was_used_is_refused_as_such() {
    let runs = SharedRuns::default();
    let mut node = Node::start_with_runs(&runs);
    node.claim(SHARD, 1, Vec::new()).unwrap();
    put(&mut node, 1, b"value");
    node.store().checkpoint().unwrap();
    node.kill();
    let error = node.open_again(&runs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("has been used"), "{error}");
}

fn shard() -> abide_storage::Shard {
    super::world::shard(SHARD)
}

fn random_bytes(seed: u8) -> Vec<u8> {
    let mut random = SplitMix64::new(seed.into());
    (0..300_000).map(|_| random.draw() as u8).collect()
}

/// A node makes this many runs of what it has logged, each with a change of an object and of its alarm.
fn make_runs(node: &mut Node, runs: &SharedRuns, count: u8) -> Vec<SharedRun> {
    let mut since = node.claim(SHARD, 1, Vec::new()).unwrap();
    let mut made = Vec::new();
    for round in 1..=count {
        put(node, 1, &random_bytes(round));
        put(node, round + 1, &[round; 100]);
        let db = node.open(CLASS, id(SHARD, 1)).unwrap();
        db.set_alarm(Some(&AlarmRow::at(i64::from(round)))).unwrap();
        db.commit().unwrap();
        drop(db);
        node.ship();
        node.store().checkpoint().unwrap();
        let (run, until) = archive(node, runs, 1, since);
        since = until;
        made.push(run);
    }
    made
}

#[test]
fn merged_runs_take_the_places_of_those_that_they_replace() {
    let runs = SharedRuns::default();
    let mut node = Node::start_with_runs(&runs);
    let made = make_runs(&mut node, &runs, 9);
    assert!(node.store().has_runs_to_merge());
    let merged = node.merge_runs(&runs).unwrap();
    assert_eq!((merged.first, merged.last), (made[0].first, made[7].last));
    let places = [&made[..], std::slice::from_ref(&merged)].concat();
    let orders: [&[usize]; 4] = [
        &[9, 8],
        &[0, 1, 2, 9, 8],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        &[9, 0, 8, 9],
    ];
    for order in orders {
        let heir = Node::start_with_runs(&runs);
        for at in order {
            heir.store()
                .list_runs(std::slice::from_ref(&places[*at]))
                .unwrap();
        }
        heir.claim(SHARD, 2, Vec::new()).unwrap();
        assert!(!heir.store().has_runs_to_merge());
        let due = heir.store().alarms().get(key(&heir, 1));
        assert_eq!(due.map(|entry| entry.due), Some(9), "{order:?}");
        for object in 2..=10 {
            assert_eq!(get(&heir, object).unwrap(), [object - 1; 100], "{order:?}");
        }
        assert_eq!(get(&heir, 1).unwrap(), random_bytes(9), "{order:?}");
    }
    // What was replaced is not read any more.
    for run in &made[..8] {
        runs.disk.remove(Path::new(&run.place)).unwrap();
    }
    node.store().list_runs(&[merged]).unwrap();
    assert!(!node.store().has_runs_to_merge());
    assert_eq!(node.merge_runs(&runs), None);
}

#[test]
fn an_object_with_a_long_history_is_read_from_its_last_snapshot() {
    let runs = SharedRuns::default();
    let mut node = Node::start_with_runs(&runs);
    let made = make_runs(&mut node, &runs, 6);
    let heir = Node::start_with_runs(&runs);
    heir.store().list_runs(&made).unwrap();
    heir.claim(SHARD, 2, Vec::new()).unwrap();
    // Each run has changed about all pages of the object. What the first runs have of it is not read.
    let damage = |run: &SharedRun| damage(&runs, run);
    made[..4].iter().for_each(damage);
    assert_eq!(get(&heir, 1).unwrap(), random_bytes(6));
    let other = Node::start_with_runs(&runs);
    other.store().list_runs(&made).unwrap();
    other.claim(SHARD, 2, Vec::new()).unwrap();
    made[4..].iter().for_each(damage);
    let error = other.open(CLASS, id(SHARD, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

/// Damages what a run has of its first object.
fn damage(runs: &SharedRuns, run: &SharedRun) {
    let path = Path::new(&run.place);
    let file = runs.disk.open(path, OpenMode::Existing).unwrap();
    file.write_at(&[0; 4_096], 4_096).unwrap();
}

#[test]
fn a_run_is_written_although_older_ones_are_too_damaged_for_a_snapshot() {
    let runs = SharedRuns::default();
    let mut node = Node::start_with_runs(&runs);
    let mut since = node.claim(SHARD, 1, Vec::new()).unwrap();
    for round in 1..4 {
        put(&mut node, 1, &random_bytes(round));
        node.store().checkpoint().unwrap();
        let (run, until) = archive(&node, &runs, 1, since);
        since = until;
        damage(&runs, &run);
    }
}

#[test]
fn runs_are_merged_around_those_that_cannot_be_read() {
    let runs = SharedRuns::default();
    let mut node = Node::start_with_runs(&runs);
    let made = make_runs(&mut node, &runs, 17);
    damage(&runs, &made[3]);
    let error = node.store().merge_runs(100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    let file = Path::new(DIR).join(format!("archive/{:016x}.run", 100));
    assert!(node.disk.open(&file, OpenMode::Existing).is_err());
    let merged = node.merge_runs(&runs).unwrap();
    assert_eq!((merged.first, merged.last), (made[8].first, made[15].last));
    node.store().list_runs(&[merged]).unwrap();
    assert!(!node.store().has_runs_to_merge());
    assert_eq!(get(&node, 1).unwrap(), random_bytes(17));
}

#[test]
fn a_restore_is_in_the_next_run_and_can_be_undone() {
    let runs = SharedRuns::default();
    let mut node = Node::start_with_runs(&runs);
    make_runs(&mut node, &runs, 3);
    let since = node.store().checkpointed();
    let earlier = node.store().bookmark(key(&node, 1)).unwrap();
    put(&mut node, 1, b"later");
    let undo = node.store().restore(key(&node, 1), &earlier).unwrap();
    node.ship();
    assert_eq!(get(&node, 1).unwrap(), random_bytes(3));
    node.store().checkpoint().unwrap();
    archive(&node, &runs, 1, since);
    node.store().restore(key(&node, 1), &undo).unwrap();
    node.ship();
    assert_eq!(get(&node, 1).unwrap(), b"later");
}
