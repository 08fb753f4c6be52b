//! The work that both sides do, written once: the schema, the statements, the sequence of random numbers.

use std::time::{Duration, Instant};

/// Rows that each object has before the first measured commit; UPDATEs hit these.
pub(crate) const SEED_ROWS: u64 = 20;

/// A table with an index, as of a small application.
pub(crate) const SCHEMA: &str =
    "CREATE TABLE items (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, v TEXT NOT NULL);
    CREATE INDEX items_k ON items (k);";
pub(crate) const INSERT: &str = "INSERT INTO items (k, v) VALUES (?1, ?2)";
pub(crate) const UPDATE: &str = "UPDATE items SET k = ?1, v = ?2 WHERE id = ?3";
pub(crate) const SELECT: &str = "SELECT v FROM items WHERE id = ?1";

/// What one commit does. Half of them update, half insert.
pub(crate) enum Commit {
    Insert { k: i64, v: String },
    Update { k: i64, v: String, id: i64 },
}

/// A fixed sequence of random numbers (`SplitMix64`), so that both sides do the same work in each run.
#[derive(Clone, Debug)]
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn commit(&mut self) -> Commit {
        let random = self.next();
        let k = i64::from(random as u32);
        let v = format!("value {k:010}");
        if random >> 63 == 0 {
            Commit::Insert { k, v }
        } else {
            Commit::Update {
                k,
                v,
                id: ((random >> 32) % SEED_ROWS).cast_signed() + 1,
            }
        }
    }
}

/// Computes for this many rounds.
pub(crate) fn compute(rounds: u64) {
    let mut sequence = Sequence::new(rounds);
    for _ in 0..rounds {
        std::hint::black_box(sequence.next());
    }
}

/// How many rounds take so long on one's own core: the most of several trials.
pub(crate) fn rounds_in(time: Duration) -> u64 {
    const TRIALS: usize = 9;
    const ROUNDS: u64 = 1_000_000;
    let trial = || {
        let begun = Instant::now();
        compute(ROUNDS);
        begun.elapsed()
    };
    let shortest = (0..TRIALS).map(|_| trial()).min().unwrap_or_default();
    let each = shortest.as_nanos().max(1);
    u64::try_from(time.as_nanos() * u128::from(ROUNDS) / each).unwrap_or(u64::MAX)
}

/// The objects that one of several threads owns.
pub(crate) fn share_of(objects: usize, threads: usize, thread: usize) -> Vec<usize> {
    (thread..objects).step_by(threads.max(1)).collect()
}

/// The two tables of the N+1 bench.
pub(crate) const FAMILY_SCHEMA: &str =
    "CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE children (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL);
    CREATE INDEX children_parent ON children (parent);";
pub(crate) const INSERT_PARENT: &str = "INSERT INTO parents (id, name) VALUES (?1, ?2)";
pub(crate) const INSERT_CHILD: &str = "INSERT INTO children (parent, name) VALUES (?1, ?2)";
pub(crate) const PARENTS: &str = "SELECT id, name FROM parents ORDER BY id";
pub(crate) const CHILDREN: &str = "SELECT name FROM children WHERE parent = ?1 ORDER BY id";
pub(crate) const JOIN: &str =
    "SELECT p.name, c.name FROM parents p JOIN children c ON c.parent = p.id ORDER BY p.id, c.id";
