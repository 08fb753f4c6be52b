//! A model checker explores what two nodes and their database can do: every order in which statements are executed and answered, with
//! lost connections, late statements, cancelled waits, a failover, a hand-over, and time that passes at any moment.
//!
//! The state has the decisions of `abide-cluster` and the tables as the simulation has them. There is one shard; time passes in steps
//! in which a lease is held, and after two of which a silent session is fenced. Renewals and polls are executed and answered at
//! once, or not at all; the seeds have them late.

use std::{
    collections::BTreeSet,
    fmt::{self, Debug, Formatter},
    time::Duration,
};

use abide_cluster::{
    Connection, Ended, Outcome, Reads, SessionId, Shard, State, Statement, Tenancy, limits,
};
use abide_cluster_sim::{Node, Record, Server, Tables, history::Request, lists::Logs};
use stateright::{Checker, Model, Property};

const SHARD: Shard = Shard(0);

/// Less than a lease, and two of them are more than the silence after which a session is fenced.
const STEP: Duration = Duration::from_secs(4);

const _: () = assert!(STEP.as_millis() < limits::LEASE.as_millis());
const _: () = assert!(2 * STEP.as_millis() > limits::FENCE_AFTER.as_millis());

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    steps: u8,
    adds: u8,
    reads: u8,
    /// Connections that are lost.
    lost: u8,
    failovers: u8,
    moves: u8,
    runs: u8,
    leaves: u8,
}

struct Cluster {
    budget: Budget,
    reads: Reads,
    reached: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    now: Duration,
    left: Budget,
    server: Server,
    nodes: Vec<Node>,
    flights: Vec<Flight>,
    /// For each operation, what was acknowledged before it.
    operations: Vec<(Request, BTreeSet<u64>)>,
    acknowledged: BTreeSet<u64>,
    /// A reply has left that lacks what was acknowledged before its request.
    is_stale: bool,
    /// A failover has lost commits.
    has_lost: bool,
}

/// A statement on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    node: usize,
    session: SessionId,
    /// None if the connection was given up: it may be executed, and is not answered.
    connection: Option<Connection>,
    statement: Statement,
    records: Vec<Record>,
    /// Its outcome, and the commit that the standby must have.
    executed: Option<(Outcome, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    TimePasses,
    Send(usize, Connection),
    Execute(usize),
    Answer(usize),
    /// The connection is lost. The statement may be executed later.
    Lose(usize),
    /// The standby becomes the primary, without this many commits.
    FailOver(usize),
    Add(usize),
    Read(usize),
    Adopt(usize),
    Move(usize),
    Archive(usize),
    Leave(usize),
}

impl Debug for World {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("flights", &self.flights)
            .field("acknowledged", &self.acknowledged)
            .finish_non_exhaustive()
    }
}

impl World {
    /// The first node serves the shard, and both have just renewed their leases and seen each other.
    fn new(budget: Budget, reads: Reads) -> Self {
        let mut server = Server::new(Tables::new(1));
        let nodes = (0..2).map(|host| {
            let (session, _) = server.commit(|tables| tables.start(host, 1, 7));
            Node::start(session.expect("the first"), reads, Duration::ZERO)
        });
        let mut world = Self {
            now: Duration::ZERO,
            left: budget,
            nodes: nodes.collect(),
            server,
            flights: Vec::new(),
            operations: Vec::new(),
            acknowledged: BTreeSet::new(),
            is_stale: false,
            has_lost: false,
        };
        for node in 0..2 {
            for connection in [Connection::Lease, Connection::Control, Connection::Control] {
                world.send(node, connection);
                while !world.flights.is_empty() {
                    world.execute(0);
                    world.answer(0);
                }
            }
            if !world.nodes[node].to_adopt().is_empty() {
                world.adopt(node);
            }
        }
        assert!(world.flights.is_empty());
        world.server.fail_over(0);
        world
    }

    fn send(&mut self, node: usize, connection: Connection) -> bool {
        let own = &mut self.nodes[node];
        let Some(statement) = own.session.next(connection, self.now) else {
            return false;
        };
        let records = match &statement {
            Statement::Publish { run, .. } => own.run(run, self.server.tables().inherited(run)),
            _ => own.group(&statement),
        };
        self.flights.push(Flight {
            node,
            session: own.session.id(),
            connection: Some(connection),
            statement,
            records,
            executed: None,
        });
        let is_quick = matches!(
            self.flights.last().map(|flight| &flight.statement),
            Some(Statement::Renew(_) | Statement::Poll)
        );
        if is_quick {
            let index = self.flights.len() - 1;
            self.execute(index);
            self.answer(index);
        }
        true
    }

