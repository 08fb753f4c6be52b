//! Another object as a consumer.

use std::collections::BTreeMap;

use abide::{Error, ErrorKind, Result};
use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::{Batch, Consumer, Delivery, Exceptions, Received};

/// Passes batches to a method of another object: `async fn name(&self, batch: Vec<Delivery>) -> Result<Exceptions>`.
///
/// An `Err` of the method, or a transport error, has the whole batch retried; if the object is overloaded, without using
/// up an attempt. The method may be called again with
/// messages that it has consumed; it can detect duplicates by the ids that it stores with its writes in one poll.
///
/// ```
/// use abide::prelude::*;
/// use abide::queue::{Delivery, Exceptions, QueueOptions, Queues, ToObject};
///
/// #[durable_object]
/// struct Ledger { ctx: Ctx }
///
/// impl DurableObject for Ledger {
///     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
///         ctx.sql().exec("CREATE TABLE IF NOT EXISTS entries (id TEXT PRIMARY KEY, amount INTEGER)", ())?;
///         Ok(Self { ctx })
///     }
/// }
///
/// #[rpc]
/// impl Ledger {
///     pub async fn book(&self, batch: Vec<Delivery>) -> Result<Exceptions> {
///         for message in batch {
///             let amount: i64 = message.json()?;
///             let entry = (message.id.to_string(), amount);
///             self.ctx.sql().exec("INSERT OR IGNORE INTO entries VALUES (?1, ?2)", entry)?;
///         }
///         Ok(Exceptions::default())
///     }
/// }
///
/// # fn main() {
/// let queues = Queues::new().with("entries", QueueOptions::default(), ToObject::named("Ledger", "all", "book"));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ToObject {
    binding: String,
    /// The object's name; by default the message's key.
    name: Option<String>,
    method: String,
}

impl ToObject {
    /// The object of this name.
    pub fn named(
        binding: impl Into<String>,
        name: impl Into<String>,
        method: impl Into<String>,
    ) -> Self {
        Self {
            binding: binding.into(),
            name: Some(name.into()),
            method: method.into(),
        }
    }

    /// The object whose name is the message's key, for each message. A message without a key becomes a dead letter.
    pub fn by_key(binding: impl Into<String>, method: impl Into<String>) -> Self {
        Self {
            binding: binding.into(),
            name: None,
            method: method.into(),
        }
    }

    async fn give(&self, batch: &Batch<Box<RawValue>>, name: &str, messages: Vec<&Raw>) {
        let deliveries: Vec<Delivery> = messages.iter().map(|message| delivery(message)).collect();
        match self.call(batch, name, &deliveries).await {
            Ok(exceptions) => mark(&messages, exceptions),
            Err(error) => {
                for message in messages {
                    match error.kind() {
                        ErrorKind::Overloaded => message.wait(error.to_string()),
                        _ => message.retry(error.retry_after(), error.to_string()),
                    }
                }
            }
        }
    }

    async fn call(
        &self,
        batch: &Batch<Box<RawValue>>,
        name: &str,
        deliveries: &[Delivery],
    ) -> Result<Exceptions> {
        let namespace = batch.env().any_namespace(&self.binding)?;
        let answer: Result<Exceptions> = namespace
            .get_by_name(name)
            .call(self.method.clone(), &(deliveries,))
            .await?;
        answer
    }
}

type Raw = Received<Box<RawValue>>;

impl Consumer for ToObject {
    type Body = Box<RawValue>;

    async fn consume(&self, batch: &Batch<Self::Body>) -> Result<()> {
        let mut parts: BTreeMap<&str, Vec<&Raw>> = BTreeMap::new();
        for message in batch.messages() {
            match self.name.as_deref().or_else(|| message.key()) {
                Some(name) => parts.entry(name).or_default().push(message),
                None => message.refuse("it has no key to select an object"),
            }
        }
        let all = parts.into_iter();
        join_all(all.map(|(name, messages)| self.give(batch, name, messages))).await;
        match batch.failure_of_all() {
            Some(error) => Err(Error::new(error)),
            None => Ok(()),
        }
    }
}

fn delivery(message: &Raw) -> Delivery {
    Delivery {
        id: message.id(),
        key: message.key().map(str::to_owned),
        body: message.body.get().to_owned(),
        attempt: message.attempt(),
        sent_at: message.sent_at(),
    }
}

/// Marks the messages according to a response.
pub(super) fn mark(messages: &[&Raw], exceptions: Exceptions) {
    for message in messages {
        message.ack();
    }
    let find = |id| messages.iter().find(|message| message.id() == id);
    for retry in exceptions.retry {
        if let Some(message) = find(retry.id) {
            let after = retry
                .after
                .map(|seconds| std::time::Duration::from_secs(seconds.into()));
            message.retry(after, retry.error);
        }
    }
    for dead in exceptions.dead {
        if let Some(message) = find(dead.id) {
            message.refuse(dead.error);
        }
    }
}
