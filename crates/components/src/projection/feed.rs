//! The feed: an object's rows that wait for the queue.
//!
//! Contract: a row is put in the transaction of the change that it reflects, and stays in the object until the queue
//! has accepted it. Only the newest change of a row waits. Whatever happens to the queue or the read model, putting a
//! row succeeds.
//!
//! Rows that the queue has accepted are kept, too: after a restore the object sends all of them again, as of the restored
//! state, and the read model removes the others.

use std::{fmt, rc::Rc, sync::Arc, time::Duration};

use abide::{Ctx, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Begun, Projection, ProjectionError, Row, limits, row::Sent};
use crate::queue::{Queue, QueueError, QueueMessage};
use abide_component::numbers::{millis, rows};
use abide_component::worker::{May, Next, Turn, Work, Worker};
use abide_component::{
    WakeUp,
    tables::{self, TablesSql},
};

/// The name of its alarm.
pub(super) const NAME: &str = "projection";

const META: &str = "projection_meta";

/// The version of the tables, kept in `projection_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE projection_feed (
        tbl  TEXT NOT NULL,
        id   TEXT NOT NULL,
        seq  INTEGER NOT NULL,
        at   INTEGER NOT NULL,
        data TEXT NOT NULL,
        -- 1 while the row waits for the queue.
        waits INTEGER NOT NULL DEFAULT 1,
        PRIMARY KEY (tbl, id)
    ) WITHOUT ROWID;
    CREATE INDEX projection_waiting ON projection_feed (tbl, id, at) WHERE waits = 1;
    CREATE TABLE projection_meta (
        version    INTEGER NOT NULL,
        failures   INTEGER NOT NULL DEFAULT 0,
        last_error TEXT,
        -- 1 while the read model is to be told of the object's timeline.
        begun      INTEGER NOT NULL DEFAULT 0,
        -- The object that the rows are of.
        source     TEXT NOT NULL DEFAULT '{source}'
    );
";

/// The feed of an object. Clones refer to the same feed. An object has only one.
#[derive(Clone)]
pub struct Feed(Rc<Inner>);

struct Inner {
    ctx: Ctx,
    /// Sends the rows.
    worker: Worker,
    projection: Arc<Projection>,
    sql: TablesSql,
}

/// Where a feed is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FeedStanding {
    /// The queue that leads to the read model.
    pub queue: String,
    /// Rows that wait for the queue.
    pub waiting: u64,
    /// When the oldest of them was put, in milliseconds since 1970.
    pub oldest: Option<i64>,
    /// How often in a row the queue has refused.
    pub failures: u64,
    /// Why, the last time; `None` once it takes rows again.
    pub last_error: Option<String>,
    /// When it is asked again, in milliseconds since 1970.
    pub retry_at: Option<i64>,
}

/// A row that waits, without its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitingRow {
    /// The table.
    pub table: String,
    /// The row's id.
    pub id: String,
    /// The change that it shows.
    pub seq: i64,
    /// When it was put, in milliseconds since 1970.
    pub at: i64,
}

/// A row that waits.
#[derive(Deserialize)]
struct Waiting {
    tbl: String,
    id: String,
    seq: i64,
    at: i64,
    data: String,
}

impl Feed {
    /// Opens the feed of an object, in its constructor; creates its tables, whose names begin with `projection_`, if
    /// they do not exist. Its rows go to the [`Projection`] that the host was given with `with(projection)`. It uses the
    /// object's alarm `projection`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](abide::ErrorKind::NotFound) if the host was given no projection,
    /// [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) if this program does not know the version of the tables.
    pub fn open(ctx: &Ctx) -> Result<Self> {
        let projection = ctx.env().require::<Projection>()?;
        let source = ctx.id().to_string();
        let sql = TablesSql::open(ctx, META, move |storage| {
            tables::prepare(storage, "feed", META, VERSION, |sql| {
                let tables = TABLES.replace("{source}", &source);
                sql.exec(&tables, ()).map(drop)
            })
        })?;
        let feed = Self(Rc::new(Inner {
            ctx: ctx.clone(),
            sql,
            worker: Worker::new(ctx, WakeUp::new(ctx, NAME)),
            projection,
        }));
        let asked = feed.clone();
        let holds = move || Ok(asked.0.sql.are_there()? && asked.has_work()?);
        ctx.has_duties(NAME, holds);
        let woken = feed.clone();
        ctx.on_alarm(NAME, move |_| std::future::ready(woken.go_on_now()))?;
        #[cfg(feature = "server")]
        feed.serve_operators(ctx)?;
        let told = feed.clone();
        ctx.on_timeline(move |_| told.send_again());
        let activated = feed.clone();
        ctx.on_activation(move |_| {
            if activated.has_work()? {
                let now = activated.0.now();
                activated.0.worker.alarm().set(Some(now))?;
            }
            Ok(())
        });
        // A dormant object's feed waits for the activation, after which the object starts anew.
        if feed.has_work()? && feed.0.worker.alarm().get()?.is_none() {
            feed.go_on()?;
        }
        Ok(feed)
    }

