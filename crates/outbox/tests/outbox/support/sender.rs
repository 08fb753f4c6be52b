//! An object with an outbox, all of whose methods a test can call, and a fan-out.

use std::sync::Arc;

use abide::outbox::{
    Batch, Change, Counts, DeadLetterFilter, Destination, Enqueued, FanOut, FanOutRecord, Filter,
    Message, Options, Outbox, OutboxError, Page, Record, Registry, Swept,
};
use abide::prelude::*;
use serde::{Deserialize, Serialize};

use super::note;

/// So many notes to all.
pub(crate) struct Circular;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Circulate {
    /// What their texts begin with.
    pub(crate) name: String,
    pub(crate) count: usize,
    /// Fails at this one.
    pub(crate) fails_at: Option<usize>,
}

impl FanOut for Circular {
    type Command = Circulate;
    const NAME: &'static str = "circular";

    fn batch(
        &self,
        _storage: &Storage,
        command: &Circulate,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch> {
        let start: usize = after.map_or(0, |after| after.parse().unwrap());
        let end = command.count.min(start + limit);
        if command
            .fails_at
            .is_some_and(|at| (start..end).contains(&at))
        {
            return Err(Error::new("the script says so"));
        }
        let name = &command.name;
        let messages = (start..end).map(|number| note("all", &format!("{name}note {number}")));
        Ok(Batch {
            messages: messages.collect(),
            next: (end < command.count).then(|| end.to_string()),
        })
    }
}

#[derive(Clone)]
pub(super) struct Settings(pub(super) Arc<Options>);

/// What a node shares with its senders.
pub(crate) fn settings(options: Options) -> impl Send + Sync + 'static {
    Settings(Arc::new(options))
}

/// An object with an outbox.
#[durable_object]
pub(crate) struct Sender {
    state: State,
    outbox: Outbox,
}

impl DurableObject for Sender {
    fn new(state: State, env: Env) -> Result<Self> {
        let settings = env.require::<Settings>()?;
        let outbox = Outbox::open(&state, env.require::<Registry>()?, (*settings.0).clone())?;
        Ok(Self { state, outbox })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        let now = self.state.env().clock().unix_millis().cast_signed();
        self.state.storage().put("rang", &now)
    }
}

impl Sender {
    fn refuse(&self, what: &str, refuse: bool) -> Result<()> {
        let statement = if refuse {
            format!(
                "CREATE TRIGGER refuse BEFORE {what} BEGIN SELECT RAISE(ABORT, 'the test wants it'); END"
            )
        } else {
            "DROP TRIGGER refuse".to_owned()
        };
        self.state.storage().sql().exec(&statement, ()).map(drop)
    }
}

#[rpc]
#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
impl Sender {
    pub async fn enqueue(&self, message: Message) -> Result<Enqueued, OutboxError> {
        self.outbox.enqueue(&message)
    }

    pub async fn enqueue_all(&self, messages: Vec<Message>) -> Result<(), OutboxError> {
        for message in &messages {
            self.outbox.enqueue(message)?;
        }
        Ok(())
    }

    /// Enqueues, and then does not commit.
    pub async fn enqueue_and_panic(&self, message: Message) -> Result<(), OutboxError> {
        self.outbox.enqueue(&message)?;
        panic!("the test wants it")
    }

    /// Enqueues a message in a transaction that is undone, and another in the same turn.
    pub async fn enqueue_instead(
        &self,
        undone: Message,
        other: Message,
    ) -> Result<Enqueued, OutboxError> {
        self.enqueue_and_roll_back(undone).await?;
        self.outbox.enqueue(&other)
    }

    pub async fn enqueue_and_roll_back(&self, message: Message) -> Result<(), OutboxError> {
        let outcome = self.state.storage().transaction_sync(|| {
            self.outbox.enqueue(&message)?;
            Err::<(), OutboxError>(OutboxError::Invalid("undone".to_owned()))
        });
        assert!(outcome.is_err());
        Ok(())
    }

    /// Writes an order and what is told of it: both, or neither.
    pub async fn order(&self, message: Message) -> Result<i64, OutboxError> {
        self.state.storage().transaction_sync(|| {
            let order = self.state.storage().get("orders")?.unwrap_or(0) + 1;
            self.state.storage().put("orders", &order)?;
            self.outbox.enqueue(&message)?;
            Ok(order)
        })
    }

    pub async fn orders(&self) -> Result<Option<i64>> {
        self.state.storage().get("orders")
    }

    pub async fn fan_out(&self, command: Circulate) -> Result<i64, OutboxError> {
        self.outbox.fan_out::<Circular>(&command)
    }

    pub async fn fan_outs(&self) -> Result<Vec<FanOutRecord>> {
        self.outbox.fan_outs(10)
    }

    pub async fn cancel_fan_out(&self, id: i64) -> Result<FanOutRecord, OutboxError> {
        self.outbox.cancel_fan_out(id)
    }