    fn execute(&mut self, index: usize) {
        let flight = self.flights[index].clone();
        let executed = self
            .server
            .commit(|tables| tables.execute(flight.session, &flight.statement, &flight.records));
        if flight.connection.is_none() {
            self.flights.remove(index);
        } else {
            self.flights[index].executed = Some(executed);
        }
    }

    /// What is committed is answered when the standby has it.
    fn answer(&mut self, index: usize) {
        let flight = self.flights.remove(index);
        let (Some(connection), Some((outcome, commit))) = (flight.connection, flight.executed)
        else {
            return;
        };
        if matches!(outcome, Outcome::Done(_)) && flight.statement != Statement::Poll {
            self.server.replicate(commit);
        }
        let own = &mut self.nodes[flight.node];
        own.session.answered(connection, outcome, self.now);
        self.release(flight.node);
    }

    fn lose(&mut self, index: usize) {
        let flight = &mut self.flights[index];
        let node = flight.node;
        let Some(connection) = flight.connection.take() else {
            return;
        };
        if flight.executed.is_some() {
            self.flights.remove(index);
        }
        let session = &mut self.nodes[node].session;
        session.answered(connection, Outcome::Unknown, self.now);
    }

    fn fail_over(&mut self, lost: usize) {
        self.server.fail_over(lost);
        self.has_lost |= lost > 0;
        while let Some(index) = self.flights.iter().position(|of| of.connection.is_some()) {
            self.lose(index);
        }
    }

    fn request(&mut self, node: usize, request: Request) {
        let before = self.acknowledged.clone();
        self.operations.push((request, before));
        let operation = self.operations.len() - 1;
        self.nodes[node].request(operation, SHARD, request, self.now);
        self.release(node);
    }

    /// What may leave leaves at once: later, the lease is shorter.
    fn release(&mut self, node: usize) {
        if self.nodes[node].session.ended().is_some() {
            return;
        }
        for reply in self.nodes[node].released(self.now) {
            let (request, before) = &self.operations[reply.operation];
            self.is_stale |= !before.iter().all(|value| reply.list.contains(value));
            match request {
                Request::Add(value) => self.acknowledged.insert(*value),
                Request::Read => {
                    self.acknowledged.extend(&reply.list);
                    false
                }
            };
        }
    }

    fn adopt(&mut self, node: usize) {
        for tenancy in self.nodes[node].to_adopt() {
            let own = &mut self.nodes[node];
            if let Some(tenure) = own.session.tenures().get(tenancy.shard) {
                let records = self.server.tables().left(tenancy.shard, &tenure.parts);
                let adopted = own.adopt(tenancy, records, &mut Logs::default());
                adopted.expect("lists in memory");
            }
        }
    }

    fn serves(&self, node: usize) -> Option<Tenancy> {
        let tenure = self.nodes[node].session.tenures().get(SHARD)?;
        let generation = tenure.generation;
        let shard = SHARD;
        (tenure.state == State::Serving).then_some(Tenancy { shard, generation })
    }

