//! Faults of single files under a random workload.
//!
//! A seed makes a workload of a few objects and faults: any operation on the file of one object, or on one directory of
//! the node's own, with any errno, once or for as long as it is not mended. While a fault lasts, the objects whose
//! files it does not meet continue. When it is mended everything acknowledged is there, after a repair where an object was
//! quarantined. `ABIDE_FAULT_SEEDS` sets the number of seeds.

use std::collections::BTreeMap;

use abide_storage::{
    DiskOp, ErrorKind, Fault, FaultyDisk, Lsn, Repair, SimDisk, SplitMix64, Store,
    errno::{EACCES, EIO, EMFILE, ENFILE, ENOMEM},
};

use crate::common::key;
use crate::faults::world::{content, part, store};

const OBJECTS: u8 = 4;
const STEPS: u64 = 120;

type Keys = BTreeMap<String, Vec<u8>>;

fn one_of<T: Copy>(random: &mut SplitMix64, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

/// What an object has been.
#[derive(Clone, Default)]
struct History {
    now: Keys,
    /// What it was after each commit.
    commits: Vec<(Lsn, Keys)>,
}

/// What a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Object(u8),
    Archive,
    Quarantine,
    Alarms,
    Everything,
}

struct World {
    disk: FaultyDisk,
    store: Option<Store>,
    objects: BTreeMap<u8, History>,
    fault: Option<Target>,
    context: String,
    /// How often an object was repaired, and met an error.
    repairs: usize,
    errors: usize,
}

impl World {
    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// Adds a fault. Descriptors are missing for everything, an I/O error is of one place.
    fn break_something(&mut self, random: &mut SplitMix64) {
        let mut ops: Vec<DiskOp> = Vec::new();
        for _ in 0..=random.below(3) {
            ops.push(one_of(random, &DiskOp::OF_FILES));
        }
        let passing = random.below(4) == 0;
        let (target, path, errno) = if passing {
            ops = DiskOp::OPENING.to_vec();
            let errno = one_of(random, &[EMFILE, ENFILE, ENOMEM]);
            (Target::Everything, String::new(), errno)
        } else {
            let errno = one_of(random, &[EIO, EACCES]);
            match random.below(10) {
                0 => (Target::Archive, "/archive/".to_owned(), errno),
                1 => (Target::Quarantine, "/quarantine".to_owned(), errno),
                2 => (Target::Alarms, "/alarms/".to_owned(), errno),
                _ => {
                    let id = random.below(u64::from(OBJECTS)) as u8;
                    (Target::Object(id), part(self.store(), id), errno)
                }
            }
        };
        if random.below(2) == 0 {
            let times = 1 + random.below(3) as u32;
            self.disk
                .inject(&ops, &path, Fault::error(errno).times(times));
        } else {
            self.disk.fail(&ops, &path, errno);
        }
        self.fault = Some(target);
        self.context = format!("{} then {target:?} {ops:?} {errno}", self.context);
    }

    /// An error is only met by what the fault is about.
    fn may_fail(&mut self, id: u8, error: &abide_storage::Error) {
        self.errors += 1;
        let quarantined = self.store().quarantined();
        let is_out = quarantined
            .iter()
            .any(|of| of.key == key(self.store(), id) && error.kind() == ErrorKind::Damaged);
        let expected = match self.fault {
            Some(Target::Object(broken)) => broken == id && error.kind() == ErrorKind::Io,
            Some(Target::Everything) => error.kind() == ErrorKind::Busy,
            _ => false,
        };
        assert!(
            is_out || expected,
            "{}: object {id} met {:?} {error}",
            self.context,
            error.kind()
        );
    }

    fn write(&mut self, id: u8, random: &mut SplitMix64, step: u64) {
        let mut now = self.objects.entry(id).or_default().now.clone();
        let written = (|| {
            let db = self.store().open_object(key(self.store(), id))?;
            for _ in 0..=random.below(4) {
                let name = format!("key {:02}", random.below(20));
                let len = one_of(random, &[10, 200, 9_000, 60_000]);
                let value = vec![(step % 251) as u8; len];
                db.kv_put(&name, &value)?;
                now.insert(name, value);
            }
            if random.below(3) == 0 {
                let at = abide_storage::AlarmRow::at(step.cast_signed());
                db.set_alarm(Some(&at))?;
            }
            db.commit()
        })();
        match written {
            Ok(lsn) => {
                let history = self.objects.entry(id).or_default();
                history.now.clone_from(&now);
                history.commits.extend(lsn.map(|lsn| (lsn, now)));
            }
            Err(error) => self.may_fail(id, &error),
        }
    }

