//! Steps and results, in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    task::Waker,
};

use super::Trouble;
use crate::workflow::{
    RetryPolicy, StepKind, StepState,
    rows::{Instance, StepRow},
};

/// A step of this run.
pub(super) struct Op {
    pub(super) row: StepRow,
    /// Set when the run has asked for it.
    pub(super) asked: Option<AskedFor>,
    /// True from the time at which an attempt begins until it has ended.
    pub(super) flying: bool,
    /// True when the attempt is on disk and its function may be called.
    pub(super) go: bool,
    pub(super) waker: Option<Waker>,
}

/// What the run says of a step.
pub(super) struct AskedFor {
    /// The name of the event that it waits for.
    pub(super) event: String,
    pub(super) policy: RetryPolicy,
    pub(super) shielded: bool,
}

impl Op {
    pub(super) fn new(row: StepRow) -> Self {
        Self {
            row,
            asked: None,
            flying: false,
            go: false,
            waker: None,
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What comes next in the order of results.
#[derive(Clone, Copy, Debug)]
enum Result {
    Of(usize),
    Cancel,
}

pub(super) struct History {
    pub(super) ops: Vec<Op>,
    by_name: HashMap<String, usize>,
    /// How often each name was asked for.
    pub(super) uses: HashMap<String, u32>,
    results: BTreeMap<i64, Result>,
    /// What was asked for in an earlier life and not yet in this, by the number of results that there were.
    unasked: BTreeMap<i64, BTreeSet<usize>>,
    /// Steps that the run waits for.
    pub(super) open: BTreeSet<usize>,
    /// The number of results that the run has.
    pub(super) delivered: i64,
    /// The number of results that there are.
    pub(super) last: i64,
    pub(super) canceled: bool,
    pub(super) time: i64,
    pub(super) trouble: Option<Trouble>,
}

impl History {
    pub(super) fn new(instance: &Instance, steps: Vec<StepRow>) -> Self {
        let mut history = Self {
            ops: Vec::with_capacity(steps.len()),
            by_name: HashMap::new(),
            uses: HashMap::new(),
            results: BTreeMap::new(),
            unasked: BTreeMap::new(),
            open: BTreeSet::new(),
            delivered: 0,
            last: 0,
            canceled: false,
            time: instance.created_at,
            trouble: None,
        };
        for row in steps {
            let asked = row.asked;
            let at = history.add(row);
            history.unasked.entry(asked).or_default().insert(at);
        }
        if let Some(seq) = instance.canceled_seq {
            history.results.insert(seq, Result::Cancel);
        }
        let newest = history.results.last_key_value();
        history.last = newest.map_or(0, |(seq, _)| *seq);
        history
    }

    pub(super) fn add(&mut self, row: StepRow) -> usize {
        let at = self.ops.len();
        if let Some(seq) = row.seq {
            self.results.insert(seq, Result::Of(at));
        }
        self.by_name.insert(row.name.clone(), at);
        self.ops.push(Op::new(row));
        at
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The run asks for a step.
    pub(super) fn open(&mut self, at: usize, asked: AskedFor) {
        let op = &mut self.ops[at];
        if let Some(unasked) = self.unasked.get_mut(&op.row.asked) {
            unasked.remove(&at);
            if unasked.is_empty() {
                self.unasked.remove(&op.row.asked);
            }
        }
        op.asked = Some(asked);
        if op.row.seq.is_none() {
            self.open.insert(at);
        }
    }

    /// The run does not wait for a step any more, or its result is there.
    pub(super) fn close(&mut self, at: usize) {
        let op = &mut self.ops[at];
        op.flying = false;
        op.go = false;
        self.open.remove(&at);
    }

    /// The number of the next result.
    pub(super) fn next_seq(&self) -> i64 {
        self.last + 1
    }

    /// A step has its result.
    pub(super) fn done(&mut self, at: usize, state: StepState, now: i64) {
        let seq = self.next_seq();
        let row = &mut self.ops[at].row;
        row.seq = Some(seq);
        row.state = state;
        row.finished_at = Some(now);
        self.results.insert(seq, Result::Of(at));
        self.last = seq;
        self.close(at);
    }

    /// The cancellation is the next result.
    pub(super) fn cancel(&mut self) {
        self.last = self.next_seq();
        self.results.insert(self.last, Result::Cancel);
    }

    /// Gives the run the next result; false if it has all.
    pub(super) fn deliver(&mut self) -> bool {
        if self.delivered >= self.last {
            return false;
        }
        self.delivered += 1;
        match self.results.get(&self.delivered) {
            Some(Result::Of(at)) => {
                let op = &mut self.ops[*at];
                self.time = op.row.finished_at.unwrap_or(self.time);
                op.wake();
            }
            Some(Result::Cancel) => {
                self.canceled = true;
                for op in &mut self.ops {
                    op.wake();
                }
            }
            None => {}
        }
        true
    }

    /// A step that was asked for in an earlier life when the run had as many results as now, and was not in this.
    pub(super) fn missing(&self) -> Option<&Op> {
        let unasked = self.unasked.get(&self.delivered)?;
        unasked.first().map(|at| &self.ops[*at])
    }

    /// A step that was asked for in an earlier life, and was not in this.
    pub(super) fn missing_at_all(&self) -> Option<&Op> {
        let unasked = self.unasked.values().next()?;
        unasked.first().map(|at| &self.ops[*at])
    }

    /// True if the run has asked for a step and still waits for it.
    pub(super) fn is_asked(&self, at: usize, kind: StepKind) -> bool {
        self.open.contains(&at) && self.ops[at].row.kind == kind
    }
}