    fn is_over(&self, node: usize) -> bool {
        self.nodes[node].session.ended().is_some()
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.budget, self.reads)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let left = world.left;
        if left.steps > 0 {
            actions.push(Action::TimePasses);
        }
        for node in 0..2 {
            if world.is_over(node) {
                continue;
            }
            actions.extend(Connection::ALL.map(|connection| Action::Send(node, connection)));
            if !world.nodes[node].to_adopt().is_empty() {
                actions.push(Action::Adopt(node));
            }
            let serves = world.serves(node).is_some();
            if left.adds > 0 && serves {
                actions.push(Action::Add(node));
            }
            if left.reads > 0 && serves {
                actions.push(Action::Read(node));
            }
            if left.moves > 0 && serves {
                actions.push(Action::Move(node));
            }
            if left.leaves > 0 {
                actions.push(Action::Leave(node));
            }
            if left.runs > 0 {
                actions.push(Action::Archive(node));
            }
        }
        for (index, flight) in world.flights.iter().enumerate() {
            if flight.executed.is_none() {
                actions.push(Action::Execute(index));
            } else {
                actions.push(Action::Answer(index));
            }
            if left.lost > 0 && flight.connection.is_some() {
                actions.push(Action::Lose(index));
            }
        }
        if left.failovers > 0 {
            actions.extend((0..=world.server.losable(true)).map(Action::FailOver));
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        let left = &mut world.left;
        match action {
            Action::TimePasses => {
                left.steps -= 1;
                world.now += STEP;
            }
            Action::Send(node, connection) => {
                world.send(node, connection).then_some(())?;
            }
            Action::Execute(index) => world.execute(index),
            Action::Answer(index) => world.answer(index),
            Action::Lose(index) => {
                left.lost -= 1;
                world.lose(index);
            }
            Action::FailOver(lost) => {
                left.failovers -= 1;
                world.fail_over(lost);
            }
            Action::Add(node) => {
                let value = u64::from(left.adds);
                left.adds -= 1;
                world.request(node, Request::Add(value));
            }
            Action::Read(node) => {
                left.reads -= 1;
                world.request(node, Request::Read);
            }
            Action::Adopt(node) => world.adopt(node),
            Action::Move(node) => {
                left.moves -= 1;
                let to = world.nodes[1 - node].session.id();
                let tenancy = world.serves(node)?;
                world.nodes[node].close(tenancy, to);
            }
            Action::Leave(node) => {
                left.leaves -= 1;
                world.nodes[node].session.leave();
            }
            Action::Archive(node) => {
                left.runs -= 1;
                let session = &mut world.nodes[node].session;
                let run = session.plan_run(session.durable())?;
                session.uploaded(run.number, None);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing acknowledged is lost", |_, world: &World| {
                let list = world.server.tables().list(SHARD);
                world.acknowledged.iter().all(|value| list.contains(value))
            }),
            Property::always("no reply is stale", |_, world: &World| !world.is_stale),
            Property::always("runs are in order", |_, world: &World| {
                let history = world.server.tables().history(SHARD);
                let position = |of: &Record| (of.tenancy.generation, of.end);
                history.is_sorted_by(|a, b| position(a) < position(b))
            }),
            Property::always("no session misses commits", |_, world: &World| {
                let mut ended = world.nodes.iter().filter_map(|node| node.session.ended());
                ended.all(|why| why != Ended::LostCommits)
            }),
            Property::sometimes(
                self.reached,
                |cluster: &Self, world: &World| match cluster.reached {
                    "commits are lost" => world.has_lost,
                    _ => world.serves(1).is_some(),
                },
            ),
        ]
    }
}

/// Explores all that a budget allows, which must reach something.
fn explore(budget: Budget, reads: Reads, reached: &'static str) {
    let model = Cluster {
        budget,
        reads,
        reached,
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let checker = model.checker().threads(threads).spawn_dfs().join();
    println!("{} states of {budget:?}", checker.unique_state_count());
    checker.assert_properties();
}

const NONE: Budget = Budget {
    steps: 0,
    adds: 0,
    reads: 0,
    lost: 0,
    failovers: 0,
    moves: 0,
    runs: 0,
    leaves: 0,
};

/// `ABIDE_CLUSTER_MODEL` adds to what may happen: a larger number takes hours.
fn more() -> u8 {
    let value = std::env::var("ABIDE_CLUSTER_MODEL").ok();
    value.map_or(0, |value| value.parse().expect("ABIDE_CLUSTER_MODEL"))
}

#[test]
fn a_shard_of_a_silent_node_is_taken_over() {
    let budget = Budget {
        steps: 2,
        adds: 1,
        reads: 1,
        lost: more(),
        ..NONE
    };
    for reads in [Reads::Leased, Reads::Confirmed] {
        explore(budget, reads, "the other node serves");
    }
}

#[test]
fn a_shard_of_a_node_that_leaves_is_taken_over_before_it_is_silent() {
    let budget = Budget {
        steps: 1,
        adds: 1,
        reads: 1,
        lost: more(),
        leaves: 1,
        ..NONE
    };
    for reads in [Reads::Leased, Reads::Confirmed] {
        explore(budget, reads, "the other node serves");
    }
    let lossy = Budget {
        reads: 0,
        lost: 1,
        ..budget
    };
    explore(lossy, Reads::Leased, "the other node serves");
}

#[test]
fn a_shard_that_is_given_away_has_one_owner_although_answers_are_lost() {
    let budget = Budget {
        steps: 1,
        adds: 1 + more(),
        lost: 1,
        moves: 1,
        ..NONE
    };
    explore(budget, Reads::Leased, "the other node serves");
}

#[test]
fn nothing_acknowledged_is_lost_by_a_failover() {
    let budget = Budget {
        adds: 2 + more(),
        lost: 2,
        failovers: 1,
        moves: 1,
        runs: 1,
        ..NONE
    };
    explore(budget, Reads::Leased, "commits are lost");
}
