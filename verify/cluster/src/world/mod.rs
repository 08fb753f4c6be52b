//! The cluster, its clients and the time.

mod check;
mod trouble;
mod wire;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    time::Duration,
};

use abide_cluster::{Connection, Ended, Lsn, Outcome, SessionId, Shard, State, Tenancy};
use fastrand::Rng;

use crate::{
    Report,
    history::{History, Request},
    lists::{Lists, Logs},
    node::Node,
    plan::{CALM, Plan, STORMY, Trouble},
    server::Server,
    tables::Tables,
};
use wire::{Sent, Waiting};

/// Time between two looks of a node at what it has to say.
const STEP: Duration = Duration::from_millis(50);

/// Between two requests of clients, on average.
const PAUSE_OF_CLIENTS: Duration = Duration::from_millis(60);

/// Everything.
#[derive(Debug)]
pub(crate) struct World<L> {
    plan: Plan,
    rng: Rng,
    now: Duration,
    queue: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    /// What is in the queue, by number.
    events: BTreeMap<usize, Event>,
    next: usize,
    server: Server,
    hosts: Vec<Host<L>>,
    logs: Logs,
    /// Statements that wait for the standby.
    waiting: Vec<Waiting>,
    no_standby_until: Duration,
    history: History,
    values: u64,
    /// Sessions that are over, and why, if they have noticed.
    ended: BTreeMap<SessionId, Option<Ended>>,
    report: Report,
}

/// A machine.
#[derive(Debug)]
struct Host<L> {
    node: Option<Node<L>>,
    /// Attempts to begin a session.
    attempts: u64,
    /// The number of the newest process. What is meant for an earlier one is dropped.
    starts: u64,
    /// The numbers of the process's connections, each of which has one statement under way.
    connections: BTreeMap<Connection, u64>,
    adopting: BTreeSet<Tenancy>,
    paused_until: Duration,
    cut_until: Duration,
}

impl<L> Host<L> {
    fn new() -> Self {
        Self {
            node: None,
            attempts: 0,
            starts: 0,
            connections: BTreeMap::new(),
            adopting: BTreeSet::new(),
            paused_until: Duration::ZERO,
            cut_until: Duration::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Trouble(Trouble),
    Start(usize),
    LateStart(usize, u64),
    Step(usize, u64),
    Execute(Sent),
    Answer(Sent, Outcome),
    Adopt(usize, u64, Tenancy),
    Uploaded(usize, u64, u64),
    Ask,
    Request(usize, usize, Shard, Request),
}

impl<L: Lists> World<L> {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut world = Self {
            rng: Rng::with_seed(plan.seed ^ 0x5EED),
            now: Duration::ZERO,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next: 0,
            server: Server::new(Tables::new(plan.shards)),
            hosts: (0..plan.nodes).map(|_| Host::new()).collect(),
            logs: Logs::default(),
            waiting: Vec::new(),
            no_standby_until: Duration::ZERO,
            history: History::default(),
            values: 0,
            ended: BTreeMap::new(),
            report: Report::default(),
            plan,
        };
        for host in 0..world.hosts.len() {
            world.after(200, Event::Start(host));
        }
        for (at, trouble) in world.plan.events.clone() {
            world.at(at, Event::Trouble(trouble));
        }
        world.after(1, Event::Ask);
        world
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        while let Some(Reverse((at, _, number))) = self.queue.pop() {
            if at > STORMY + CALM {
                break;
            }
            self.now = at;
            if let Some(event) = self.events.remove(&number) {
                self.handle(event)?;
            }
            self.confirm();
        }
        Ok(())
    }

    fn is_stormy(&self) -> bool {
        self.now < STORMY
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.next += 1;
        // Events of the same moment are in any order.
        let tie = self.rng.u64(..);
        self.queue.push(Reverse((at, tie, self.next)));
        self.events.insert(self.next, event);
    }

    /// After at most this many milliseconds.
    fn after(&mut self, most: u64, event: Event) {
        let wait = Duration::from_micros(self.rng.u64(1..=most * 1_000));
        self.at(self.now + wait, event);
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Trouble(trouble) => self.trouble(trouble),
            Event::Start(host) => self.start(host),
            Event::LateStart(host, attempt) => {
                self.server.commit(|tables| tables.start(host, attempt, 0));
            }
            Event::Step(host, start) if self.hosts[host].starts == start => {
                self.step(host);
                self.at(self.now + STEP, Event::Step(host, start));
            }
            Event::Step(..) => {}
            Event::Execute(sent) => self.execute(sent),
            Event::Answer(sent, outcome) => self.answer(&sent, outcome),
            Event::Adopt(host, start, tenancy) => self.adopt(host, start, tenancy)?,
            Event::Uploaded(host, start, run) => {
                let is_lost = self.is_stormy() && self.rng.u8(..8) == 0;
                if let Some(node) = self.running(host, start) {
                    if is_lost {
                        node.session.abandon_run(run);
                    } else {
                        node.session.uploaded(run, None);
                    }
                }
            }
            Event::Ask => self.ask(),
            Event::Request(host, operation, shard, request) => {
                let now = self.now;
                let paused = self.hosts[host].paused_until;
                if paused > now {
                    let event = Event::Request(host, operation, shard, request);
                    self.at(paused, event);
                } else if let Some(node) = &mut self.hosts[host].node {
                    node.request(operation, shard, request, now);
                }
            }
        }
        Ok(())
    }

