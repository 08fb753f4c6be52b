//! Steps and results, in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    task::Waker,
};

use super::{Trouble, inbox::Inbox};
use crate::workflow::{
    RetryPolicy, StepKind, StepName, StepState,
    rows::{Instance, StepRow},
    setback::Setback,
};

/// A step of this run.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is set and cleared at another time"
)]
pub(super) struct Op {
    pub(super) row: StepRow,
    /// Set when the run has requested it.
    pub(super) asked: Option<StepRequest>,
    /// True from the time at which an attempt begins until it has ended.
    pub(super) flying: bool,
    /// True when the attempt is on disk and its function may be called.
    pub(super) go: bool,
    /// True when the run has learned that the step is canceled.
    pub(super) canceled: bool,
    /// What earlier attempts mean for the next one.
    pub(super) setback: Setback,
    /// True while its attempt is made with nothing else in flight.
    pub(super) alone: bool,
    waker: Option<Waker>,
}

/// The run's request for a step.
pub(super) struct StepRequest {
    /// The name of the event that it waits for, or the id of the child.
    pub(super) event: String,
    pub(super) policy: RetryPolicy,
    pub(super) shielded: bool,
}

impl Op {
    fn new(row: StepRow) -> Self {
        Self {
            setback: Setback::from_json(row.setback.as_deref()),
            alone: false,
            row,
            asked: None,
            flying: false,
            go: false,
            canceled: false,
            waker: None,
        }
    }

    /// True if an attempt is due.
    pub(super) fn may_begin(&self, now: i64) -> bool {
        let waits = matches!(self.row.state, StepState::New | StepState::Waiting);
        let due = self.row.due.is_none_or(|due| due <= now);
        self.row.kind == StepKind::Step && waits && due && !self.flying
    }

    /// Attempts that count.
    pub(super) fn counted(&self) -> u32 {
        self.row.attempts.saturating_sub(self.setback.throttled)
    }

    /// True if it may have ended the process and has one attempt left, or none: that is made alone. A step with a single
    /// attempt is never repeated.
    pub(super) fn is_suspect(&self) -> bool {
        let policy = self.asked.as_ref().map(|asked| &asked.policy);
        let is_last = policy.is_some_and(|policy| {
            policy.max_attempts > 1 && self.counted().saturating_add(1) >= policy.max_attempts
        });
        self.setback.cut_off && is_last
    }

    pub(super) fn is_shielded(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.shielded)
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// An entry of the order of results.
#[derive(Clone, Copy, Debug)]
enum OrderEntry {
    ResultOf(usize),
    Cancellation,
}

pub(super) struct History {
    pub(super) ops: Vec<Op>,
    by_name: HashMap<StepName, usize>,
    /// How often each name was requested.
    uses: HashMap<String, u32>,
    /// Requested steps.
    pub(super) asked: usize,
    order: BTreeMap<i64, OrderEntry>,
    /// Requests of an earlier activation that have not been repeated in this one, by the number of results at that
    /// time.
    unasked: BTreeMap<i64, BTreeSet<usize>>,
    /// Steps that the run waits for and that have no position.
    pub(super) open: BTreeSet<usize>,
    /// Of these, those whose result is stored, by its time.
    pub(super) stored: BTreeSet<(i64, usize)>,
    /// Of these, those with a time: sleeps, and waits for events.
    pub(super) timers: BTreeSet<(i64, usize)>,
    /// Of these, those that wait for an event or a child, by its name or id.
    pub(super) waiting: HashMap<(StepKind, String), BTreeSet<usize>>,
    /// Unconsumed events and children's results.
    pub(super) inbox: Inbox,
    /// Steps whose attempt was running when an earlier activation ended.
    pub(super) cut_off: Vec<usize>,
    /// Steps that have not learned yet that they are canceled.
    canceling: VecDeque<usize>,
    /// The number of results that the run has received.
    pub(super) delivered: i64,
    /// The number of results that have a position.
    pub(super) last: i64,
    pub(super) canceled: bool,
    pub(super) time: i64,
    pub(super) trouble: Option<Trouble>,
    /// The input of the next run.
    pub(super) successor: Option<String>,
}

impl History {
    pub(super) fn new(instance: &Instance, steps: Vec<StepRow>) -> Self {
        let mut history = Self {
            ops: Vec::with_capacity(steps.len()),
            by_name: HashMap::new(),
            uses: HashMap::new(),
            asked: 0,
            order: BTreeMap::new(),
            unasked: BTreeMap::new(),
            open: BTreeSet::new(),
            stored: BTreeSet::new(),
            timers: BTreeSet::new(),
            waiting: HashMap::new(),
            inbox: Inbox::default(),
            cut_off: Vec::new(),
            canceling: VecDeque::new(),
            delivered: 0,
            last: 0,
            canceled: false,
            time: instance.began_at,
            trouble: None,
            successor: None,
        };
        for row in steps {
            let asked = row.asked;
            let at = history.add(row);
            history.unasked.entry(asked).or_default().insert(at);
        }
        if let Some(seq) = instance.canceled_seq {
            history.order.insert(seq, OrderEntry::Cancellation);
        }
        let newest = history.order.last_key_value();
        history.last = newest.map_or(0, |(seq, _)| *seq);
        history
    }

