//! The object: the outbox, its lists, and whoever watches.

use std::sync::Arc;

use abide::prelude::*;
use abide::{
    outbox::handlers::{Email, SmtpDelivery},
    outbox::{
        BulkResult, Change, Counts, DeadLetterFilter, Deliver, Destination, Filter, Options,
        Outbox, OutboxError, Page, Record, Registry, live::Live,
    },
};
use serde::{Deserialize, Serialize};

use crate::{Author, Draft, Lists, Progress, pages::Looks};

/// Destinations that a page shows.
const DESTINATIONS: usize = 3;

/// Pauses up to this, in milliseconds, are over before somebody has read of them.
const SHORT_PAUSE: i64 = 3_000;

/// The mails.
#[durable_object]
pub struct Mails {
    state: State,
    outbox: Outbox,
    lists: Lists,
    live: Live,
    author: Arc<Author>,
}

/// What composing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Composed {
    /// One mail, which is queued.
    Mail(i64),
    /// A list, whose mails are being made.
    List(i64),
}

/// What pages show above the mails.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// How many there are.
    pub counts: Counts,
    /// Where nothing is sent to at the moment.
    pub destinations: Vec<Destination>,
    /// The newest lists.
    pub lists: Vec<Progress>,
}

/// All that is known of a mail.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mail {
    /// Where it is.
    pub record: Record,
    /// What it says.
    pub email: Email,
    /// What happened, oldest first.
    pub history: Vec<Change>,
}

impl DurableObject for Mails {
    fn new(state: State, env: Env) -> Result<Self> {
        let outbox = Outbox::open(
            &state,
            env.require::<Registry>()?,
            Options::clone(&*env.require()?),
        )?;
        let lists = Lists::open(state.storage())?;
        let live = Live::open(&state, &outbox, Looks::new(lists.clone(), env.clone()))?;
        Ok(Self {
            outbox,
            lists,
            live,
            author: env.require()?,
            state,
        })
    }

    /// Lets somebody watch.
    async fn fetch(&self, request: Request) -> Result<Response> {
        self.live.accept(&request)
    }
}

#[rpc]
impl Mails {
    /// Enqueues a mail, or a list of them.
    pub async fn compose(&self, draft: Draft) -> Result<Composed, OutboxError> {
        let draft = draft
            .check()
            .map_err(|invalid| OutboxError::Invalid(invalid.to_string()))?;
        if let [to] = &*draft.to {
            let mail = draft.mail(self.author.address(), to);
            let enqueued = SmtpDelivery::enqueue(&self.outbox, &mail)?;
            return Ok(Composed::Mail(enqueued.id));
        }
        let list = self
            .lists
            .begin(&self.outbox, self.author.address(), draft)?;
        self.live.refresh();
        Ok(Composed::List(list))
    }

    /// What pages show above the mails.
    pub async fn overview(&self) -> Result<Overview> {
        Overview::of(&self.outbox, &self.lists, self.state.env())
    }

    /// Mails, newest first: of one status, or all, those that were given up included.
    pub async fn list(&self, filter: Filter) -> Result<Page> {
        self.outbox.list(&filter)
    }

    /// Mails that were given up, newest first.
    pub async fn failed(&self, filter: DeadLetterFilter) -> Result<Page> {
        self.outbox.dead_letters(&filter)
    }

    /// A mail.
    pub async fn show(&self, id: i64) -> Result<Mail, OutboxError> {
        let missing = || OutboxError::NotFound { id };
        let record = self.outbox.get(id)?.ok_or_else(missing)?;
        let payload = self.outbox.payload(id)?.ok_or_else(missing)?;
        Ok(Mail {
            email: serde_json::from_str(&payload).map_err(Error::from_std)?,
            history: self.outbox.history(id)?,
            record,
        })
    }

    /// Sends a mail that was given up once more.
    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.redrive(id)
    }

    /// Changes a mail that was given up.
    pub async fn edit(&self, id: i64, draft: Draft) -> Result<Record, OutboxError> {
        let draft = draft
            .check()
            .map_err(|invalid| OutboxError::Invalid(invalid.to_string()))?;
        let [to] = &*draft.to else {
            return Err(OutboxError::Invalid(
                "A mail that was composed has one recipient.".to_owned(),
            ));
        };
        let before = self.outbox.payload(id)?;
        let before = before.ok_or(OutboxError::NotFound { id })?;
        let before: Email = serde_json::from_str(&before).map_err(Error::from_std)?;
        let mail = draft.mail(&before.from, to);
        let payload = serde_json::to_string(&mail).map_err(Error::from_std)?;
        self.outbox.edit(id, &payload)
    }

    /// Gives a mail up for good, or takes back one that is queued.
    pub async fn give_up(&self, id: i64) -> Result<Record, OutboxError> {
        match self.outbox.discard(id) {
            Err(OutboxError::Conflict { .. }) => self.outbox.cancel(id),
            other => other,
        }
    }

    /// Sends mails again that were given up and come behind this one, a thousand at a time.
    pub async fn redrive_all(&self, after: Option<i64>) -> Result<BulkResult, OutboxError> {
        self.outbox.redrive_all(&behind(after))
    }

    /// Gives them up for good, likewise.
    pub async fn discard_all(&self, after: Option<i64>) -> Result<BulkResult, OutboxError> {
        self.outbox.discard_all(&behind(after))
    }

    /// Makes no more mails of a list, and forgets who was to get them.
    pub async fn cancel_list(&self, id: i64) -> Result<(), OutboxError> {
        self.outbox.cancel_fan_out(id)?;
        self.lists.forget(id)?;
        self.live.refresh();
        Ok(())
    }
}

fn behind(after: Option<i64>) -> DeadLetterFilter {
    DeadLetterFilter {
        after,
        ..DeadLetterFilter::default()
    }
}

impl Overview {
    pub(crate) fn of(outbox: &Outbox, lists: &Lists, env: &Env) -> Result<Self> {
        let now = i64::try_from(env.clock().unix_millis()).unwrap_or(i64::MAX);
        let mut destinations = outbox.destinations(DESTINATIONS)?;
        destinations.retain(|destination| {
            let left = destination.paused_until.unwrap_or(now) - now;
            left > SHORT_PAUSE || (left > 0 && destination.opened > 0)
        });
        Ok(Self {
            counts: outbox.counts()?,
            destinations,
            lists: lists.newest(outbox)?,
        })
    }
}