    pub async fn resume_fan_out(&self, id: i64) -> Result<FanOutRecord, OutboxError> {
        self.outbox.resume_fan_out(id)
    }

    pub async fn get(&self, id: i64) -> Result<Option<Record>> {
        self.outbox.get(id)
    }

    pub async fn payload(&self, id: i64) -> Result<Option<String>> {
        self.outbox.payload(id)
    }

    pub async fn history(&self, id: i64) -> Result<Vec<Change>> {
        self.outbox.history(id)
    }

    pub async fn list(&self, filter: Filter) -> Result<Page> {
        self.outbox.list(&filter)
    }

    pub async fn failing(&self, before: Option<i64>, limit: usize) -> Result<Page> {
        self.outbox.failing(before, limit)
    }

    pub async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Page> {
        self.outbox.dead_letters(&filter)
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn destinations(&self) -> Result<Vec<Destination>> {
        self.outbox.destinations(10)
    }

    pub async fn cancel(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.cancel(id)
    }

    pub async fn edit(&self, id: i64, payload: String) -> Result<Record, OutboxError> {
        self.outbox.edit(id, &payload)
    }

    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.redrive(id)
    }

    pub async fn discard(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.discard(id)
    }

    pub async fn redrive_all(&self, filter: DeadLetterFilter) -> Result<Swept, OutboxError> {
        self.outbox.redrive_all(&filter)
    }

    /// Sets the alarm, as an object does that has times of its own.
    pub async fn set_own_alarm(&self, at: i64) -> Result<()> {
        self.state.storage().set_alarm(at)
    }

    /// When the object's own alarm went off.
    pub async fn rang(&self) -> Result<Option<i64>> {
        self.state.storage().get("rang")
    }

    /// When the outbox is to be woken.
    pub async fn alarm_time(&self) -> Result<Option<i64>> {
        let alarm = self.state.alarm("outbox").get()?;
        Ok(alarm.map(AlarmTime::unix_millis))
    }

    /// How the database would run a query.
    pub async fn plan(&self, query: String) -> Result<Vec<String>> {
        let sql = self.state.storage().sql();
        let steps: Vec<(i64, i64, i64, String)> = sql
            .exec(&format!("EXPLAIN QUERY PLAN {query}"), ())?
            .to_array()?;
        Ok(steps.into_iter().map(|step| step.3).collect())
    }

    /// Compares the counts with the rows.
    pub async fn counts_are_right(&self) -> Result<bool> {
        let sql = self.state.storage().sql();
        let counts = self.outbox.counts()?;
        let by_status = [
            ("queued", counts.queued),
            ("sending", counts.sending),
            ("sent", counts.sent),
            ("canceled", counts.canceled),
            ("discarded", counts.discarded),
        ];
        for (status, count) in by_status {
            let rows: i64 = sql
                .exec(
                    "SELECT count(*) FROM outbox_messages WHERE status = ?1",
                    (status,),
                )?
                .one()?;
            if rows != count {
                return Ok(false);
            }
        }
        let failing: i64 = sql
            .exec(
                "SELECT count(*) FROM outbox_messages WHERE failing_since IS NOT NULL",
                (),
            )?
            .one()?;
        if failing != counts.failing {
            return Ok(false);
        }
        let dead: i64 = sql
            .exec("SELECT count(*) FROM outbox_dead_letters", ())?
            .one()?;
        Ok(dead == counts.failed)
    }

    /// Returns when everything that was written before is durable, and what waited for that has run.
    pub async fn fence(&self) -> Result<()> {
        let storage = self.state.storage();
        let passed: i64 = storage.get("fences")?.unwrap_or(0);
        storage.put("fences", &(passed + 1))?;
        storage.sync().await
    }

    /// Has the database refuse that a message ends, or allow it again.
    pub async fn refuse_to_end(&self, id: i64, refuse: bool) -> Result<()> {
        let ends = format!(
            "UPDATE ON outbox_messages WHEN NEW.id = {id} AND NEW.status IN ('sent', 'failed')"
        );
        self.refuse(&ends, refuse)
    }

    /// The same of an attempt of it that begins.
    pub async fn refuse_to_begin(&self, id: i64, refuse: bool) -> Result<()> {
        let begins =
            format!("UPDATE ON outbox_messages WHEN NEW.id = {id} AND NEW.status = 'sending'");
        self.refuse(&begins, refuse)
    }

    /// The same of a destination that fails.
    pub async fn refuse_failure_of(&self, destination: String, refuse: bool) -> Result<()> {
        let fails = format!(
            "UPDATE ON outbox_destinations WHEN NEW.destination = '{destination}' AND NEW.failures > 0"
        );
        self.refuse(&fails, refuse)
    }

    pub async fn reset(&self) -> Result<()> {
        self.state.abort("the test wants it");
        Ok(())
    }
}
