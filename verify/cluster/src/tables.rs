//! What the statements do to the database: the rules that the real database's SQL has to follow.
//!
//! Each is executed as a whole here. In SQL, under READ COMMITTED, it takes locks in this order: the session's own row, rows of shards by
//! number, parts, its lease, its lane. It reads what it decides by after the locks, in a later statement: a subquery beside a lock that was
//! waited for still sees what was there before. A fence marks the row that renewals change and the one that appends change. What a trim
//! removes is computed before it takes any lock: an old bound is always safe.

use std::collections::BTreeMap;

use abide_cluster::{
    Answer, Generation, Grant, Lsn, Outcome, Owner, Part, Peer, Run, SessionId, Shard, Statement,
    Tenancy, View,
};

/// All tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tables {
    sessions: BTreeMap<SessionId, Lane>,
    shards: BTreeMap<Shard, Row>,
    /// The parts that are not archived.
    parts: BTreeMap<(Shard, Generation), Part>,
    /// The contents of all runs.
    history: BTreeMap<Shard, Vec<Record>>,
    /// The last attempt of each data directory to begin a session.
    attempts: BTreeMap<usize, u64>,
    /// The number of the next session.
    next: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lane {
    node: usize,
    renewals: u64,
    is_fenced: bool,
    lsn: Lsn,
    archived: Lsn,
    listed: u64,
    log: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    owner: Option<SessionId>,
    generation: Generation,
    since: Lsn,
    floor: u64,
}

/// A record of a shard: one value that was added to the shard's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// The shard, and the generation of its writer's tenure.
    pub tenancy: Tenancy,
    /// The position after the record, in the writer's lane.
    pub end: Lsn,
    /// The value.
    pub value: u64,
}

impl Record {
    /// The bytes of a record in a log.
    pub const BYTES: u64 = 16;

    /// The record as bytes: all but its position.
    pub fn encode(&self) -> [u8; Self::BYTES as usize] {
        let mut bytes = [0; Self::BYTES as usize];
        bytes[..2].copy_from_slice(&self.tenancy.shard.0.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.tenancy.generation.0.to_le_bytes());
        bytes[6..14].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// The record with these bytes, which end at this position.
    pub fn decode(bytes: [u8; Self::BYTES as usize], end: Lsn) -> Self {
        let field = |range: std::ops::Range<usize>| {
            let mut number = [0; 8];
            number[..range.len()].copy_from_slice(&bytes[range]);
            u64::from_le_bytes(number)
        };
        Self {
            tenancy: Tenancy {
                shard: Shard(field(0..2) as u16),
                generation: Generation(field(2..6) as u32),
            },
            end,
            value: field(6..14),
        }
    }
}

/// After this many renewals of a session, the next one of its directory has its shards.
const KEPT_AFTER: u64 = 7;

impl Tables {
    /// Those of a new cluster.
    pub fn new(shards: u16) -> Self {
        let row = Row {
            owner: None,
            generation: Generation(0),
            since: Lsn(0),
            floor: 0,
        };
        Self {
            sessions: BTreeMap::new(),
            shards: (0..shards).map(|shard| (Shard(shard), row)).collect(),
            parts: BTreeMap::new(),
            history: BTreeMap::new(),
            attempts: BTreeMap::new(),
            next: 1,
        }
    }

