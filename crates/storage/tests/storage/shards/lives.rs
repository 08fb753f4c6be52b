//! Random lives of several stores beside a model: writes, shards that move, processes that are killed. Each owner finds exactly what
//! the earlier ones have shipped.

use super::world::{Node, SHARDS, SharedRuns, id};
use abide_storage::{
    AlarmRow, Disk, ErrorKind, Inherited, Lsn, ObjectDb, ObjectKey, SharedRun, SplitMix64,
};
use std::collections::BTreeMap;
use std::path::Path;

const SEEDS: u64 = 60;
const STEPS: usize = 120;
const NODES: usize = 3;
const CLASSES: [&str; 2] = ["One", "Two"];
const OBJECTS: u8 = 3;

/// What an object holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    values: BTreeMap<String, Vec<u8>>,
    alarm: Option<i64>,
}

/// A commit: the process that made it, and where it ends in its log.
struct Commit {
    process: usize,
    end: Lsn,
    state: State,
}

type Name = (&'static str, [u8; 32]);

/// A tenure of a shard, which ends at `until` in the log of its process. What is before `since` is in runs.
struct Tenure {
    process: usize,
    since: Lsn,
    until: Option<Lsn>,
}

struct World {
    random: SplitMix64,
    /// All processes that have been, the ended ones among them.
    processes: Vec<Node>,
    /// The last tenure of each is open.
    shards: BTreeMap<u16, Vec<Tenure>>,
    commits: BTreeMap<Name, Vec<Commit>>,
    /// The store of runs, if there is one.
    runs: Option<SharedRuns>,
    /// All runs that are listed, with the order in which they were. A process lists those that it lacks before it claims or writes one.
    listed: Vec<(u64, SharedRun)>,
    made: u64,
    merges: u64,
    /// How many each process has been told of.
    known: BTreeMap<usize, u64>,
}

impl World {
    fn new(seed: u64, runs: Option<SharedRuns>) -> Self {
        let mut world = Self {
            random: SplitMix64::new(seed),
            processes: Vec::new(),
            shards: BTreeMap::new(),
            commits: BTreeMap::new(),
            runs,
            listed: Vec::new(),
            made: 0,
            merges: 0,
            known: BTreeMap::new(),
        };
        for _ in 0..NODES {
            world.start();
        }
        for number in SHARDS {
            world.shards.insert(number, Vec::new());
            world.claim(number);
        }
        world
    }

    fn start(&mut self) {
        let runs = self.runs.as_ref();
        let node = runs.map_or_else(Node::start, Node::start_with_runs);
        self.processes.push(node);
    }

    /// Has a process list the runs that it lacks.
    fn list(&mut self, process: usize) {
        if self.runs.is_none() {
            return;
        }
        let known = self.known.entry(process).or_default();
        let new = self.listed.iter().filter(|(order, _)| order > known);
        let new: Vec<_> = new.map(|(_, run)| run.clone()).collect();
        self.processes[process].store().list_runs(&new).unwrap();
        *known = self.made;
    }

    fn add_to_list(&mut self, run: SharedRun) {
        self.made += 1;
        self.listed.push((self.made, run));
        self.listed.sort_by_key(|(_, run)| run.first);
    }

    /// A process merges runs. Those that it replaces are removed once all processes have been told.
    fn merge(&mut self) {
        let process = self.any_alive();
        let Some(runs) = self.runs.clone() else {
            return;
        };
        self.list(process);
        let Some(merged) = self.processes[process].merge_runs(&runs) else {
            return;
        };
        let is_replaced = |run: &SharedRun| merged.first <= run.first && run.last <= merged.last;
        let replaced = self.listed.extract_if(.., |(_, run)| is_replaced(run));
        let replaced: Vec<_> = replaced.map(|(_, run)| run.place).collect();
        assert!(replaced.len() > 1);
        self.add_to_list(merged);
        for process in 0..self.processes.len() {
            if self.processes[process].store.is_some() {
                self.list(process);
            }
        }
        for place in replaced {
            runs.disk.remove(Path::new(&place)).unwrap();
        }
        self.merges += 1;
    }

    /// A process writes a run with everything that its shards have in logs, up to its checkpoint, and lists it. If it is not
    /// listed, it counts for nothing.
    fn archive(&mut self) {
        let process = self.any_alive();
        let Some(runs) = self.runs.clone() else {
            return;
        };
        self.processes[process].ship();
        self.list(process);
        let until = self.processes[process].store().checkpointed();
        let mut tenures: Vec<(u16, Inherited)> = Vec::new();
        for (number, of_shard) in &self.shards {
            if self.owner(*number) != process {
                continue;
            }
            for (generation, tenure) in (1..).zip(of_shard) {
                let until = tenure.until.unwrap_or(until);
                if tenure.since < until {
                    let node = &self.processes[tenure.process];
                    tenures.push((*number, node.inherited(generation, tenure.since, until)));
                }
            }
        }
        let run = self.processes[process].write_run(&runs, &tenures);
        let is_refused = self.below(4) == 0;
        let Some(run) = run.filter(|_| !is_refused) else {
            return;
        };
        self.add_to_list(run);
        for of_shard in self.shards.values_mut() {
            if of_shard.last().unwrap().process == process {
                for tenure in of_shard {
                    tenure.since = tenure.until.unwrap_or(until).max(tenure.since);
                }
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn any_shard(&mut self) -> u16 {
        SHARDS[self.below(SHARDS.len())]
    }

    fn any_alive(&mut self) -> usize {
        let alive: Vec<_> = (0..self.processes.len())
            .filter(|process| self.processes[*process].store.is_some())
            .collect();
        alive[self.below(alive.len())]
    }

    fn owner(&self, number: u16) -> usize {
        self.shards[&number].last().unwrap().process
    }

    /// A process claims a shard that no one owns.
    fn claim(&mut self, number: u16) {
        let process = self.any_alive();
        self.processes[process].ship();
        self.list(process);
        let tenures = &self.shards[&number];
        let parts = (1..).zip(tenures).filter_map(|(generation, tenure)| {
            let (since, until) = (tenure.since, tenure.until.unwrap());
            let node = &self.processes[tenure.process];
            (since < until || self.runs.is_none()).then(|| node.inherited(generation, since, until))
        });
        let parts = parts.collect();
        let generation = tenures.len() as u32 + 1;
        let since = self.processes[process]
            .claim(number, generation, parts)
            .unwrap();
        self.shards.get_mut(&number).unwrap().push(Tenure {
            process,
            since,
            until: None,
        });
        self.check(number);
    }

    fn end_tenure(&mut self, number: u16, until: Lsn) {
        let tenures = self.shards.get_mut(&number).unwrap();
        tenures.last_mut().unwrap().until = Some(until);
    }

    fn move_shard(&mut self) {
        let number = self.any_shard();
        let owner = self.owner(number);
        let until = self.processes[owner].give_up(number);
        self.end_tenure(number, until);
        self.claim(number);
    }

    /// A process ends, and another one starts. Others claim its shards.
    fn kill(&mut self) {
        let process = self.any_alive();
        for _ in 0..self.below(3) {
            self.processes[process].ship_part();
        }
        self.processes[process].kill();
        let shipped = self.processes[process].shipped;
        for commits in self.commits.values_mut() {
            commits.retain(|commit| commit.process != process || commit.end <= shipped);
        }
        self.start();
        for number in SHARDS {
            if self.owner(number) == process {
                self.end_tenure(number, shipped);
                self.claim(number);
            }
        }
    }

    fn write(&mut self) {
        let number = self.any_shard();
        let class = CLASSES[self.below(CLASSES.len())];
        let name = (class, id(number, self.below(usize::from(OBJECTS)) as u8));
        let process = self.owner(number);
        let db = self.processes[process].open(class, name.1).unwrap();
        let mut state = self.present(&name);
        assert_eq!(read(&db), state);
        let deletes = self.below(8) == 0;
        if deletes {
            db.delete_all().unwrap();
            state = State::default();
        } else {
            let key = format!("k{}", self.below(3));
            // The largest is several records.
            let length = [5, 300, 300, 9_000, 9_000, 600_000][self.below(6)];
            let value = vec![self.below(256) as u8; length];
            db.kv_put(&key, &value).unwrap();
            state.values.insert(key, value);
            state.alarm = (self.below(3) > 0).then(|| 1 + self.random.below(1_000).cast_signed());
            let row = state.alarm.map(AlarmRow::at);
            db.set_alarm(row.as_ref()).unwrap();
        }
        if let Some(end) = db.commit().unwrap() {
            self.commits.entry(name).or_default().push(Commit {
                process,
                end,
                state,
            });
        }
        drop(db);
        if deletes {
            // A deletion is more than one transaction: this model does not know what a part of it leaves.
            self.processes[process].ship();
        }
    }

    fn present(&self, name: &Name) -> State {
        let commits = self.commits.get(name);
        let last = commits.and_then(|commits| commits.last());
        last.map(|commit| commit.state.clone()).unwrap_or_default()
    }

    /// The owner of a shard has what the model has, and others have nothing.
    fn check(&self, number: u16) {
        let owner = self.owner(number);
        for (class, object) in CLASSES
            .iter()
            .flat_map(|class| (0..OBJECTS).map(move |object| (class, object)))
        {
            let name = (*class, id(number, object));
            for (process, node) in self.processes.iter().enumerate() {
                let Some(store) = &node.store else { continue };
                let namespace = store.namespace(class).unwrap();
                let key = ObjectKey {
                    namespace,
                    id: name.1,
                };
                let alarm = store.alarms().get(key).map(|entry| entry.due);
                let opened = node.open(class, name.1);
                if process == owner {
                    let state = self.present(&name);
                    assert_eq!(alarm, state.alarm, "{name:?}");
                    assert_eq!(read(&opened.unwrap()), state, "{name:?}");
                } else {
                    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Moved);
                    assert_eq!(alarm, None, "{name:?}");
                }
            }
        }
    }

    fn step(&mut self) {
        let kinds = if self.runs.is_some() { 32 } else { 20 };
        match self.below(kinds) {
            0..10 => self.write(),
            10..14 => {
                let process = self.any_alive();
                self.processes[process].ship();
            }
            14..16 => {
                let process = self.any_alive();
                self.processes[process].store().checkpoint().unwrap();
            }
            16..19 => self.move_shard(),
            19 => self.kill(),
            20..30 => self.archive(),
            _ => self.merge(),
        }
    }
}

fn read(db: &ObjectDb) -> State {
    let values = db.kv_list(&abide_storage::ListOptions::default()).unwrap();
    State {
        values: values.into_iter().collect(),
        alarm: db.alarm().unwrap().map(|row| row.entry().due),
    }
}

fn live(mut world: World) -> World {
    for _ in 0..STEPS {
        world.step();
    }
    for number in SHARDS {
        world.check(number);
    }
    world
}

#[test]
fn s27_each_owner_finds_what_the_ones_before_have_shipped() {
    for seed in 0..SEEDS {
        live(World::new(seed, None));
    }
}

#[test]
fn s27_each_owner_finds_what_is_in_runs_and_after_them_in_logs() {
    let (mut runs, mut merges) = (0, 0);
    for seed in 0..SEEDS {
        let world = live(World::new(seed, Some(SharedRuns::default())));
        runs += world.made;
        merges += world.merges;
    }
    assert!(
        runs > SEEDS && merges > SEEDS / 4,
        "{runs} runs, {merges} merges"
    );
}
