//! The archive at any crash, and beside a model: what was acknowledged can be restored to exactly what it was.
//!
//! A workload is a script made from a seed: it writes to a few objects, restores them, and takes checkpoints, which archive;
//! the clock moves, so that runs are merged and folded. It is run once to count the changes of the disk, then once for
//! every third of them with the power cut there. `ABIDE_ARCHIVE_SEEDS` sets the number of workloads; it is for each change then.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use abide_storage::{
    ArchiveOptions, Bookmark, ErrorKind, ListOptions, Lsn, ObjectDb, ObjectKey, SimDisk,
    SplitMix64, Store, StoreOptions, Value, limits::ARCHIVE_STEP_BYTES,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const OBJECTS: u64 = 3;
const STEPS: u64 = 90;
const RETENTION: Duration = Duration::from_secs(20);

type Keys = BTreeMap<String, Vec<u8>>;

/// A commit that the workload has seen: what could be restored.
struct Commit {
    id: u8,
    bookmark: Bookmark,
    lsn: Lsn,
    millis: u64,
    keys: Keys,
}

#[derive(Default)]
struct Model {
    now: BTreeMap<u8, Keys>,
    commits: Vec<Commit>,
    durable: Lsn,
    clock: Arc<AtomicU64>,
    /// Restores and forks write files.
    writes_files: bool,
}

fn open_store(disk: &SimDisk, model: &Model) -> abide_storage::Result<Store> {
    let clock = model.clock.clone();
    let large = if model.writes_files { 0 } else { 64 << 20 };
    let options = StoreOptions::small()
        .manual(true)
        .large_restore_bytes(large)
        .checkpoint_bytes(100 << 10)
        .archive(ArchiveOptions::default().retention(RETENTION))
        .unix_millis(Arc::new(move || clock.load(Ordering::SeqCst)));
    Store::open(Arc::new(disk.clone()), Path::new(common::DIR), options)
}

fn key(store: &Store, id: u8) -> abide_storage::Result<ObjectKey> {
    let namespace = store.namespace("tests")?;
    Ok(ObjectKey {
        namespace,
        id: [id; 32],
    })
}

/// Runs a workload until it ends or the disk stops.
fn run(disk: &SimDisk, seed: u64, model: &mut Model) {
    let Ok(store) = open_store(disk, model) else {
        return;
    };
    let mut random = SplitMix64::new(seed);
    for step in 0..STEPS {
        // Mostly a little, so that runs are young enough to be merged, and now and then a lot.
        let passed = if random.below(20) == 0 { 9_000 } else { 50 };
        model.clock.fetch_add(passed, Ordering::SeqCst);
        let id = random.below(OBJECTS) as u8;
        let done = match random.below(10) {
            0..=3 => store.checkpoint(),
            4 => restore(&store, id, &mut random, model),
            _ => write(&store, id, &mut random, step, model),
        };
        if random.below(2) == 0 {
            store.write_group();
        }
        model.durable = model.durable.max(store.durable());
        if done.is_err() || store.failed() || store.run_maintenance().is_err() {
            break;
        }
    }
    model.durable = model.durable.max(store.durable());
}

fn write(
    store: &Store,
    id: u8,
    random: &mut SplitMix64,
    step: u64,
    model: &mut Model,
) -> abide_storage::Result<()> {
    let db = store.open_object(key(store, id)?)?;
    let mut keys = model.now.get(&id).cloned().unwrap_or_default();
    for _ in 0..=random.below(3) {
        let key = format!("key {:02}", random.below(12));
        let len = match random.below(30) {
            0 => 300_000,
            1..=5 => 9_000,
            _ => random.below(200) as usize,
        };
        let value = vec![(step % 251) as u8; len];
        db.kv_put(&key, &value)?;
        keys.insert(key, value);
    }
    if let Some(lsn) = db.commit()? {
        model.note(id, db.bookmark(), lsn, keys);
    }
    Ok(())
}

/// Brings an object back to one of its recent commits.
fn restore(
    store: &Store,
    id: u8,
    random: &mut SplitMix64,
    model: &mut Model,
) -> abide_storage::Result<()> {
    let recent: Vec<&Commit> = model.recent().filter(|commit| commit.id == id).collect();
    let Some(chosen) = recent.get(random.below(recent.len().max(1) as u64) as usize) else {
        return Ok(());
    };
    let (bookmark, keys) = (chosen.bookmark, chosen.keys.clone());
    let key = key(store, id)?;
    store.restore(key, &bookmark)?;
    let db = store.open_object(key)?;
    model.note(id, db.bookmark(), db.newest(), keys);
    Ok(())
}