    /// Begins a session, fences those that the same data directory began before, and gives it the shards of those that were live for long.
    /// None if the directory has made this attempt or a later one.
    pub fn start(&mut self, node: usize, attempt: u64, nonce: u128) -> Option<SessionId> {
        let last = self.attempts.get(&node).copied();
        if last >= Some(attempt) {
            return None;
        }
        self.attempts.insert(node, attempt);
        for lane in self.sessions.values_mut() {
            lane.is_fenced |= lane.node == node;
        }
        let number = self.next;
        self.next += 1;
        let session = SessionId { number, nonce };
        let lane = Lane {
            node,
            renewals: 0,
            is_fenced: false,
            lsn: Lsn(0),
            archived: Lsn(0),
            listed: 0,
            log: Vec::new(),
        };
        self.sessions.insert(session, lane);
        let of_node = self.shards.iter().filter(|(_, row)| {
            let lane = row.owner.and_then(|owner| self.sessions.get(&owner));
            lane.is_some_and(|lane| lane.node == node && lane.renewals >= KEPT_AFTER)
        });
        let of_node: Vec<Tenancy> = of_node
            .map(|(&shard, row)| Tenancy {
                shard,
                generation: row.generation,
            })
            .collect();
        for tenancy in of_node {
            self.claim(session, tenancy);
        }
        Some(session)
    }

    /// Executes a statement. `records` are those of the group, or of the run.
    pub fn execute(&mut self, me: SessionId, statement: &Statement, records: &[Record]) -> Outcome {
        let answer = match statement {
            Statement::Settle => self.settle(me),
            Statement::Poll => Some(Answer::View(self.view())),
            _ if !self.is_live(me) => None,
            Statement::Append { begin, end } => self.append(me, *begin, *end, records),
            Statement::Renew(number) => self.renew(me, *number),
            Statement::Fence { session, renewals } => self.fence(*session, *renewals),
            Statement::Leave => self.leave(me),
            Statement::Claim(tenancies) => {
                let granted = tenancies.iter().filter_map(|old| self.claim(me, *old));
                Some(Answer::Granted(granted.collect()))
            }
            Statement::Hold => self.hold(me),
            Statement::HandOver { tenancy, to, until } => self.hand_over(me, *tenancy, *to, *until),
            Statement::Publish { run, .. } => self.publish(me, run, records),
            Statement::Trim => self.trim(me),
        };
        answer.map_or(Outcome::Refused, Outcome::Done)
    }

    /// The records of a part that are in its lane.
    pub fn read(&self, shard: Shard, part: &Part) -> Vec<Record> {
        let generation = part.generation;
        let tenancy = Tenancy { shard, generation };
        let lane = self.sessions.get(&part.session);
        let log = lane.into_iter().flat_map(|lane| &lane.log);
        log.filter(|record| {
            record.tenancy == tenancy && record.end > part.since && record.end <= part.until
        })
        .copied()
        .collect()
    }

    /// The records of all parts that are in a run.
    pub fn inherited(&self, run: &Run) -> Vec<Record> {
        let parts = run.parts.iter();
        parts
            .flat_map(|(shard, part)| self.read(*shard, part))
            .collect()
    }

    /// What there is of a shard in runs and in these parts.
    pub fn left(&self, shard: Shard, parts: &[Part]) -> Vec<Record> {
        let tail = parts.iter().flat_map(|part| self.read(shard, part));
        self.history(shard).iter().copied().chain(tail).collect()
    }

    /// What the runs have of a shard, in the order of publication.
    pub fn history(&self, shard: Shard) -> &[Record] {
        self.history.get(&shard).map_or(&[], |records| records)
    }

    /// All values of a shard: those of its runs, of its parts, and of its owner's tenure.
    pub fn list(&self, shard: Shard) -> Vec<u64> {
        let parts = self.parts.iter().filter(|((of, _), _)| *of == shard);
        let mut records: Vec<Record> = self.history(shard).to_vec();
        records.extend(parts.flat_map(|(_, part)| self.read(shard, part)));
        if let Some(Row {
            owner: Some(session),
            generation,
            since,
            ..
        }) = self.shards.get(&shard).copied()
        {
            let until = Lsn(u64::MAX);
            records.extend(self.read(
                shard,
                &Part {
                    generation,
                    session,
                    since,
                    until,
                },
            ));
        }
        records.sort_by_key(|record| (record.tenancy.generation, record.end));
        records.dedup();
        records.iter().map(|record| record.value).collect()
    }

