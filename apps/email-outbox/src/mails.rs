//! The object: the outbox, its lists, and live pages.

use std::sync::Arc;

use abide::prelude::*;
use abide::{
    outbox::handlers::{Email, SmtpDelivery},
    outbox::{
        BulkResult, DeadLetterFilter, Deliver, MessageFilter, Outbox, OutboxError, OutboxOptions,
        Page, Record, live::Live,
    },
};
use serde::{Deserialize, Serialize};

use crate::{Author, Draft, Lists, Mail, Overview, pages::Looks};

/// The name of the one object.
const NAME: &str = "outbox";

/// The mails.
#[durable_object]
pub struct Mails {
    ctx: Ctx,
    outbox: Outbox,
    lists: Lists,
    live: Live,
    author: Arc<Author>,
}

/// The result of composing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Composed {
    /// One mail, which is queued.
    Mail(i64),
    /// A list, whose mails are being created.
    List(i64),
}

/// The object.
pub(crate) fn mails(env: &Env) -> Stub<Mails> {
    env.object::<Mails>().get_by_name(NAME)
}

#[durable_object]
impl DurableObject for Mails {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::clone(&*env.require()?))?;
        let lists = Lists::open(ctx.storage())?;
        let live = Live::open(&ctx, &outbox, Looks::new(lists.clone(), env.clone()))?;
        Ok(Self {
            outbox,
            lists,
            live,
            author: env.require()?,
            ctx,
        })
    }

    /// Connects a live page.
    fn fetch(&self, request: Request) -> Result<Response> {
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

    /// The part of pages above the mails.
    pub async fn overview(&self) -> Result<Overview> {
        Overview::of(&self.outbox, &self.lists, self.ctx.env())
    }

    /// Mails, newest first: with one status, or all, including failed ones.
    pub async fn list(&self, filter: MessageFilter) -> Result<Page> {
        self.outbox.list(&filter)
    }

    /// Failed mails, newest first.
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

    /// Sends a failed mail again.
    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.redrive(id)
    }

    /// Changes a failed mail.
    pub async fn edit(&self, id: i64, draft: Draft) -> Result<Record, OutboxError> {
        let draft = draft
            .check()
            .map_err(|invalid| OutboxError::Invalid(invalid.to_string()))?;
        let [to] = &*draft.to else {
            return Err(OutboxError::Invalid(
                "A composed mail must have one recipient.".to_owned(),
            ));
        };
        let before = self.outbox.payload(id)?;
        let before = before.ok_or(OutboxError::NotFound { id })?;
        let before: Email = serde_json::from_str(&before).map_err(Error::from_std)?;
        let mail = draft.mail(&before.from, to);
        let payload = serde_json::to_string(&mail).map_err(Error::from_std)?;
        self.outbox.edit(id, &payload)
    }

    /// Discards a failed mail, or cancels a queued one.
    pub async fn give_up(&self, id: i64) -> Result<Record, OutboxError> {
        match self.outbox.discard(id) {
            Err(OutboxError::Conflict { .. }) => self.outbox.cancel(id),
            other => other,
        }
    }

    /// Sends failed mails after this one again, a thousand at a time.
    pub async fn redrive_all(&self, after: Option<i64>) -> Result<BulkResult, OutboxError> {
        self.outbox.redrive_all(&failed_after(after))
    }

    /// Discards them, likewise.
    pub async fn discard_all(&self, after: Option<i64>) -> Result<BulkResult, OutboxError> {
        self.outbox.discard_all(&failed_after(after))
    }

    /// Cancels a list, and deletes its remaining recipients.
    pub async fn cancel_list(&self, id: i64) -> Result<(), OutboxError> {
        self.outbox.cancel_fan_out(id)?;
        self.lists.forget(id)?;
        self.live.refresh();
        Ok(())
    }
}

fn failed_after(id: Option<i64>) -> DeadLetterFilter {
    DeadLetterFilter::default().after(id)
}