    /// The node of a host, if it is still this process.
    fn running(&mut self, host: usize, start: u64) -> Option<&mut Node<L>> {
        let host = &mut self.hosts[host];
        host.node.as_mut().filter(|_| host.starts == start)
    }

    fn step(&mut self, host: usize) {
        let now = self.now;
        if self.hosts[host].paused_until > now {
            return;
        }
        self.release(host);
        self.say(host);
        self.look_after_shards(host);
        let ended = self.hosts[host]
            .node
            .as_ref()
            .and_then(|node| node.session.ended());
        if ended.is_some() {
            self.end(host, ended);
            self.after(3_000, Event::Start(host));
        }
    }

    fn release(&mut self, host: usize) {
        let now = self.now;
        let Some(node) = &mut self.hosts[host].node else {
            return;
        };
        if node.session.ended().is_some() {
            return;
        }
        let by = node.session.id();
        for reply in node.released(now) {
            self.history.answered(reply.operation, by, reply.list, now);
        }
    }

    fn look_after_shards(&mut self, host: usize) {
        let is_archiving = self.rng.u8(..40) == 0;
        let is_stormy = self.is_stormy();
        let own = &mut self.hosts[host];
        let start = own.starts;
        let Some(node) = &mut own.node else { return };
        let to_adopt = node.to_adopt();
        let new: Vec<Tenancy> = to_adopt
            .iter()
            .filter(|tenancy| !own.adopting.contains(tenancy))
            .copied()
            .collect();
        let run = if is_archiving {
            node.lists.maintain();
            let durable = node.session.durable();
            // All that is durable, or less.
            let until = match self.rng.u64(..2 * durable.0.max(1)) {
                at if at < durable.0 && is_stormy => node.record_end(Lsn(at)),
                _ => durable,
            };
            node.session.plan_run(until)
        } else {
            None
        };
        own.adopting.extend(&new);
        for tenancy in new {
            self.after(300, Event::Adopt(host, start, tenancy));
        }
        if let Some(run) = run {
            let delay = self.delay();
            self.after(delay, Event::Uploaded(host, start, run.number));
        }
    }

    fn adopt(&mut self, host: usize, start: u64, tenancy: Tenancy) -> Result<(), String> {
        let tables = self.server.tables();
        let own = &mut self.hosts[host];
        own.adopting.remove(&tenancy);
        if let Some(node) = own.node.as_mut().filter(|_| own.starts == start) {
            let tenure = node.session.tenures().get(tenancy.shard);
            let current = tenure.filter(|tenure| {
                tenure.generation == tenancy.generation && tenure.state == State::Adopting
            });
            if let Some(tenure) = current {
                let records = tables.left(tenancy.shard, &tenure.parts);
                node.adopt(tenancy, records, &mut self.logs)?;
            }
        }
        Ok(())
    }

    /// A client sends a request, mostly to the node that should answer.
    fn ask(&mut self) {
        let shard = Shard(self.rng.u16(..self.plan.shards));
        let request = if self.rng.bool() {
            self.values += 1;
            Request::Add(self.values)
        } else {
            Request::Read
        };
        let anyone = self.rng.usize(..self.hosts.len());
        let owner = self.server.tables().owner(shard);
        let is_lost = self.rng.u8(..3) == 0;
        let host = owner.filter(|_| !is_lost).map_or(anyone, |(host, _)| host);
        let operation = self.history.sent(shard, request, self.now);
        let delay = self.delay();
        self.after(delay, Event::Request(host, operation, shard, request));
        let pause = 2 * PAUSE_OF_CLIENTS.as_millis() as u64;
        // The last runs have everything.
        if self.now < STORMY + CALM / 2 {
            self.after(pause, Event::Ask);
        }
    }
}