    /// The live owner of a shard.
    pub fn owner(&self, shard: Shard) -> Option<(usize, Tenancy)> {
        let row = self.shards.get(&shard)?;
        let lane = self.sessions.get(&row.owner?)?;
        let generation = row.generation;
        (!lane.is_fenced).then_some((lane.node, Tenancy { shard, generation }))
    }

    /// The sessions that are not fenced.
    pub fn live(&self) -> Vec<SessionId> {
        self.view().live().collect()
    }

    /// Records that are in logs.
    pub fn logged(&self) -> usize {
        self.sessions.values().map(|lane| lane.log.len()).sum()
    }

    /// Sessions that are not forgotten.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn is_live(&self, session: SessionId) -> bool {
        let lane = self.sessions.get(&session);
        lane.is_some_and(|lane| !lane.is_fenced)
    }

    fn owns(&self, session: SessionId, tenancy: Tenancy) -> bool {
        self.shards
            .get(&tenancy.shard)
            .is_some_and(|row| row.owner == Some(session) && row.generation == tenancy.generation)
    }

    fn settle(&self, me: SessionId) -> Option<Answer> {
        self.sessions.get(&me).map(|lane| Answer::Lane {
            lsn: lane.lsn,
            is_fenced: lane.is_fenced,
        })
    }

    fn view(&self) -> View {
        let peers = self.sessions.iter().map(|(session, lane)| {
            let peer = Peer {
                renewals: lane.renewals,
                lsn: lane.lsn,
                listed: lane.listed,
                is_fenced: lane.is_fenced,
            };
            (*session, peer)
        });
        let shards = self.shards.iter().map(|(shard, row)| {
            let owner = Owner {
                session: row.owner,
                generation: row.generation,
                since: row.since,
            };
            (*shard, owner)
        });
        View {
            peers: peers.collect(),
            shards: shards.collect(),
            ..View::default()
        }
    }

    fn append(&mut self, me: SessionId, begin: Lsn, end: Lsn, group: &[Record]) -> Option<Answer> {
        let lane = self.sessions.get_mut(&me)?;
        (lane.lsn == begin).then(|| {
            lane.lsn = end;
            lane.log.extend(group);
            Answer::Committed
        })
    }

    fn renew(&mut self, me: SessionId, number: u64) -> Option<Answer> {
        let lane = self.sessions.get_mut(&me)?;
        lane.renewals = lane.renewals.max(number);
        Some(Answer::Committed)
    }

    fn fence(&mut self, session: SessionId, renewals: u64) -> Option<Answer> {
        let lane = self.sessions.get_mut(&session)?;
        (lane.is_fenced || lane.renewals == renewals).then(|| {
            lane.is_fenced = true;
            Answer::Committed
        })
    }

    fn leave(&mut self, me: SessionId) -> Option<Answer> {
        self.sessions.get_mut(&me)?.is_fenced = true;
        Some(Answer::Committed)
    }

    fn claim(&mut self, me: SessionId, old: Tenancy) -> Option<Grant> {
        let row = *self.shards.get(&old.shard)?;
        let is_orphan = row.owner.is_none_or(|owner| !self.is_live(owner));
        if row.generation != old.generation || !is_orphan {
            return None;
        }
        let lane = row.owner.and_then(|owner| self.sessions.get(&owner));
        let until = lane.map_or(Lsn(0), |lane| lane.lsn);
        self.end_tenure(old.shard, row, until);
        self.give(old, me)
    }

    fn hold(&self, me: SessionId) -> Option<Answer> {
        let own = self.shards.iter().filter(|(_, row)| row.owner == Some(me));
        let grants = own.map(|(&shard, row)| {
            let generation = row.generation;
            self.grant(Tenancy { shard, generation })
        });
        Some(Answer::Held {
            archived: self.sessions.get(&me)?.archived,
            listed: self.sessions.get(&me)?.listed,
            grants: grants.collect(),
        })
    }