    fn read(&mut self, id: u8) {
        let expected = self.objects.entry(id).or_default().now.clone();
        let found = (|| {
            let db = self.store().open_object(key(self.store(), id))?;
            let mut all = Keys::new();
            for name in expected.keys() {
                all.extend(db.kv_get(name)?.map(|value| (name.clone(), value)));
            }
            abide_storage::Result::Ok(all)
        })();
        match found {
            Ok(found) => assert!(found == expected, "{}: object {id}", self.context),
            Err(error) => self.may_fail(id, &error),
        }
    }

    fn flush(&self) {
        while self.store().write_group() {}
    }

    /// The process ends, or the machine loses power, and starts again without faults.
    fn restart(&mut self, random: &mut SplitMix64) {
        let durable = self.store().durable();
        self.store = None;
        let sim = match random.below(3) {
            0 => self.disk.sim.after_kill(),
            seed => self.disk.sim.crash(seed + random.below(1_000)),
        };
        self.disk = FaultyDisk::new(sim);
        self.fault = None;
        self.store = Some(store(&self.disk));
        self.check(durable);
    }

    /// Repairs what is quarantined, and compares every object with what was acknowledged.
    fn check(&mut self, durable: Lsn) {
        let ids: Vec<u8> = self.objects.keys().copied().collect();
        for id in ids {
            let object = key(self.store(), id);
            if let Err(error) = self.store().open_object(object) {
                assert_eq!(
                    error.kind(),
                    ErrorKind::Damaged,
                    "{}: {error}",
                    self.context
                );
                let repaired = self.store().repair(object, Repair::Accept);
                repaired.unwrap_or_else(|error| panic!("{}: {error}", self.context));
                self.repairs += 1;
            }
            let db = self.store().open_object(object).unwrap();
            let found = content(&db);
            let alarm = db.alarm_entry().unwrap();
            assert_eq!(self.store().alarms().get(object), alarm, "{}", self.context);
            drop(db);
            let history = self.objects.get_mut(&id).expect("an object");
            let acknowledged = history.commits.iter().rposition(|(lsn, _)| *lsn <= durable);
            let states = history.commits.iter().map(|(_, keys)| keys);
            let matches = match acknowledged {
                Some(first) => states.skip(first).any(|keys| *keys == found),
                None => found.is_empty() || states.into_iter().any(|keys| *keys == found),
            };
            assert!(matches, "{}: object {id} has another state", self.context);
            history.now.clone_from(&found);
            // What was seen counts as acknowledged.
            history.commits = vec![(Lsn::ZERO, found)];
        }
    }

    fn mend(&mut self) {
        self.disk.clear();
        self.fault = None;
        self.flush();
        // What could not be written gets its time.
        for _ in 0..3 {
            let _ = self.store().checkpoint();
        }
        let durable = self.store().durable();
        self.check(durable);
        assert_eq!(self.store().quarantined(), [], "{}", self.context);
        let taken = self.store().checkpoint();
        taken.unwrap_or_else(|error| panic!("{}: {error}", self.context));
    }
}

fn run(seed: u64) -> (usize, usize) {
    let mut random = SplitMix64::new(seed);
    let disk = FaultyDisk::new(SimDisk::new());
    let mut world = World {
        store: Some(store(&disk)),
        disk,
        objects: BTreeMap::new(),
        fault: None,
        context: format!("seed {seed}"),
        repairs: 0,
        errors: 0,
    };
    // Made before anything can fail.
    key(world.store(), 0);
    for step in 0..STEPS {
        let id = random.below(u64::from(OBJECTS)) as u8;
        match random.below(24) {
            0 if world.fault.is_none() => world.break_something(&mut random),
            1 if world.fault.is_some() => world.mend(),
            2 => world.restart(&mut random),
            3..=5 => drop(world.store().checkpoint()),
            6..=8 => world.read(id),
            9 => drop(world.store().run_maintenance()),
            _ => world.write(id, &mut random, step),
        }
        if random.below(3) > 0 {
            world.flush();
        }
        assert!(
            !world.store().failed(),
            "{}: the node failed",
            world.context
        );
    }
    world.mend();
    world.restart(&mut random);
    (world.repairs, world.errors)
}

#[test]
fn s18_a_fault_of_one_file_concerns_its_object_alone_and_loses_nothing() {
    let seeds = std::env::var("ABIDE_FAULT_SEEDS").map_or(60, |n| n.parse().expect("a number"));
    let (mut repairs, mut errors) = (0, 0);
    for seed in 0..seeds {
        let (repaired, met) = run(seed);
        repairs += repaired;
        errors += met;
    }
    assert!(repairs > 2 && errors > 100, "{repairs} {errors}");
}
