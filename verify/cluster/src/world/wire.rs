//! Statements on their way to the database and back.

use abide_cluster::{Connection, Outcome, SessionId, Statement};

use super::{Event, World};
use crate::{lists::Lists, tables::Record};

/// A statement on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) host: usize,
    pub(super) session: SessionId,
    pub(super) start: u64,
    pub(super) connection: Connection,
    /// The number of the connection.
    pub(super) link: u64,
    pub(super) statement: Statement,
    pub(super) records: Vec<Record>,
}

/// A committed statement whose commit the standby does not have.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) commit: u64,
    pub(super) sent: Sent,
    pub(super) outcome: Outcome,
}

impl<L: Lists> World<L> {
    /// The time that a message takes: mostly little.
    pub(super) fn delay(&mut self) -> u64 {
        match self.rng.u8(..64) {
            0 if self.is_stormy() => 9_000,
            1 | 2 => 500,
            _ => 8,
        }
    }

    pub(super) fn say(&mut self, host: usize) {
        let now = self.now;
        for connection in Connection::ALL {
            let own = &mut self.hosts[host];
            let Some(node) = &mut own.node else { return };
            let Some(statement) = node.session.next(connection, now) else {
                continue;
            };
            self.logs.add(node.session.id(), node.lists.ship());
            let records = match &statement {
                Statement::Publish { run, .. } => {
                    node.run(run, self.server.tables().inherited(run))
                }
                _ => node.group(&statement),
            };
            let sent = Sent {
                host,
                session: node.session.id(),
                start: own.starts,
                connection,
                link: own.connections[&connection],
                statement,
                records,
            };
            self.send(sent);
        }
    }

    pub(super) fn send(&mut self, sent: Sent) {
        let host = sent.host;
        if self.hosts[host].cut_until > self.now {
            self.after(3_000, Event::Answer(sent, Outcome::Unknown));
            return;
        }
        // A connection breaks, and the statement may arrive later, or never.
        if self.is_stormy() && self.rng.u8(..100) == 0 {
            self.after(1_000, Event::Answer(sent.clone(), Outcome::Unknown));
            if self.rng.bool() {
                self.after(20_000, Event::Execute(sent));
            }
            return;
        }
        let delay = self.delay();
        self.after(delay, Event::Execute(sent));
    }

    /// All statements under way have an unknown outcome. Those that were not executed are, later, or never.
    pub(super) fn break_connections(&mut self, host: usize) {
        let under_way: Vec<usize> = self
            .events
            .iter()
            .filter(|(_, event)| match event {
                Event::Execute(sent) | Event::Answer(sent, _) => sent.host == host,
                _ => false,
            })
            .map(|(number, _)| *number)
            .collect();
        for number in under_way {
            let Some(event) = self.events.remove(&number) else {
                continue;
            };
            match event {
                Event::Execute(sent) => {
                    self.after(3_000, Event::Answer(sent.clone(), Outcome::Unknown));
                    if self.rng.bool() {
                        self.after(20_000, Event::Execute(sent));
                    }
                }
                Event::Answer(sent, _) => {
                    self.after(3_000, Event::Answer(sent, Outcome::Unknown));
                }
                _ => {}
            }
        }
        let (own, others) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.sent.host == host);
        self.waiting = others;
        let own: Vec<Waiting> = own;
        for waiting in own {
            self.after(3_000, Event::Answer(waiting.sent, Outcome::Unknown));
        }
    }

    pub(super) fn execute(&mut self, sent: Sent) {
        let own = &self.hosts[sent.host];
        let is_current = own.connections.get(&sent.connection) == Some(&sent.link);
        self.report.late += usize::from(!is_current || own.starts != sent.start);
        let (outcome, commit) = self
            .server
            .commit(|tables| tables.execute(sent.session, &sent.statement, &sent.records));
        let is_move =
            matches!(sent.statement, Statement::HandOver { to, .. } if to != sent.session);
        let is_done = matches!(outcome, Outcome::Done(_));
        self.report.moves += usize::from(is_move && is_done);
        let waits = is_done && sent.statement != Statement::Poll;
        if waits {
            self.waiting.push(Waiting {
                commit,
                sent,
                outcome,
            });
        } else {
            self.reply(sent, outcome);
        }
    }

    pub(super) fn reply(&mut self, sent: Sent, outcome: Outcome) {
        let is_lost = self.hosts[sent.host].cut_until > self.now
            || (self.is_stormy() && self.rng.u8(..100) == 0);
        let outcome = if is_lost { Outcome::Unknown } else { outcome };
        let delay = self.delay();
        self.after(delay, Event::Answer(sent, outcome));
    }

    /// The standby confirms what it has.
    pub(super) fn confirm(&mut self) {
        if self.no_standby_until > self.now || self.waiting.is_empty() {
            return;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.server.replicate(waiting.commit);
            self.reply(waiting.sent, waiting.outcome);
        }
    }

    pub(super) fn answer(&mut self, sent: &Sent, outcome: Outcome) {
        let now = self.now;
        let paused = self.hosts[sent.host].paused_until;
        if paused > now {
            self.at(paused, Event::Answer(sent.clone(), outcome));
            return;
        }
        let own = &mut self.hosts[sent.host];
        let link = own.connections.get_mut(&sent.connection);
        let Some(link) = link.filter(|link| **link == sent.link && own.starts == sent.start) else {
            return;
        };
        *link += 1;
        self.report.unknown += usize::from(outcome == Outcome::Unknown);
        if let Some(node) = &mut own.node {
            node.session.answered(sent.connection, outcome, now);
            node.lists.durable_up_to(node.session.durable());
        }
        self.step(sent.host);
    }
}