impl Model {
    fn note(&mut self, id: u8, bookmark: Bookmark, lsn: Lsn, keys: Keys) {
        self.now.insert(id, keys.clone());
        self.commits.push(Commit {
            id,
            bookmark,
            lsn,
            millis: self.clock.load(Ordering::SeqCst),
            keys,
        });
    }

    fn horizon(&self) -> u64 {
        let now = self.clock.load(Ordering::SeqCst);
        now.saturating_sub(RETENTION.as_millis() as u64)
    }

    /// The commits that must be restorable.
    fn recent(&self) -> impl Iterator<Item = &Commit> {
        let horizon = self.horizon();
        self.commits
            .iter()
            .filter(move |commit| commit.millis >= horizon)
    }
}

fn content(db: &ObjectDb) -> Keys {
    let check = db.exec("PRAGMA integrity_check", ()).unwrap();
    assert_eq!(check.one::<String>().unwrap(), "ok");
    let keys = db.kv_list(&ListOptions::default()).unwrap();
    keys.into_iter().collect()
}

/// Recovers, and restores every `nth` commit that was acknowledged, and the newest of them.
fn check(disk: &SimDisk, model: &Model, nth: usize, context: &str) {
    let store = open_store(disk, model).unwrap_or_else(|error| panic!("{context}: {error}"));
    let forks = store.namespace("forks").unwrap();
    let horizon = model.horizon();
    let last = model
        .commits
        .iter()
        .rposition(|commit| commit.lsn <= model.durable);
    for (at, commit) in model.commits.iter().enumerate() {
        if at % nth != 0 && Some(at) != last {
            continue;
        }
        let mut fork = key(&store, commit.id).unwrap();
        let from = fork;
        fork.namespace = forks;
        fork.id[..8].copy_from_slice(&at.to_le_bytes());
        let context = format!("{context}: commit {at} of object {}", commit.id);
        match store.fork(from, &commit.bookmark, fork, None) {
            Ok(()) => {
                let found = content(&store.open_object(fork).unwrap());
                assert!(found == commit.keys, "{context}: another state");
            }
            Err(error) => {
                let must = commit.lsn <= model.durable && commit.millis >= horizon;
                assert!(!must, "{context}: {error}");
                assert_eq!(error.kind(), ErrorKind::Input, "{context}: {error}");
            }
        }
    }
    store.verify_archive().unwrap();
}

#[test]
fn s15_retained_commits_can_be_restored_after_a_crash_at_any_write() {
    let seeds = std::env::var("ABIDE_ARCHIVE_SEEDS").map(|n| n.parse().expect("a number"));
    let (seeds, stride) = seeds.map_or((1, 3), |seeds| (seeds, 1));
    let mut counts = Seen::default();
    for (seed, writes_files) in (0..seeds).flat_map(|seed| [(seed, false), (seed, true)]) {
        every_commit_can_be_restored(SimDisk::new, seed, writes_files, stride, &mut counts);
    }
    assert!(
        counts.crashes > 100 && counts.merges > 0 && counts.folds > 0,
        "{counts:?}"
    );
}

/// What workloads have come to.
#[derive(Debug, Default)]
struct Seen {
    crashes: usize,
    merges: usize,
    folds: usize,
}

/// Runs the workload of a seed whole, and with the power cut at every `stride`th change of the disk.
fn every_commit_can_be_restored(
    new_disk: fn() -> SimDisk,
    seed: u64,
    writes_files: bool,
    stride: usize,
    counts: &mut Seen,
) {
    let disk = new_disk();
    let new_model = || Model {
        writes_files,
        ..Model::default()
    };
    let mut whole = new_model();
    run(&disk, seed, &mut whole);
    check(
        &disk.after_kill(),
        &whole,
        1,
        &format!("seed {seed}, no crash"),
    );
    let manifest = common::read_file(&disk, &Path::new(common::DIR).join("MANIFEST"));
    let manifest = String::from_utf8(manifest).unwrap();
    counts.merges += manifest.matches("\"level\": 1").count();
    counts.folds += manifest.matches("\"base\": true").count();
    for stop in (0..disk.changes()).step_by(stride) {
        let disk = new_disk();
        disk.stop_at(stop);
        let mut model = new_model();
        run(&disk, seed, &mut model);
        let context = format!("seed {seed}, files {writes_files}, power cut at change {stop}");
        check(&disk.crash(seed ^ stop), &model, 9, &context);
        counts.crashes += 1;
    }
}

