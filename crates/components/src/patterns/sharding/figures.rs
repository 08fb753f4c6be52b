//! The shard's side: figures that change with the shard's state, and are reported.

use std::{collections::BTreeMap, rc::Rc};

use abide::{Ctx, Result, Stub};

use super::{Coordinator, ShardingError, ShardingOptions, sharded};
use crate::patterns::{limits, now, wrong_length};
use abide_component::{
    WakeUp,
    numbers::{millis, rows},
    tables::{self, TablesSql},
};

/// The alarm that reports.
const ALARM: &str = "figures";

const META: &str = "figures_meta";

/// The version of the tables, kept in `figures_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE figures (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE figures_meta (version INTEGER NOT NULL, change INTEGER NOT NULL DEFAULT 0);
";

/// The figures of a shard. Clones are the same figures.
#[derive(Clone, Debug)]
pub struct Figures(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    ctx: Ctx,
    options: ShardingOptions,
    alarm: WakeUp,
    sql: TablesSql,
    shard: u32,
    coordinator: Stub<Coordinator>,
}

impl Figures {
    /// Opens the figures of a shard, in its constructor; makes their tables, whose names begin with `figures`, when there
    /// are none. They have the object's alarm `figures`.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](abide::ErrorKind::Input) if the object is no shard, if an option is invalid or the object has
    /// figures already; and one that says so if the coordinators' class is not [installed](super::install).
    pub fn open(ctx: &Ctx, options: ShardingOptions) -> Result<Self> {
        options.check()?;
        let name = ctx.name().unwrap_or_default();
        let place = name
            .rsplit_once('/')
            .and_then(|(sharded, shard)| Some((sharded, shard.parse::<u32>().ok()?)))
            // `likes/07` would be another object that reports as shard 7.
            .filter(|(sharded, shard)| format!("{sharded}/{shard}") == name);
        let Some((sharded, shard)) = place else {
            let wrong = format!("`{name}` is not a shard: reach it by a `Sharded`");
            return Err(ShardingError::Invalid(wrong).into());
        };
        sharded::check(sharded, shard.saturating_add(1))?;
        let coordinators = ctx.env().try_object::<Coordinator>()?;
        let sql = TablesSql::open(ctx, META, |storage| {
            tables::prepare(storage, "figures", META, VERSION, |sql| {
                sql.exec(TABLES, ()).map(drop)
            })
        })?;
        let inner = Rc::new(Inner {
            alarm: WakeUp::new(ctx, ALARM),
            sql,
            coordinator: coordinators.get_by_name(sharded),
            ctx: ctx.clone(),
            options,
            shard,
        });
        let reporting = Rc::clone(&inner);
        ctx.on_alarm(ALARM, move |_| {
            let inner = Rc::clone(&reporting);
            async move { inner.report().await }
        })?;
        let restored = Rc::clone(&inner);
        // The coordinator has the figures of the undone future.
        ctx.on_timeline(move |_| restored.alarm.set(Some(now(&restored.ctx))));
        Ok(Self(inner))
    }

    /// Adds to a figure, in the transaction of the current poll. Returns its value.
    pub fn add(&self, figure: &str, amount: i64) -> Result<i64, ShardingError> {
        let value = self.get(figure)?.checked_add(amount).ok_or_else(|| {
            ShardingError::Invalid(format!(
                "figure `{figure}` and {amount} are more than 64 bits"
            ))
        })?;
        self.set(figure, value)?;
        Ok(value)
    }

    /// Sets a figure, in the transaction of the current poll.
    pub fn set(&self, figure: &str, value: i64) -> Result<(), ShardingError> {
        let inner = &self.0;
        if let Some(wrong) = wrong_length("the figure's name", figure, limits::MAX_FIGURE_BYTES) {
            return Err(ShardingError::Invalid(wrong));
        }
        let known = inner.all()?;
        if known.get(figure) == Some(&value) {
            return Ok(());
        }
        if !known.contains_key(figure) && known.len() >= limits::MAX_FIGURES {
            let max = limits::MAX_FIGURES;
            return Err(ShardingError::Invalid(format!(
                "a shard has at most {max} figures"
            )));
        }
        let now = now(&inner.ctx);
        let upsert = "INSERT INTO figures (name, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
        inner.sql.exec(upsert, (figure, value))?;
        let change = "UPDATE figures_meta SET change = max(change + 1, ?1)";
        inner.sql.exec(change, (now,))?;
        if inner.alarm.get()?.is_none() {
            let at = now.saturating_add(millis(inner.options.report_after));
            inner.alarm.set(Some(at))?;
        }
        Ok(())
    }

    /// The value of a figure; 0 if it was never set.
    pub fn get(&self, figure: &str) -> Result<i64> {
        let select = "SELECT value FROM figures WHERE name = ?1";
        let value = self.0.sql.exec(select, (figure,))?.optional()?;
        Ok(value.unwrap_or(0))
    }
}

impl Inner {
    fn all(&self) -> Result<BTreeMap<String, i64>> {
        let select = "SELECT name, value FROM figures LIMIT ?1";
        let all: Vec<(String, i64)> = self.sql.exec(select, (rows(limits::MAX_FIGURES),))?.all()?;
        Ok(all.into_iter().collect())
    }

    /// The alarm. A change during the report sets the next alarm.
    async fn report(&self) -> Result<()> {
        let change = self
            .sql
            .exec("SELECT change FROM figures_meta", ())?
            .one()?;
        let timeline = self.ctx.timeline().id().to_string();
        let told = self
            .coordinator
            .report(self.shard, timeline, change, self.all()?);
        Ok(told.await?)
    }
}