    pub(super) fn add(&mut self, row: StepRow) -> usize {
        let at = self.ops.len();
        if let Some(seq) = row.seq {
            self.order.insert(seq, OrderEntry::ResultOf(at));
        }
        if row.state == StepState::Running {
            self.cut_off.push(at);
        }
        self.by_name.insert(row.step(), at);
        self.ops.push(Op::new(row));
        at
    }

    /// The next use of a name.
    pub(super) fn next_use(&mut self, name: &str) -> StepName {
        let uses = self.uses.entry(name.to_owned()).or_default();
        *uses += 1;
        (name, *uses).into()
    }

    /// A step that was requested in an earlier activation.
    pub(super) fn find(&self, step: &StepName) -> Option<usize> {
        self.by_name.get(step).copied()
    }

    /// The run requests a step.
    pub(super) fn open(&mut self, at: usize, asked: StepRequest) {
        self.asked += 1;
        let op = &mut self.ops[at];
        if let Some(unasked) = self.unasked.get_mut(&op.row.asked) {
            unasked.remove(&at);
            if unasked.is_empty() {
                self.unasked.remove(&op.row.asked);
            }
        }
        let event = asked.event.clone();
        op.asked = Some(asked);
        if op.row.seq.is_some() {
            return;
        }
        self.open.insert(at);
        match op.row.kind {
            _ if op.row.has_result() => self.has_result(at),
            StepKind::Step => {}
            kind => {
                let due = op.row.due;
                self.timers.extend(due.map(|due| (due, at)));
                if kind != StepKind::Sleep {
                    self.waiting.entry((kind, event)).or_default().insert(at);
                }
            }
        }
    }

    /// The run no longer waits for a step, or has received its result.
    pub(super) fn close(&mut self, at: usize) {
        let op = &mut self.ops[at];
        op.flying = false;
        op.go = false;
        self.open.remove(&at);
        let time = op.row.finished_at.unwrap_or_default();
        self.stored.remove(&(time, at));
        if let Some(due) = op.row.due {
            self.timers.remove(&(due, at));
        }
        if let Some(asked) = &op.asked {
            let key = (op.row.kind, asked.event.clone());
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.remove(&at);
                if waiting.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    /// A step's result is stored.
    pub(super) fn has_result(&mut self, at: usize) {
        let time = self.ops[at].row.finished_at.unwrap_or_default();
        if self.open.contains(&at) {
            self.stored.insert((time, at));
        }
    }

    /// The number of the next result.
    pub(super) fn next_seq(&self) -> i64 {
        self.last + 1
    }

    /// A step's result is the next of the order, at this time.
    pub(super) fn order(&mut self, at: usize, time: i64) {
        self.close(at);
        let seq = self.next_seq();
        let row = &mut self.ops[at].row;
        row.seq = Some(seq);
        row.due = None;
        row.finished_at = Some(time);
        self.order.insert(seq, OrderEntry::ResultOf(at));
        self.last = seq;
    }

    /// The cancellation is the next of the order.
    pub(super) fn cancel(&mut self) {
        self.last = self.next_seq();
        self.order.insert(self.last, OrderEntry::Cancellation);
    }

    /// True if some of the steps that the run waits for have not learned yet that they are canceled.
    pub(super) fn is_canceling(&self) -> bool {
        self.canceling.iter().any(|at| self.open.contains(at))
    }

    /// Delivers the next result to the run; false if it has all. The consequences of one result come before the next,
    /// so at most one of the awaited steps is woken at a time, even by a cancellation, which steps learn of in the
    /// order of their requests.
    pub(super) fn deliver(&mut self) -> bool {
        while let Some(at) = self.canceling.pop_front() {
            if self.open.contains(&at) {
                self.ops[at].canceled = true;
                self.ops[at].wake();
                return true;
            }
        }
        if self.delivered >= self.last {
            return false;
        }
        self.delivered += 1;
        match self.order.get(&self.delivered) {
            Some(OrderEntry::ResultOf(at)) => {
                let op = &mut self.ops[*at];
                self.time = op.row.finished_at.unwrap_or(self.time);
                op.wake();
            }
            Some(OrderEntry::Cancellation) => {
                self.canceled = true;
                let open = self.open.iter().copied();
                self.canceling = open.filter(|at| !self.ops[*at].is_shielded()).collect();
            }
            None => {}
        }
        true
    }

    /// True if the run is still repeating an earlier activation.
    pub(super) fn is_replaying(&self) -> bool {
        self.delivered < self.last || self.missing().is_some()
    }

    /// A step that was requested in an earlier activation with as many results as now, and not in this one.
    pub(super) fn missing(&self) -> Option<&Op> {
        let unasked = self.unasked.get(&self.delivered)?;
        unasked.first().map(|at| &self.ops[*at])
    }

    /// A step that was requested in an earlier activation, and not in this one.
    pub(super) fn missing_at_all(&self) -> Option<&Op> {
        let unasked = self.unasked.values().next()?;
        unasked.first().map(|at| &self.ops[*at])
    }

    /// Moves relative waits earlier by this much.
    pub(super) fn bring_nearer(&mut self, by: i64) {
        for op in &mut self.ops {
            if op.row.finished_at.is_none() && !op.row.fixed {
                op.row.due = op.row.due.map(|due| due - by);
            }
        }
        let timers = std::mem::take(&mut self.timers);
        let due = |(_, at): (i64, usize)| Some((self.ops[at].row.due?, at));
        self.timers = timers.into_iter().filter_map(due).collect();
    }
}