    fn hand_over(
        &mut self,
        me: SessionId,
        tenancy: Tenancy,
        to: SessionId,
        until: Lsn,
    ) -> Option<Answer> {
        let is_durable = self.sessions.get(&me)?.lsn >= until;
        if !self.owns(me, tenancy) || !is_durable || !self.is_live(to) {
            return None;
        }
        let row = *self.shards.get(&tenancy.shard)?;
        self.end_tenure(tenancy.shard, row, until);
        let grant = self.give(tenancy, to)?;
        Some(Answer::Granted(vec![grant]))
    }

    /// A tenure ends: what its owner has not archived becomes a part.
    fn end_tenure(&mut self, shard: Shard, row: Row, until: Lsn) {
        let Some(session) = row.owner else { return };
        if let Some(row) = self.shards.get_mut(&shard) {
            row.floor += until.0;
        }
        let lane = self.sessions.get(&session);
        let archived = lane.map_or(Lsn(0), |lane| lane.archived);
        let since = row.since.max(archived);
        let generation = row.generation;
        if since < until {
            let part = Part {
                generation,
                session,
                since,
                until,
            };
            self.parts.insert((shard, generation), part);
        }
    }

    fn give(&mut self, old: Tenancy, to: SessionId) -> Option<Grant> {
        let since = self.sessions.get(&to)?.lsn;
        let row = self.shards.get_mut(&old.shard)?;
        row.owner = Some(to);
        row.generation = old.generation.next();
        row.since = since;
        let generation = row.generation;
        let shard = old.shard;
        Some(self.grant(Tenancy { shard, generation }))
    }

    fn grant(&self, tenancy: Tenancy) -> Grant {
        let of_shard = (tenancy.shard, Generation(0))..=(tenancy.shard, Generation(u32::MAX));
        let row = self.shards.get(&tenancy.shard);
        Grant {
            tenancy,
            since: row.map_or(Lsn(0), |row| row.since),
            floor: row.map_or(0, |row| row.floor),
            parts: self.parts.range(of_shard).map(|(_, part)| *part).collect(),
        }
    }

    fn publish(&mut self, me: SessionId, run: &Run, records: &[Record]) -> Option<Answer> {
        let listed = self.sessions.get(&me)?.listed;
        if listed == run.number {
            return Some(Answer::Committed);
        }
        let has_tenures = run.tenancies.iter().all(|own| self.owns(me, *own));
        let has_parts = run.parts.iter().all(|(shard, part)| {
            let owner = self.shards.get(shard).and_then(|row| row.owner);
            owner == Some(me) && self.parts.contains_key(&(*shard, part.generation))
        });
        let is_next = listed == run.after;
        if !has_tenures || !has_parts || !is_next {
            return None;
        }
        for (shard, part) in &run.parts {
            self.parts.remove(&(*shard, part.generation));
        }
        for record in records {
            let history = self.history.entry(record.tenancy.shard).or_default();
            history.push(*record);
        }
        let lane = self.sessions.get_mut(&me)?;
        lane.archived = run.until;
        lane.listed = run.number;
        Some(Answer::Committed)
    }

    fn trim(&mut self, me: SessionId) -> Option<Answer> {
        let needed = self.parts.values().filter(|part| part.session == me);
        let needed = needed.map(|part| part.since).min();
        let lane = self.sessions.get_mut(&me)?;
        let bound = needed.map_or(lane.archived, |needed| needed.min(lane.archived));
        lane.log.retain(|record| record.end > bound);
        let (shards, parts) = (&self.shards, &self.parts);
        self.sessions.retain(|session, lane| {
            let owns = shards.values().any(|row| row.owner == Some(*session));
            let is_needed = parts.values().any(|part| part.session == *session);
            !lane.is_fenced || owns || is_needed
        });
        Some(Answer::Committed)
    }
}
