//! Random lives of a store beside a model: whenever the archive is complete, its runs alone have what the objects have.
//! `ABIDE_SWEEP_SEEDS` sets the number of lives.

use abide_storage::{ArchiveOptions, ErrorKind, SimDisk, SplitMix64, Store, StoreOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{DIR, flush, key, open};
use crate::sweep::copies::{FromRuns, Keys, content, delete, sweep};

const OBJECTS: u64 = 12;
const STEPS: u64 = 120;

struct Life {
    seed: u64,
    random: SplitMix64,
    disk: SimDisk,
    clock: Arc<AtomicU64>,
    store: Store,
    is_on: bool,
    objects: BTreeMap<u8, Keys>,
    /// Runs that the life has damaged.
    damaged: BTreeSet<PathBuf>,
    seen: Seen,
}

/// What lives have come to.
#[derive(Debug, Default)]
struct Seen {
    complete: u64,
    incomplete: u64,
    deleted: u64,
    with_damage: u64,
}

fn open_store(disk: &SimDisk, clock: &Arc<AtomicU64>, is_on: bool) -> Store {
    let clock = clock.clone();
    let archive = ArchiveOptions::default()
        .enabled(is_on)
        .retention(Duration::from_secs(20));
    let options = StoreOptions::small()
        .manual(true)
        .checkpoint_bytes(100 << 10)
        .archive(archive)
        .unix_millis(Arc::new(move || clock.load(Ordering::SeqCst)));
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let is_on = random.below(2) == 0;
        let (disk, clock) = (SimDisk::new(), Arc::new(AtomicU64::new(1_000_000)));
        Self {
            store: open_store(&disk, &clock, is_on),
            seed,
            random,
            disk,
            clock,
            is_on,
            objects: BTreeMap::new(),
            damaged: BTreeSet::new(),
            seen: Seen::default(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn step(&mut self) {
        let passed = if self.below(20) == 0 { 9_000 } else { 100 };
        self.clock.fetch_add(passed, Ordering::SeqCst);
        match self.below(40) {
            0..=15 => self.write(),
            16..=19 => self.delete(),
            20..=25 => self.checkpoint(),
            26..=33 => self.store.run_maintenance().unwrap(),
            34 | 35 => self.reopen(!self.is_on),
            36 => self.reopen(self.is_on),
            37 => self.damage(),
            _ => self.rewrite_one(),
        }
    }

    fn write(&mut self) {
        let id = self.below(OBJECTS) as u8;
        self.write_to(id);
    }

    /// One object is busy, so that the others have gaps before them.
    fn rewrite_one(&mut self) {
        for _ in 0..3 {
            self.write_to(0);
        }
    }

    fn write_to(&mut self, id: u8) {
        let db = open(&self.store, id);
        let name = format!("key {}", self.random.below(4));
        let length = if self.random.below(12) == 0 {
            40_000
        } else {
            self.random.below(3_000) as usize
        };
        let value = vec![self.random.below(256) as u8; length];
        db.kv_put(&name, &value).unwrap();
        db.commit().unwrap();
        flush(&self.store);
        self.objects.entry(id).or_default().insert(name, value);
    }

    fn delete(&mut self) {
        let id = self.below(OBJECTS) as u8;
        if self.objects.remove(&id).is_some() {
            delete(&self.store, id);
            self.seen.deleted += 1;
        }
    }

    fn reopen(&mut self, is_on: bool) {
        let seed = self.below(u64::MAX);
        self.disk = if self.below(2) == 0 {
            self.disk.crash(seed)
        } else {
            self.disk.after_kill()
        };
        self.is_on = is_on;
        self.store = open_store(&self.disk, &self.clock, is_on);
    }

    fn damage(&mut self) {
        let Some(copy) = self.store.history_copy() else {
            return;
        };
        let whole: Vec<_> = copy.runs.iter().collect();
        if whole.is_empty() || self.damaged.len() > 2 {
            return;
        }
        let run = whole[self.random.below(whole.len() as u64) as usize];
        self.disk.flip(&run.path, self.random.below(run.bytes));
        self.damaged.insert(run.path.clone());
    }

    fn checkpoint(&mut self) {
        self.store.checkpoint().unwrap();
        self.check();
    }

    /// All commits are archived. If the archive is complete, its runs have what the objects have.
    fn check(&mut self) {
        let Some(copy) = self.store.history_copy() else {
            assert!(!self.is_on, "seed {}", self.seed);
            return;
        };
        if !copy.is_complete {
            self.seen.incomplete += 1;
            return;
        }
        assert_eq!(copy.missing_objects, 0);
        // Damage that was not noticed yet may be anywhere, and a start that looks at it again may find it whole.
        if copy.runs.iter().any(|run| self.damaged.contains(&run.path)) {
            return;
        }
        self.seen.complete += 1;
        self.seen.with_damage += u64::from(!copy.damaged.is_empty());
        let mut built = FromRuns::new(&self.disk, &copy);
        for id in 0..OBJECTS as u8 {
            let expected = self.objects.get(&id).cloned().unwrap_or_default();
            let context = format!("seed {}, object {id}", self.seed);
            let state = built.state(key(&self.store, id));
            let state = state.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(state == expected, "{context}: another state in the runs");
            let present = content(&open(&self.store, id));
            assert!(present == expected, "{context}: another state");
        }
    }

    /// The archive gets complete.
    fn end(mut self) -> Seen {
        self.store.checkpoint().unwrap();
        self.reopen(true);
        self.store.checkpoint().unwrap();
        sweep(&self.store);
        self.check();
        assert_eq!(self.store.quarantined(), [], "seed {}", self.seed);
        let verified = self.store.verify_archive();
        assert!(
            verified.is_ok() || !self.damaged.is_empty(),
            "seed {}: {verified:?}",
            self.seed
        );
        if let Err(error) = verified {
            assert_eq!(error.kind(), ErrorKind::Damaged);
        }
        self.seen
    }
}

#[test]
fn s22_a_complete_archive_has_the_state_of_every_object() {
    let seeds = std::env::var("ABIDE_SWEEP_SEEDS").map(|n| n.parse().expect("a number"));
    let mut all = Seen::default();
    for seed in 0..seeds.unwrap_or(40) {
        let mut life = Life::new(seed);
        for _ in 0..STEPS {
            life.step();
        }
        let seen = life.end();
        all.complete += seen.complete;
        all.incomplete += seen.incomplete;
        all.deleted += seen.deleted;
        all.with_damage += seen.with_damage;
    }
    let Seen {
        complete,
        incomplete,
        deleted,
        with_damage,
    } = all;
    assert!(
        complete > 100 && incomplete > 10 && deleted > 50 && with_damage > 0,
        "{complete} {incomplete} {deleted} {with_damage}"
    );
}
