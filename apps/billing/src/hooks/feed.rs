//! The feed: passes a resource's notices to the outboxes.
//!
//! Contract: a notice is stored in the transaction of its outcome, and stays in the object until the outboxes of all
//! endpoints that want it have accepted it. Storing it succeeds regardless of the outboxes.

use std::{cell::Cell, fmt, rc::Rc, sync::Arc, time::Duration};

use abide::{Activation, Ctx, Error, Result, Sql};
use abide::{
    component::WakeUp,
    outbox::service::{Delayed, Outbox},
    outcomes::Entry,
};
use serde::Deserialize;

use super::{Endpoint, Notice, NoticeDelivery, endpoints, limits, types};
use crate::{Time, machines::ABSENT, resource::View};

/// The name of its alarm.
const NAME: &str = "webhooks";

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS webhook_feed (number INTEGER PRIMARY KEY, notice TEXT NOT NULL);
    -- The state that the last outcome led to: what changes it is told of.
    CREATE TABLE IF NOT EXISTS webhook_state (id INTEGER PRIMARY KEY CHECK (id = 0), state TEXT NOT NULL);
";

/// The feed of an object. Clones are the same.
#[derive(Clone)]
pub(crate) struct Feed(Rc<Inner>);

struct Inner {
    ctx: Ctx,
    alarm: WakeUp,
    /// Whether a task is passing notices on.
    running: Cell<bool>,
    /// Consecutive failures.
    failures: Cell<u32>,
}

/// A waiting notice.
#[derive(Deserialize)]
struct Waiting {
    number: i64,
    notice: String,
}

impl Feed {
    /// Opens the feed of an object, in its constructor.
    pub(crate) fn open(ctx: &Ctx) -> Result<Self> {
        ctx.sql().exec(TABLES, ())?;
        let feed = Self(Rc::new(Inner {
            ctx: ctx.clone(),
            alarm: WakeUp::new(ctx, NAME),
            running: Cell::new(false),
            failures: Cell::new(0),
        }));
        let woken = feed.clone();
        ctx.on_alarm(NAME, move |_| std::future::ready(woken.wake()))?;
        let copied = feed.clone();
        ctx.on_activation(move |how| copied.activated(how));
        Ok(feed)
    }

    /// The object is activated. Notices that a copy has inherited are its original's.
    fn activated(&self, how: Activation) -> Result<()> {
        if how == Activation::Continue {
            return Ok(());
        }
        let drop_all = "DELETE FROM webhook_feed";
        self.0.sql().exec(drop_all, ()).map(drop)
    }

    /// Stores the notices of an outcome, in its transaction.
    pub(crate) fn put(&self, entry: &Entry, resource: &View) -> Result<()> {
        let inner = &self.0;
        let sql = inner.sql();
        let from: Option<String> = sql
            .exec("SELECT state FROM webhook_state", ())?
            .optional()?;
        let from = from.unwrap_or_else(|| ABSENT.to_owned());
        if from != resource.state {
            sql.exec(
                "INSERT INTO webhook_state VALUES (0, ?1) ON CONFLICT DO UPDATE SET state = excluded.state",
                (&resource.state,),
            )?;
        }
        let outcome = (entry.action.as_str(), entry.outcome.as_str());
        let told = types::of(&resource.kind, outcome, (&from, &resource.state));
        if told.is_empty() {
            return Ok(());
        }
        for what in told {
            let notice = Notice::new(resource.clone(), &inner.ctx.timeline(), what);
            let notice = serde_json::to_string(&notice).map_err(Error::from_std)?;
            sql.exec("INSERT INTO webhook_feed (notice) VALUES (?1)", (notice,))?;
        }
        inner.go_on()
    }

    /// The alarm handler: continues with the waiting notices.
    fn wake(&self) -> Result<()> {
        let inner = &self.0;
        // In case the task is lost.
        let again = inner.now().plus(millis(limits::RECOVERY));
        inner.alarm.set(Some(again.0))?;
        if inner.running.replace(true) {
            return Ok(());
        }
        let running = Running(Rc::clone(inner));
        let task = inner.ctx.spawn(async move {
            if let Err(error) = running.0.hand_over().await {
                tracing::error!(%error, "a resource's webhooks are stopped until its next alarm");
            }
        });
        if let Err(error) = task {
            tracing::warn!(%error, "a resource's webhooks are waiting for its next alarm");
        }
        Ok(())
    }
}

