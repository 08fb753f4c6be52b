//! The class that adds up what the shards report.

use std::collections::BTreeMap;

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use super::ShardingError;
use crate::patterns::{limits, now};
use abide_component::{numbers::rows, tables};

/// The version of the tables, kept in `coordinator_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE coordinator_shards (
        shard       INTEGER PRIMARY KEY,
        timeline    TEXT NOT NULL,
        change      INTEGER NOT NULL,
        reported_at INTEGER NOT NULL,
        figures     TEXT NOT NULL
    );
    CREATE INDEX coordinator_reported ON coordinator_shards (reported_at);
    CREATE TABLE coordinator_totals (figure TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE coordinator_meta (version INTEGER NOT NULL, shards INTEGER);
";

/// The coordinator of a sharded namespace: its name is that of the namespace. A [`Sharded`](super::Sharded) asks it.
#[durable_object]
pub struct Coordinator {
    ctx: Ctx,
    sql: Sql,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator")
            .field("ctx", &self.ctx)
            .finish_non_exhaustive()
    }
}

/// The sums of what the shards have reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The sum of each figure.
    pub figures: BTreeMap<String, i64>,
    /// How many shards have reported.
    pub shards: u32,
    /// When the last report came, in milliseconds since 1970.
    pub reported_at: Option<i64>,
}

impl Totals {
    /// The sum of a figure; 0 if no shard has reported it.
    pub fn get(&self, figure: &str) -> i64 {
        self.figures.get(figure).copied().unwrap_or(0)
    }
}

#[derive(Deserialize)]
struct Known {
    timeline: String,
    change: i64,
    figures: String,
}

impl DurableObject for Coordinator {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        tables::prepare(
            ctx.storage(),
            "coordinator",
            "coordinator_meta",
            VERSION,
            |sql| sql.exec(TABLES, ()).map(drop),
        )?;
        let sql = ctx.sql();
        Ok(Self { ctx, sql })
    }
}

#[rpc]
impl Coordinator {
    /// Stores the number of shards at the first call; refuses another number later.
    pub async fn declare(&self, shards: u32) -> Result<(), ShardingError> {
        let known: Option<u32> = self
            .sql
            .exec("SELECT shards FROM coordinator_meta", ())?
            .one()?;
        match known {
            Some(known) if known == shards => Ok(()),
            Some(known) => Err(ShardingError::Declared {
                shards: known,
                wanted: shards,
            }),
            None => {
                super::sharded::check("any", shards)?;
                let update = "UPDATE coordinator_meta SET shards = ?1";
                self.sql.exec(update, (shards,))?;
                Ok(())
            }
        }
    }

    /// All figures of a shard, as of a change on a timeline of the shard. A report that is not newer than the last changes
    /// nothing.
    pub async fn report(
        &self,
        shard: u32,
        timeline: String,
        change: i64,
        figures: BTreeMap<String, i64>,
    ) -> Result<(), ShardingError> {
        if shard >= limits::MAX_SHARDS || figures.len() > limits::MAX_FIGURES {
            let wrong = format!(
                "shard {shard} has reported {} figures: too many",
                figures.len()
            );
            return Err(ShardingError::Invalid(wrong));
        }
        let select = "SELECT timeline, change, figures FROM coordinator_shards WHERE shard = ?1";
        let known: Option<Known> = self.sql.exec(select, (shard,))?.optional()?;
        let before: BTreeMap<String, i64> = match &known {
            Some(known) if (&known.timeline, known.change) >= (&timeline, change) => {
                return Ok(());
            }
            Some(known) => serde_json::from_str(&known.figures).map_err(Error::from_std)?,
            None => BTreeMap::new(),
        };
        let text = serde_json::to_string(&figures).map_err(Error::from_std)?;
        self.ctx.storage().transaction(|| {
            for (figure, value) in &figures {
                let more = i128::from(*value) - i128::from(before.get(figure).copied().unwrap_or(0));
                self.add(figure, more)?;
            }
            for (figure, value) in before.iter().filter(|(figure, _)| !figures.contains_key(*figure)) {
                self.add(figure, -i128::from(*value))?;
            }
            let replace = "INSERT OR REPLACE INTO coordinator_shards (shard, timeline, change, reported_at, figures)
                VALUES (?1, ?2, ?3, ?4, ?5)";
            let row = (shard, timeline, change, now(&self.ctx), text);
            self.sql.exec(replace, row)?;
            Ok(())
        })
    }

    /// The sums of what the shards have reported.
    pub async fn totals(&self) -> Result<Totals, ShardingError> {
        let select = "SELECT figure, value FROM coordinator_totals LIMIT ?1";
        let most = limits::MAX_TOTALS;
        let figures: Vec<(String, i64)> = self.sql.exec(select, (rows(most + 1),))?.all()?;
        if figures.len() > most {
            let wrong = format!(
                "the shards have more than {most} different figures: give the same figure the same name in all of them"
            );
            return Err(ShardingError::Invalid(wrong));
        }
        let select = "SELECT count(*), max(reported_at) FROM coordinator_shards";
        let (shards, reported_at) = self.sql.exec(select, ())?.one()?;
        Ok(Totals {
            figures: figures.into_iter().collect(),
            shards,
            reported_at,
        })
    }
}

impl Coordinator {
    /// Sums of more than 64 bits are refused, and the shard reports again and again, so that an operator sees it.
    fn add(&self, figure: &str, more: i128) -> Result<(), ShardingError> {
        let select = "SELECT value FROM coordinator_totals WHERE figure = ?1";
        let before: Option<i64> = self.sql.exec(select, (figure,))?.optional()?;
        let sum = i64::try_from(i128::from(before.unwrap_or(0)) + more).map_err(|_| {
            ShardingError::Invalid(format!("the total of `{figure}` is more than 64 bits"))
        })?;
        if sum == 0 {
            // So that figures that no shard has any more leave nothing.
            let delete = "DELETE FROM coordinator_totals WHERE figure = ?1";
            self.sql.exec(delete, (figure,))?;
            return Ok(());
        }
        let upsert = "INSERT OR REPLACE INTO coordinator_totals (figure, value) VALUES (?1, ?2)";
        self.sql.exec(upsert, (figure, sum))?;
        Ok(())
    }
}
