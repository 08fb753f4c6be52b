//! A node: the decisions of its session, the lists of its shards, and its replies.

use std::{collections::BTreeMap, time::Duration};

use abide_cluster::{Lsn, Reads, Run, Session, SessionId, Shard, State, Statement, Tenancy};

use crate::{
    history::Request,
    lists::{InMemory, Lists, Logs},
    tables::Record,
};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<L = InMemory> {
    /// Its decisions.
    pub session: Session,
    reads: Reads,
    /// The shards that it has adopted. It serves those that its decisions admit.
    shards: BTreeMap<Shard, Served>,
    /// Their lists.
    pub(crate) lists: L,
    /// The records that have a position.
    log: Vec<Record>,
    replies: Vec<Reply>,
}

/// A shard that is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Served {
    tenancy: Tenancy,
    /// The position after the session's own last record of it.
    end: Lsn,
}

/// A reply that waits until it may leave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The number of the operation.
    pub operation: usize,
    /// The list as it was when the reply was computed.
    pub list: Vec<u64>,
    computed: Duration,
    is_read: bool,
    /// What it shows is durable when the log is up to this position.
    needs: Lsn,
}

impl<L: Lists> Node<L> {
    /// A process whose session has begun.
    pub fn start(me: SessionId, reads: Reads, now: Duration) -> Self {
        Self {
            session: Session::begin(me, now),
            reads,
            shards: BTreeMap::new(),
            lists: L::default(),
            log: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// The records of a group.
    pub fn group(&self, statement: &Statement) -> Vec<Record> {
        let Statement::Append { begin, end } = statement else {
            return Vec::new();
        };
        let group = self.log.iter();
        group
            .filter(|record| record.end > *begin && record.end <= *end)
            .copied()
            .collect()
    }

    /// The end of the last record that ends at or before a position.
    pub fn record_end(&self, at: Lsn) -> Lsn {
        let ends = self.log.iter().map(|record| record.end);
        ends.filter(|end| *end <= at).max().unwrap_or_default()
    }

    /// The records of a run: what was inherited, and then its own, from memory.
    pub fn run(&self, run: &Run, inherited: Vec<Record>) -> Vec<Record> {
        let own = self.log.iter().filter(|record| {
            let is_in_range = record.end > run.since && record.end <= run.until;
            is_in_range && run.tenancies.contains(&record.tenancy)
        });
        inherited.into_iter().chain(own.copied()).collect()
    }

    /// The shards that are to be read before they are served.
    pub fn to_adopt(&self) -> Vec<Tenancy> {
        let tenures = self.session.tenures().iter();
        let adopting = tenures.filter(|(_, tenure)| tenure.state == State::Adopting);
        adopting
            .map(|(shard, tenure)| Tenancy {
                shard,
                generation: tenure.generation,
            })
            .collect()
    }

    /// Takes what earlier owners have left of a shard, in runs and in the parts of its tenure, and serves it.
    ///
    /// # Errors
    /// It cannot be served as it was left.
    pub fn adopt(
        &mut self,
        tenancy: Tenancy,
        mut records: Vec<Record>,
        logs: &mut Logs,
    ) -> Result<(), String> {
        // A part can be archived although the answer was lost.
        records.sort_by_key(position);
        records.dedup();
        let since = self.session.tenures().get(tenancy.shard);
        let since = since.map(|tenure| tenure.since).unwrap_or_default();
        if self.session.adopted(tenancy) {
            logs.begin(tenancy, self.session.id(), since);
            self.lists.adopt(tenancy, since, &records, logs)?;
            let served = Served {
                tenancy,
                end: Lsn(0),
            };
            self.shards.insert(tenancy.shard, served);
        }
        Ok(())
    }

    /// Closes a shard and begins to give it away.
    pub fn close(&mut self, tenancy: Tenancy, to: SessionId) {
        let served = self.shards.get(&tenancy.shard);
        let is_served = served.is_some_and(|served| served.tenancy == tenancy);
        // It stays among those that were served: the decisions alone say that it is not.
        if !self.session.close(tenancy, to) || !is_served {
            return;
        }
        let Some(end) = self.lists.close(tenancy.shard) else {
            return;
        };
        let tenure = self.session.tenures().get(tenancy.shard);
        let state = tenure.map(|tenure| tenure.state);
        assert!(
            matches!(state, Some(State::Closed { until, .. }) if until == end),
            "the store closed the shard at {end:?}, the session has {state:?}"
        );
    }

    /// Executes a request, if the node serves the shard.
    pub fn request(&mut self, operation: usize, shard: Shard, request: Request, now: Duration) {
        let Some(served) = self.shards.get_mut(&shard) else {
            return;
        };
        let tenancy = served.tenancy;
        if !self.session.admits(tenancy) {
            return;
        }
        if let Request::Add(value) = request {
            let bytes = self.lists.add(tenancy, value);
            let end = self.session.append(tenancy, bytes);
            let end = end.expect("the session serves the shard");
            served.end = end;
            self.log.push(Record {
                tenancy,
                end,
                value,
            });
        }
        self.replies.push(Reply {
            operation,
            list: self.lists.list(shard),
            computed: now,
            is_read: request == Request::Read,
            needs: served.end,
        });
    }

    /// Takes the replies that may leave. A write's own commit proves that no other session served the shard.
    pub fn released(&mut self, now: Duration) -> Vec<Reply> {
        let (session, reads) = (&self.session, self.reads);
        let may_leave = |reply: &mut Reply| {
            let is_current = !reply.is_read || session.may_release(reply.computed, reads, now);
            reply.needs <= session.durable() && is_current
        };
        self.replies.extract_if(.., may_leave).collect()
    }
}

fn position(record: &Record) -> (abide_cluster::Generation, Lsn) {
    (record.tenancy.generation, record.end)
}
