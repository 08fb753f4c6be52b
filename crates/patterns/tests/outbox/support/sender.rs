//! An object with an outbox, all of whose methods a test can call, and a fan-out.

use std::sync::Arc;

use abide::prelude::*;
use abide_patterns::outbox::{
    Batch, Change, Counts, DeadLetterFilter, Destination, Enqueued, FanOut, FanOutRecord, Filter,
    Message, Options, Outbox, OutboxError, Page, Record, Registry, Swept,
};
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
        if self.outbox.take_alarm()? {
            let now = self.state.env().clock().unix_millis();
            self.state.storage().put("rang", &now)?;
        }
        self.outbox.alarm()
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

    pub async fn enqueue_and_roll_back(&self, message: Message) -> Result<(), OutboxError> {
        let outcome = self.state.storage().transaction_sync(|| {
            self.outbox.enqueue(&message)?;
            Err::<(), OutboxError>(OutboxError::Invalid("undone".to_owned()))
        });
        assert!(outcome.is_err());
        Ok(())
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
        self.outbox.set_alarm(Some(at))
    }

    /// When the object's own alarm went off.
    pub async fn rang(&self) -> Result<Option<u64>> {
        self.state.storage().get("rang")
    }

    pub async fn alarm_time(&self) -> Result<Option<i64>> {
        Ok(self
            .state
            .storage()
            .get_alarm()?
            .map(AlarmTime::unix_millis))
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

    pub async fn reset(&self) -> Result<()> {
        self.state.abort("the test wants it");
        Ok(())
    }
}