#[test]
fn s15_history_that_is_archived_in_several_steps_is_whole() {
    let disk = SimDisk::new();
    let options = StoreOptions::small()
        .manual(true)
        .checkpoint_bytes(4 * ARCHIVE_STEP_BYTES as u64);
    let store = Store::open(Arc::new(disk), Path::new(common::DIR), options).unwrap();
    let put = |id, byte: u8, len: usize| {
        let db = common::open(&store, id);
        // No page is like the one before it.
        let value: Vec<u8> = (0..len).map(|at| (at >> 3) as u8 ^ byte).collect();
        db.kv_put("key", &value).unwrap();
        db.commit().unwrap();
        common::flush(&store);
        (db.bookmark(), content(&db))
    };
    // Enough for a snapshot in the first step; the object's file is then ahead of what the step has of it.
    let mut states: Vec<_> = (0..20).map(|byte| put(1, byte, 50_000)).collect();
    let step = 1 << 20;
    for byte in 0..=ARCHIVE_STEP_BYTES / step {
        put(2, byte as u8, step);
    }
    states.push(put(1, 20, 50_000));
    store.checkpoint().unwrap();
    let forks = store.namespace("forks").unwrap();
    for (at, (bookmark, expected)) in states.iter().enumerate() {
        let mut fork = common::key(&store, at as u8);
        fork.namespace = forks;
        store
            .fork(common::key(&store, 1), bookmark, fork, None)
            .unwrap();
        let found = content(&store.open_object(fork).unwrap());
        assert!(found == *expected, "commit {at}: another state");
    }
}

#[test]
fn s17_a_restore_is_whole_or_absent_after_a_crash_at_any_write() {
    let prepare = || {
        let disk = SimDisk::new();
        let store = common::manual(&disk);
        let db = common::open(&store, 1);
        let put = |byte: u8| {
            for at in 0..40 {
                db.kv_put(&format!("key {at}"), &vec![byte; 20_000])
                    .unwrap();
            }
            db.commit().unwrap();
            common::flush(&store);
            (db.bookmark(), content(&db))
        };
        let (past, present) = (put(1), put(2));
        drop(db);
        drop(store);
        (disk.after_kill(), past, present)
    };
    let (mut before, mut after) = (0, 0);
    for stop in 0..200 {
        let (disk, past, present) = prepare();
        let store = common::manual(&disk);
        disk.stop_at(disk.changes() + stop);
        let restored = store.restore(common::key(&store, 1), &past.0);
        drop(store);
        let store = common::manual(&disk.crash(stop));
        let found = content(&common::open(&store, 1));
        if found == past.1 {
            after += 1;
        } else {
            assert!(found == present.1, "change {stop}: a mixture");
            assert!(
                restored.is_err(),
                "change {stop}: an acknowledged restore is lost"
            );
            before += 1;
        }
        if restored.is_ok() {
            break;
        }
    }
    assert!(before > 5 && after > 0, "{before} {after}");
}

/// The checks see what a disk loses that does not sync runs of the archive.
#[test]
#[should_panic(expected = "seed")]
fn runs_that_are_not_synced_are_noticed() {
    let lying = || {
        let disk = SimDisk::new();
        disk.ignore_syncs(|path| path.extension().is_some_and(|kind| kind == "run"));
        disk
    };
    for seed in 0..3 {
        every_commit_can_be_restored(lying, seed, seed.is_multiple_of(2), 3, &mut Seen::default());
    }
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Sql(String),
    Commit,
    Checkpoint,
    /// To this many commits ago.
    Restore(usize),
    Kill,
}