    /// Puts a row, in the transaction of the current poll: `values` are its columns, a struct or a map. `seq` increases
    /// with each change of the row. A waiting row with a later change is left unchanged.
    ///
    /// # Errors
    /// [`ProjectionError::Invalid`] if the row does not match its table, which a program's tests should catch;
    /// otherwise only the errors of any write of the object.
    pub fn put(
        &self,
        table: &str,
        id: impl Into<String>,
        seq: i64,
        values: &(impl Serialize + ?Sized),
    ) -> Result<(), ProjectionError> {
        let inner = &self.0;
        let values = match serde_json::to_value(values) {
            Ok(Json::Object(values)) => values,
            Ok(_) => {
                return Err(ProjectionError::Invalid(format!(
                    "a row of table `{table}` must be a struct or a map of its columns"
                )));
            }
            Err(error) => return Err(ProjectionError::Invalid(error.to_string())),
        };
        let row = Row {
            table: table.to_owned(),
            id: id.into(),
            source: inner.ctx.id().to_string(),
            timeline: inner.ctx.timeline().id().to_string(),
            seq,
            at: inner.now(),
            values,
        };
        row.check(inner.projection.tables.get(table)?)?;
        let data = serde_json::to_string(&row.values).map_err(Error::from_std)?;
        if data.len() > limits::MAX_ROW_BYTES {
            return Err(ProjectionError::Invalid(format!(
                "row `{}` of table `{table}` has {} bytes; at most {} are accepted",
                row.id,
                data.len(),
                limits::MAX_ROW_BYTES
            )));
        }
        inner.sql.exec(
            "INSERT INTO projection_feed (tbl, id, seq, at, data) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET seq = excluded.seq, at = excluded.at, data = excluded.data, waits = 1
             WHERE excluded.seq >= seq",
            (table, &row.id, seq, row.at, data),
        )?;
        Ok(self.go_on()?)
    }

    /// How many rows wait for the queue.
    pub fn waiting(&self) -> Result<u64> {
        let count: i64 = self
            .0
            .sql
            .exec("SELECT count(*) FROM projection_feed WHERE waits = 1", ())?
            .one()?;
        Ok(count.unsigned_abs())
    }

    /// True if something waits for the queue.
    fn has_work(&self) -> Result<bool> {
        let sql = &self.0.sql;
        let waits = "SELECT EXISTS (SELECT 1 FROM projection_feed WHERE waits = 1)
            OR (SELECT begun FROM projection_meta)";
        sql.exec(waits, ())?.one()
    }

    /// The object is on a new timeline: it sends all its rows, as of its present state, and the read model removes those
    /// that it does not send. Rows that a fork has inherited show its original.
    fn send_again(&self) -> Result<()> {
        let sql = &self.0.sql;
        let own = self.0.ctx.id().to_string();
        let source: String = sql.exec("SELECT source FROM projection_meta", ())?.one()?;
        if source != own {
            sql.exec("DELETE FROM projection_feed", ())?;
            sql.exec("UPDATE projection_meta SET source = ?1", (own,))?;
        }
        sql.exec(
            "UPDATE projection_feed SET waits = 1 WHERE waits = 0;
             UPDATE projection_meta SET begun = 1, failures = 0",
            (),
        )?;
        self.go_on()
    }