/// Records when a task ends, however it does.
struct Running(Rc<Inner>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(false);
    }
}

impl Inner {
    /// Lets the alarm start a task, unless one is running, or failed a moment ago.
    fn go_on(&self) -> Result<()> {
        if self.running.get() {
            return Ok(());
        }
        let now = self.now();
        // A time beyond any pause was set before the clock was set back.
        let latest = now.plus(millis(limits::MAX_PAUSE)).0;
        let set = self.alarm.get()?;
        if self.failures.get() > 0 && set.is_some_and(|at| at > now.0 && at <= latest) {
            return Ok(());
        }
        self.alarm.set(Some(now.0))
    }

    /// Passes notices on until none is waiting, or one is rejected.
    async fn hand_over(&self) -> Result<()> {
        let clock = Arc::clone(self.ctx.env().clock());
        let end = clock.now() + limits::TASK_LIFE;
        loop {
            let waiting = self.first()?;
            let Some(last) = waiting.last() else {
                return self.alarm.set(None);
            };
            if clock.now() >= end || self.ctx.env().is_stopping() {
                return self.alarm.set(Some(self.now().0));
            }
            match self.hand_to_all(&waiting).await {
                Ok(()) => {
                    self.failures.set(0);
                    self.remove(last)?;
                }
                Err(error) => return self.refused(&error),
            }
        }
    }

    /// Removes accepted notices, up to this one.
    fn remove(&self, last: &Waiting) -> Result<()> {
        let taken = "DELETE FROM webhook_feed WHERE number <= ?1";
        self.sql().exec(taken, (last.number,)).map(drop)
    }

    fn first(&self) -> Result<Vec<Waiting>> {
        let first = "SELECT number, notice FROM webhook_feed ORDER BY number LIMIT ?1";
        let limit = i64::try_from(limits::FEED_BATCH).unwrap_or(i64::MAX);
        self.sql().exec(first, (limit,))?.all()
    }

    /// Enqueues notices with every endpoint that wants them. A failing endpoint does not block the others.
    async fn hand_to_all(&self, waiting: &[Waiting]) -> Result<()> {
        let env = self.ctx.env();
        let notices = waiting
            .iter()
            .map(|waiting| serde_json::from_str(&waiting.notice).map_err(Error::from_std))
            .collect::<Result<Vec<Notice>>>()?;
        let mut result = Ok(());
        for endpoint in endpoints(env).list().await? {
            let handed = self.hand_to(&endpoint, &notices).await;
            result = result.and(handed);
        }
        result
    }

    /// Enqueues with an endpoint those of the notices that it wants.
    async fn hand_to(&self, endpoint: &Endpoint, notices: &[Notice]) -> Result<()> {
        let wanted = notices
            .iter()
            .filter(|notice| endpoint.wants(&notice.event));
        let messages = wanted
            .map(|notice| {
                let message = NoticeDelivery::notify(endpoint, notice)?;
                Ok(Delayed {
                    message,
                    delay: None,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        if messages.is_empty() {
            return Ok(());
        }
        let outbox = self.ctx.env().object::<Outbox>();
        let enqueued = outbox.get_by_name(&endpoint.id).enqueue(messages).await;
        enqueued.map(drop).map_err(|refused| refused.error.into())
    }

    fn refused(&self, error: &Error) -> Result<()> {
        let failures = self.failures.get();
        if failures == 0 {
            tracing::warn!(%error, "webhooks are waiting: an outbox has not accepted them");
        }
        self.failures.set(failures.saturating_add(1));
        let pause = limits::PAUSE.saturating_mul(1 << failures.min(16));
        let pause = pause.min(limits::MAX_PAUSE);
        self.alarm.set(Some(self.now().plus(millis(pause)).0))
    }

    fn sql(&self) -> Sql {
        self.ctx.sql()
    }

    fn now(&self) -> Time {
        Time::now(&**self.ctx.env().clock())
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("ctx", &self.0.ctx)
            .finish_non_exhaustive()
    }
}
