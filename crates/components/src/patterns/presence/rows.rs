//! The present visitors, as rows.

use abide::{Ctx, Result};
use serde::{Deserialize, Serialize};

use abide_component::tables::{self, TablesSql};

const META: &str = "presence_meta";

/// The version of the tables, kept in `presence_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE presence (who TEXT PRIMARY KEY, since INTEGER NOT NULL, seen_at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX presence_seen ON presence (seen_at);
    CREATE TABLE presence_meta (version INTEGER NOT NULL);
";

/// A visitor who is present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// Who.
    pub who: String,
    /// Since when, in milliseconds since 1970.
    pub since: i64,
    /// Their last stored heartbeat, in milliseconds since 1970.
    pub seen_at: i64,
}

pub(super) struct Rows(TablesSql);

impl Rows {
    pub(super) fn open(ctx: &Ctx) -> Result<Self> {
        let sql = TablesSql::open(ctx, META, |storage| {
            tables::prepare(storage, "presence", META, VERSION, |sql| {
                sql.exec(TABLES, ()).map(drop)
            })
        })?;
        Ok(Self(sql))
    }

    pub(super) fn seen_at(&self, who: &str) -> Result<Option<i64>> {
        let select = "SELECT seen_at FROM presence WHERE who = ?1";
        self.0.exec(select, (who,))?.optional()
    }

    pub(super) fn seen(&self, who: &str, at: i64) -> Result<()> {
        let update = "UPDATE presence SET seen_at = max(seen_at, ?2) WHERE who = ?1";
        self.0.exec(update, (who, at)).map(drop)
    }

    pub(super) fn insert(&self, who: &str, at: i64) -> Result<()> {
        let insert = "INSERT INTO presence (who, since, seen_at) VALUES (?1, ?2, ?2)";
        self.0.exec(insert, (who, at)).map(drop)
    }

    pub(super) fn remove(&self, who: &str) -> Result<bool> {
        let delete = "DELETE FROM presence WHERE who = ?1 RETURNING 1";
        Ok(!self.0.exec(delete, (who,))?.is_empty())
    }

    /// Removes visitors that were not seen after a time.
    pub(super) fn remove_silent(&self, until: i64) -> Result<Vec<String>> {
        let delete = "DELETE FROM presence WHERE seen_at <= ?1 RETURNING who";
        self.0.exec(delete, (until,))?.all()
    }

    /// No heartbeat is later than now: one that is came before the clock was set back.
    pub(super) fn not_after(&self, now: i64) -> Result<()> {
        let select = "SELECT count(*) FROM presence WHERE seen_at > ?1";
        if self.0.exec(select, (now,))?.one::<i64>()? > 0 {
            let update = "UPDATE presence SET seen_at = ?1 WHERE seen_at > ?1";
            self.0.exec(update, (now,))?;
        }
        Ok(())
    }

    pub(super) fn oldest(&self) -> Result<Option<i64>> {
        self.0.exec("SELECT min(seen_at) FROM presence", ())?.one()
    }

    pub(super) fn count(&self) -> Result<i64> {
        self.0.exec("SELECT count(*) FROM presence", ())?.one()
    }

    pub(super) fn all(&self) -> Result<Vec<Present>> {
        let select = "SELECT who, since, seen_at FROM presence ORDER BY who";
        self.0.exec(select, ())?.all()
    }
}
