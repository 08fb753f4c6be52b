//! Where a node keeps the lists of its shards.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use abide_cluster::{Lsn, SessionId, Shard, Tenancy};

use crate::tables::Record;

/// The lists of the shards that a node owns, as its clients see them.
pub trait Lists: Debug + Default {
    /// Takes over a shard, which was claimed at a position of the node's own log. `records` are all that there are of it, oldest
    /// first.
    ///
    /// # Errors
    /// What is taken over is not what the records say.
    fn adopt(
        &mut self,
        tenancy: Tenancy,
        since: Lsn,
        records: &[Record],
        logs: &Logs,
    ) -> Result<(), String>;

    /// Adds a value to a list. Returns the bytes of the record in the log.
    fn add(&mut self, tenancy: Tenancy, value: u64) -> u64;

    /// The list of a shard.
    fn list(&self, shard: Shard) -> Vec<u64>;

    /// Nothing is added to a shard any more. Returns the end of the log, if the log knows it.
    fn close(&mut self, shard: Shard) -> Option<Lsn>;

    /// What was logged since the last call.
    fn ship(&mut self) -> Vec<Arc<[u8]>>;

    /// The database has all records before this position.
    fn durable_up_to(&mut self, until: Lsn);

    /// Work that has no effect on lists.
    fn maintain(&mut self);
}

/// The logs of all sessions, with records that the database has never received.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    parts: BTreeMap<SessionId, Vec<Arc<[u8]>>>,
    /// Who had each tenure, and since which position of its log.
    tenures: BTreeMap<Tenancy, (SessionId, Lsn)>,
}

impl Logs {
    /// A session logs this.
    pub fn add(&mut self, session: SessionId, parts: Vec<Arc<[u8]>>) {
        self.parts.entry(session).or_default().extend(parts);
    }

    /// A session begins a tenure.
    pub fn begin(&mut self, tenancy: Tenancy, session: SessionId, since: Lsn) {
        self.tenures.insert(tenancy, (session, since));
    }

    /// Where a tenure began, and the log of its session.
    pub fn of(&self, tenancy: Tenancy) -> Option<(Lsn, &[Arc<[u8]>])> {
        let (session, since) = self.tenures.get(&tenancy)?;
        let parts = self.parts.get(session).map_or(&[][..], Vec::as_slice);
        Some((*since, parts))
    }
}

/// Lists in memory, with records of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InMemory(BTreeMap<Shard, Vec<u64>>);

impl Lists for InMemory {
    fn adopt(
        &mut self,
        tenancy: Tenancy,
        _: Lsn,
        records: &[Record],
        _: &Logs,
    ) -> Result<(), String> {
        let list = records.iter().map(|record| record.value).collect();
        self.0.insert(tenancy.shard, list);
        Ok(())
    }

    fn add(&mut self, tenancy: Tenancy, value: u64) -> u64 {
        self.0.entry(tenancy.shard).or_default().push(value);
        Record::BYTES
    }

    fn list(&self, shard: Shard) -> Vec<u64> {
        self.0.get(&shard).cloned().unwrap_or_default()
    }

    fn close(&mut self, _: Shard) -> Option<Lsn> {
        None
    }

    fn ship(&mut self) -> Vec<Arc<[u8]>> {
        Vec::new()
    }

    fn durable_up_to(&mut self, _: Lsn) {}

    fn maintain(&mut self) {}
}
