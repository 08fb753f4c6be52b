//! What happens to hosts and to the database.

use std::time::Duration;

use abide_cluster::{Connection, Ended, Outcome, Shard};

use super::{Event, World};
use crate::{lists::Lists, node::Node, plan::Trouble};

impl<L: Lists> World<L> {
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        let now = self.now;
        match trouble {
            Trouble::Kill(host, time) => {
                self.end(host, None);
                self.at(now + time, Event::Start(host));
            }
            Trouble::Leave(host) => {
                if let Some(node) = &mut self.hosts[host].node {
                    node.session.leave();
                }
            }
            Trouble::Pause(host, time) => self.hosts[host].paused_until = now + time,
            Trouble::Cut(host, time) => {
                self.hosts[host].cut_until = now + time;
                self.break_connections(host);
            }
            Trouble::NoStandby(time) => self.no_standby_until = now + time,
            Trouble::CancelWaits => {
                for waiting in std::mem::take(&mut self.waiting) {
                    self.after(8, Event::Answer(waiting.sent, Outcome::Unknown));
                }
            }
            Trouble::FailOver => {
                let most = self.server.losable(self.plan.is_synchronous);
                let lost = self.rng.usize(..=most);
                self.server.fail_over(lost);
                self.report.lost += lost;
                self.no_standby_until = now;
                for host in 0..self.hosts.len() {
                    self.break_connections(host);
                }
            }
            Trouble::Move => self.hand_over(),
        }
    }

    pub(super) fn hand_over(&mut self) {
        let shard = Shard(self.rng.u16(..self.plan.shards));
        let Some((host, tenancy)) = self.server.tables().owner(shard) else {
            return;
        };
        let live = self.server.tables().live();
        let to = live[self.rng.usize(..live.len())];
        let node = self.hosts[host].node.as_mut();
        if let Some(node) = node.filter(|node| node.session.id() != to) {
            node.close(tenancy, to);
        }
    }

    pub(super) fn end(&mut self, host: usize, why: Option<Ended>) {
        let host = &mut self.hosts[host];
        if let Some(node) = host.node.take() {
            self.ended.insert(node.session.id(), why);
        }
        host.paused_until = Duration::ZERO;
        host.adopting.clear();
    }

    pub(super) fn start(&mut self, host: usize) {
        let now = self.now;
        if self.hosts[host].node.is_some() {
            return;
        }
        if self.hosts[host].cut_until > now || self.no_standby_until > now {
            self.after(1_000, Event::Start(host));
            return;
        }
        let nonce = u128::from(self.rng.u64(..)) << 64 | u128::from(self.rng.u64(..));
        let attempts = &mut self.hosts[host].attempts;
        *attempts += 2;
        let attempt = *attempts;
        let (session, commit) = self
            .server
            .commit(|tables| tables.start(host, attempt, nonce));
        self.server.replicate(commit);
        let Some(session) = session else { return };
        self.report.sessions += 1;
        // An attempt before it, without an answer, arrives late.
        if self.is_stormy() && self.rng.bool() {
            self.after(20_000, Event::LateStart(host, attempt - 1));
        }
        let reads = self.plan.reads;
        let own = &mut self.hosts[host];
        own.node = Some(Node::start(session, reads, now));
        own.connections = Connection::ALL.map(|connection| (connection, 0)).into();
        own.starts += 1;
        let step = Event::Step(host, own.starts);
        self.at(now, step);
    }
}
