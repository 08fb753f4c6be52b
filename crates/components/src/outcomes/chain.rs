//! The chain: rows that are appended and read in order, and never changed.

use std::sync::Arc;

use abide::{Result, Storage};
use abide_component::tables::TablesSql;

use super::{
    Entry, Machine, Schema, Until, limits,
    reached::{Reached, Stored, damaged, forward},
};

/// The chain of one object.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) schema: Arc<Schema>,
    pub(super) storage: Storage,
    pub(super) sql: TablesSql,
}

impl Chain {
    pub(super) fn new(schema: Arc<Schema>, storage: &Storage, sql: TablesSql) -> Self {
        Self {
            schema,
            storage: storage.clone(),
            sql,
        }
    }

    /// The number of the last outcome; 0 if there is none.
    pub(super) fn last(&self) -> Result<i64> {
        let last = "SELECT coalesce(max(seq), 0) FROM outcomes";
        self.sql.exec(last, ())?.one()
    }

    pub(super) fn append(&self, entry: &Entry) -> Result<()> {
        self.sql.exec(
            "INSERT INTO outcomes (seq, action, outcome, version, data, ts) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                entry.seq,
                &entry.action,
                &entry.outcome,
                entry.version,
                entry.json(),
                entry.ts,
            ),
        )?;
        Ok(())
    }

    /// Replays from a position in the chain, one outcome in memory at a time, and shows each with the state that it led
    /// to.
    pub(super) fn replay<M: Machine>(
        &self,
        reached: &mut Reached<M>,
        until: Until,
        mut each: impl FnMut(&Entry, &Reached<M>) -> Result<()>,
    ) -> Result<()> {
        let (seq, ts) = until.bounds();
        self.sql.get()?.for_each(
            "SELECT seq, action, outcome, version, data, ts FROM outcomes
             WHERE seq > ?1 AND seq <= ?2 AND ts <= ?3 ORDER BY seq",
            (reached.seq, seq, ts),
            |row| {
                let stored: Stored = row
                    .get()
                    .map_err(|error| damaged(&self.schema, reached.seq + 1, error.message()))?;
                let entry = reached.step(&self.schema, stored)?;
                each(&entry, reached)
            },
        )
    }

    /// Outcomes after one, oldest first, upcast.
    pub(super) fn history<M: Machine>(&self, after: i64, limit: usize) -> Result<Vec<Entry>> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        self.sql.get()?.for_each(
            "SELECT seq, action, outcome, version, data, ts FROM outcomes WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            (after, limit.min(limits::MAX_PAGE).cast_signed() as i64),
            |row| {
                if bytes < limits::MAX_PAGE_BYTES {
                    let stored: Stored = row.get()?;
                    let seq = stored.0;
                    let entry = forward::<M>(stored)
                        .map_err(|error| damaged(&self.schema, seq, error.message()))?;
                    bytes += entry.json().len();
                    page.push(entry);
                }
                Ok(())
            },
        )?;
        Ok(page)
    }
}