    /// Where it is: what waits for the queue, and why.
    pub fn standing(&self) -> Result<FeedStanding> {
        let inner = &self.0;
        let sql = &inner.sql;
        let (waiting, oldest): (i64, Option<i64>) = sql
            .exec(
                "SELECT count(*), min(at) FROM projection_feed WHERE waits = 1",
                (),
            )?
            .one()?;
        let (failures, last_error): (i64, Option<String>) = sql
            .exec("SELECT failures, last_error FROM projection_meta", ())?
            .one()?;
        Ok(FeedStanding {
            queue: inner.projection.queue.clone(),
            waiting: waiting.unsigned_abs(),
            oldest,
            failures: failures.unsigned_abs(),
            last_error: last_error.filter(|_| failures > 0),
            retry_at: if failures > 0 {
                inner.worker.alarm().get()?
            } else {
                None
            },
        })
    }

    /// The waiting rows, by table and id, from the first after another: without their values, at most `limit` and at
    /// most [`limits::MAX_PAGE`].
    pub fn rows(&self, after: Option<(&str, &str)>, limit: usize) -> Result<Vec<WaitingRow>> {
        let (table, id) = after.unwrap_or_default();
        let sql = &self.0.sql;
        let listed = "SELECT tbl AS \"table\", id, seq, at FROM projection_feed
             WHERE waits = 1 AND (tbl, id) > (?1, ?2) ORDER BY tbl, id LIMIT ?3";
        sql.exec(listed, (table, id, rows(limit.min(limits::MAX_PAGE))))?
            .all()
    }

    /// Hands over at once what waits, also after the queue has refused.
    pub fn retry(&self) -> Result<()> {
        if !self.has_work()? {
            return Ok(());
        }
        self.go_on_now()
    }

    #[cfg(feature = "server")]
    pub(super) fn env(&self) -> &abide::Env {
        self.0.ctx.env()
    }

    /// Starts a task that sends rows, unless the queue has just refused and the feed is paused.
    fn go_on(&self) -> Result<()> {
        let now = self.0.now();
        // A time later than any pause was set by a clock that was set back since.
        let latest = now.saturating_add(millis(limits::MAX_PAUSE));
        let set = self.0.worker.alarm().get()?;
        let waits = set.is_some_and(|at| at > now && at <= latest);
        if waits && (self.0.worker.is_running() || self.0.failures()? > 0) {
            return Ok(());
        }
        self.go_on_now()
    }

    /// Starts a task that sends rows: now, and by the alarm in case the task stops.
    fn go_on_now(&self) -> Result<()> {
        let inner = &self.0;
        inner.worker.guard(limits::RECOVERY)?;
        // A task that runs looks for rows whenever the queue has answered, and pauses if it has refused.
        if !inner.worker.is_running() {
            inner.worker.kick(|| Sending(Rc::clone(inner)));
        }
        Ok(())
    }
}

/// What a task of a feed does: it sends rows to the queue until none waits, or the queue refuses. Nothing is claimed: a
/// row waits until the queue has accepted it.
struct Sending(Rc<Inner>);

/// Rows, and whether the queue has accepted them.
type Answered = (Vec<Waiting>, Result<(), QueueError>);

impl Work for Sending {
    type Claim = ();
    type Landed = Answered;

    /// The pause of a feed that was refused is the alarm's.
    const SOON: Duration = Duration::ZERO;

    fn has_tables(&self) -> Result<bool> {
        self.0.sql.are_there()
    }

    fn turn(&mut self, landed: &mut Vec<Answered>, turn: Turn) -> Result<Next<(), Answered>> {
        let inner = &self.0;
        while let Some((rows, sent)) = landed.first() {
            match sent {
                Ok(()) => inner.taken(rows)?,
                Err(error) => {
                    let again = inner.refused(error)?;
                    landed.clear();
                    return Ok(Next::at(Some(again)));
                }
            }
            drop(landed.remove(0));
        }
        if turn.in_flight > 0 || turn.may == May::HandOver {
            return Ok(Next::at(None));
        }
        let (waiting, begun) = (inner.first()?, inner.begun()?);
        if waiting.is_empty() && begun.is_none() {
            inner.note_failures(0)?;
            return Ok(Next::at(None));
        }
        if turn.may == May::Finish {
            return Ok(Next::at(Some(turn.now)));
        }
        let mut next = Next::at(None);
        next.attempts
            .push(Box::pin(Rc::clone(inner).hand_over(waiting, begun)));
        Ok(next)
    }
}

