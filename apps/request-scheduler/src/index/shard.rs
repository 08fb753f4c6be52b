//! A share of the index.

use std::collections::BTreeMap;

use abide::prelude::*;

use super::ListFilter;
use crate::{Entry, limits};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS entries (
        id         TEXT PRIMARY KEY,
        created_at INTEGER NOT NULL,
        state      TEXT NOT NULL,
        entry      TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS entries_newest ON entries (created_at DESC, id DESC);
    CREATE INDEX IF NOT EXISTS entries_state ON entries (state, created_at DESC, id DESC);

    -- So that rows need not be counted.
    CREATE TABLE IF NOT EXISTS counts (
        state TEXT PRIMARY KEY,
        count INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TRIGGER IF NOT EXISTS entry_added AFTER INSERT ON entries BEGIN
        INSERT INTO counts VALUES (new.state, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER IF NOT EXISTS entry_removed AFTER DELETE ON entries BEGIN
        UPDATE counts SET count = count - 1 WHERE state = old.state;
    END;
    CREATE TRIGGER IF NOT EXISTS entry_moved AFTER UPDATE OF state ON entries WHEN old.state <> new.state BEGIN
        UPDATE counts SET count = count - 1 WHERE state = old.state;
        INSERT INTO counts VALUES (new.state, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
";

/// The requests whose ids hash to this object.
#[durable_object]
pub struct RequestIndex {
    ctx: Ctx,
}

impl DurableObject for RequestIndex {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        ctx.sql().exec(TABLES, ())?;
        Ok(Self { ctx })
    }
}

#[rpc]
impl RequestIndex {
    /// Notes where a request is.
    pub async fn put(&self, entry: Entry) -> Result<()> {
        let text = serde_json::to_string(&entry).map_err(Error::from_std)?;
        self.ctx.sql().exec(
            "INSERT INTO entries (id, created_at, state, entry) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at, state = excluded.state, entry = excluded.entry",
            (&entry.id, entry.created_at, entry.state.as_str(), text),
        )?;
        Ok(())
    }

    /// Forgets a request.
    pub async fn remove(&self, id: String) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec("DELETE FROM entries WHERE id = ?1", (id,))?;
        Ok(())
    }

    /// A page, newest first, and one row more if there is one.
    pub async fn list(&self, filter: ListFilter) -> Result<Vec<Entry>> {
        let sql = self.ctx.sql();
        let (created_at, id) = match &filter.before {
            Some(place) => (place.created_at, &*place.id),
            None => (i64::MAX, ""),
        };
        let rows = filter.limit.clamp(1, limits::MAX_PAGE) + 1;
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let found: Vec<String> = match filter.state {
            Some(state) => sql.exec(
                "SELECT entry FROM entries WHERE state = ?1 AND (created_at, id) < (?2, ?3)
                 ORDER BY created_at DESC, id DESC LIMIT ?4",
                (state.as_str(), created_at, id, rows),
            ),
            None => sql.exec(
                "SELECT entry FROM entries WHERE (created_at, id) < (?1, ?2)
                 ORDER BY created_at DESC, id DESC LIMIT ?3",
                (created_at, id, rows),
            ),
        }?
        .all()?;
        found
            .iter()
            .map(|text| serde_json::from_str(text).map_err(Error::from_std))
            .collect()
    }

    /// How many requests are in each state.
    pub async fn counts(&self) -> Result<BTreeMap<String, i64>> {
        let sql = self.ctx.sql();
        let counts: Vec<(String, i64)> = sql.exec("SELECT state, count FROM counts", ())?.all()?;
        Ok(counts.into_iter().collect())
    }
}