fn statement() -> impl Strategy<Value = String> {
    let id = 0..40_i64;
    prop_oneof![
        6 => (id.clone(), 0..9_000_usize, any::<u8>()).prop_map(|(id, n, b)| {
            format!("INSERT INTO t (id, a, b) VALUES ({id}, {b}, {}) ON CONFLICT (id) DO UPDATE SET a = a + 1, b = excluded.b", blob(n, b))
        }),
        3 => (id.clone(), any::<i32>()).prop_map(|(id, a)| format!("UPDATE t SET a = {a} WHERE id >= {id}")),
        2 => id.clone().prop_map(|id| format!("DELETE FROM t WHERE id > {id}")),
        1 => free_pages(),
        1 => Just("CREATE INDEX IF NOT EXISTS i ON t (a, id)".to_owned()),
        1 => Just("DROP INDEX IF EXISTS i".to_owned()),
    ]
}

/// A blob of bytes that differ from zeros and mostly from each other's.
fn blob(len: usize, byte: u8) -> String {
    let letter = char::from(b'a' + byte % 26);
    format!("CAST(printf('%.*c', {len}, '{letter}') AS BLOB)")
}

/// Adds pages and frees them: in one transaction, SQLite does not write them.
fn free_pages() -> impl Strategy<Value = String> {
    (1..90_000_usize).prop_map(|bytes| {
        format!(
            "INSERT INTO t (id, b) VALUES (100, zeroblob({bytes})); DELETE FROM t WHERE id = 100"
        )
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => statement().prop_map(Step::Sql),
        10 => Just(Step::Commit),
        4 => Just(Step::Checkpoint),
        1 => (0..20_usize).prop_map(Step::Restore),
        1 => Just(Step::Kill),
    ]
}

/// The object grows, becomes as small as it was long ago, grows again, and is brought back.
fn regrow() -> impl Strategy<Value = Vec<Step>> {
    let ago = 0..4_usize;
    (statement(), free_pages(), 4..60_usize, ago).prop_map(|(statement, free, far, ago)| {
        vec![
            Step::Sql(statement),
            Step::Checkpoint,
            Step::Restore(far),
            Step::Sql(free),
            Step::Restore(1 + ago),
        ]
    })
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let part = prop_oneof![20 => step().prop_map(|step| vec![step]), 1 => regrow()];
    proptest::collection::vec(part, 1..120).prop_map(|parts| parts.concat())
}

fn rows(db: &ObjectDb) -> Vec<Vec<Value>> {
    let schema = db
        .exec("SELECT name, sql FROM sqlite_schema ORDER BY name", ())
        .unwrap();
    let rows = db.exec("SELECT * FROM t ORDER BY id", ()).unwrap();
    let by_a = db.exec("SELECT a FROM t ORDER BY a, id", ()).unwrap();
    [schema.raw(), rows.raw(), by_a.raw()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bookmark_of_a_random_history_gives_what_the_object_was_then(
        steps in history()
    ) {
        let mut disk = SimDisk::new();
        let mut store = common::manual(&disk);
        let mut history: Vec<(Bookmark, Vec<Vec<Value>>)> = Vec::new();
        let mut db = None;
        for step in [Step::Sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b BLOB)".to_owned()), Step::Commit]
            .iter()
            .chain(&steps)
        {
            let open = db.get_or_insert_with(|| common::open(&store, 1));
            match step {
                Step::Sql(sql) => drop(open.exec(sql, ()).unwrap()),
                Step::Commit | Step::Checkpoint | Step::Restore(_) | Step::Kill => {
                    if open.commit().unwrap().is_some() {
                        history.push((open.bookmark(), rows(open)));
                    }
                    common::flush(&store);
                }
            }
            match step {
                Step::Sql(_) | Step::Commit => {}
                Step::Checkpoint => store.checkpoint().unwrap(),
                Step::Restore(ago) => {
                    let (bookmark, rows) = history[history.len().saturating_sub(ago + 1)].clone();
                    db = None;
                    store.restore(common::key(&store, 1), &bookmark).unwrap();
                    history.push((common::open(&store, 1).bookmark(), rows));
                }
                Step::Kill => {
                    db = None;
                    disk = disk.after_kill();
                    store = common::manual(&disk);
                }
            }
            store.run_maintenance().unwrap();
        }
        drop(db);
        for (at, (bookmark, expected)) in history.iter().enumerate() {
            let mut fork = common::key(&store, 2);
            fork.id[..8].copy_from_slice(&at.to_le_bytes());
            store.fork(common::key(&store, 1), bookmark, fork, None).unwrap();
            let found = rows(&store.open_object(fork).unwrap());
            prop_assert!(found == *expected, "commit {}", at);
        }
    }
}