impl Inner {
    async fn hand_over(self: Rc<Self>, waiting: Vec<Waiting>, begun: Option<Begun>) -> Answered {
        let sent = match Queue::new(self.ctx.env(), &self.projection.queue) {
            Ok(queue) => self.send(&queue, begun, &waiting).await,
            Err(error) => Err(error),
        };
        (waiting, sent)
    }

    fn first(&self) -> Result<Vec<Waiting>> {
        self.ctx
            .sql()
            .exec(
                "SELECT tbl, id, seq, at, data FROM projection_feed WHERE waits = 1 LIMIT ?1",
                (rows(limits::FEED_BATCH),),
            )?
            .all()
    }

    /// The object's timeline, if the read model is to be told of it.
    fn begun(&self) -> Result<Option<Begun>> {
        let sql = &self.sql;
        let is_due: bool = sql.exec("SELECT begun FROM projection_meta", ())?.one()?;
        Ok(is_due.then(|| Begun {
            source: self.ctx.id().to_string(),
            timeline: self.ctx.timeline().id().to_string(),
        }))
    }

    async fn send(
        &self,
        queue: &Queue,
        begun: Option<Begun>,
        waiting: &[Waiting],
    ) -> Result<(), QueueError> {
        let mut messages = Vec::with_capacity(waiting.len() + 1);
        if let Some(begun) = begun {
            let source = begun.source.clone();
            messages.push(QueueMessage::new(&Sent::Timeline(begun))?.key(source));
        }
        for row in waiting {
            messages.push(row.message(&self.ctx)?);
        }
        queue.send_batch(messages).await.map(drop)
    }

    /// Rows that the queue has accepted no longer wait, unless they have changed meanwhile.
    fn taken(&self, waiting: &[Waiting]) -> Result<()> {
        let sql = &self.sql;
        for row in waiting {
            sql.exec(
                "UPDATE projection_feed SET waits = 0 WHERE tbl = ?1 AND id = ?2 AND seq = ?3 AND at = ?4",
                (&row.tbl, &row.id, row.seq, row.at),
            )?;
        }
        sql.exec("UPDATE projection_meta SET begun = 0 WHERE begun", ())?;
        self.note_failures(0)
    }

    /// Notes a refusal. Returns when the queue is asked again.
    fn refused(&self, error: &QueueError) -> Result<i64> {
        let failures = self.failures()?.saturating_add(1);
        let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX).min(16);
        let pause = limits::PAUSE.saturating_mul(1 << doublings);
        let pause = pause.min(limits::MAX_PAUSE);
        if failures == 1 {
            tracing::warn!(%error, queue = self.projection.queue, "rows wait: the queue has not accepted them");
        }
        self.note_failures(failures)?;
        let mut text = error.to_string();
        text.truncate(text.floor_char_boundary(limits::MAX_ERROR_BYTES));
        let sql = &self.sql;
        sql.exec("UPDATE projection_meta SET last_error = ?1", (text,))?;
        Ok(self.now().saturating_add(millis(pause)))
    }

    /// How many times in a row the queue has refused.
    fn failures(&self) -> Result<i64> {
        let sql = &self.sql;
        sql.exec("SELECT failures FROM projection_meta", ())?.one()
    }

    fn note_failures(&self, failures: i64) -> Result<()> {
        let sql = &self.sql;
        sql.exec(
            "UPDATE projection_meta SET failures = ?1 WHERE failures <> ?1",
            (failures,),
        )?;
        Ok(())
    }

    fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }
}

impl Waiting {
    fn message(&self, of: &Ctx) -> Result<QueueMessage, QueueError> {
        let row = Row {
            table: self.tbl.clone(),
            id: self.id.clone(),
            source: of.id().to_string(),
            timeline: of.timeline().id().to_string(),
            seq: self.seq,
            at: self.at,
            values: serde_json::from_str(&self.data).map_err(Error::from_std)?,
        };
        Ok(QueueMessage::new(&Sent::Row(row))?.key(format!("{}/{}", self.tbl, self.id)))
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("ctx", &self.0.ctx)
            .field("queue", &self.0.projection.queue)
            .finish_non_exhaustive()
    }
}
