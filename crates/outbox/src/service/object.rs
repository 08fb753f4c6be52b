//! The class of named outboxes.

use std::cell::OnceCell;

use abide::prelude::*;

use super::{Delayed, Refused, Shown};
use crate::{
    BulkResult, Counts, DeadLetterFilter, Destination, Enqueued, MessageFilter, OutboxError,
    OutboxOptions, Page, Record, limits,
    live::{Live, Table},
};

/// An object with an outbox and nothing else. The program shares a [`Registry`](crate::Registry) and, if they are not the default,
/// [`OutboxOptions`]: see [`install`](super::install).
///
/// Reads create nothing: the first message, or the first watcher, creates the outbox.
#[durable_object]
pub struct Outbox {
    ctx: Ctx,
    options: OutboxOptions,
    opened: OnceCell<Opened>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("ctx", &self.ctx)
            .finish_non_exhaustive()
    }
}

struct Opened {
    outbox: crate::Outbox,
    live: Live,
}

impl DurableObject for Outbox {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let this = Self {
            options: env
                .get::<OutboxOptions>()
                .map_or_else(OutboxOptions::default, |options| (*options).clone()),
            opened: OnceCell::new(),
            ctx,
        };
        if crate::Outbox::exists(&this.ctx)? {
            this.open()?;
        }
        Ok(this)
    }

    /// Lets a client watch.
    async fn fetch(&self, request: Request) -> Result<Response> {
        match Live::refusal(&request) {
            Some(refused) => Ok(refused),
            None => self.open()?.live.accept(&request),
        }
    }
}

impl Outbox {
    /// The outbox, created if it does not exist.
    fn open(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let outbox = crate::Outbox::open(&self.ctx, self.options.clone())?;
        let live = Live::open(&self.ctx, &outbox, Table)?;
        Ok(self.opened.get_or_init(|| Opened { outbox, live }))
    }

    /// The outbox, if it exists.
    fn there(&self) -> Option<&crate::Outbox> {
        self.opened.get().map(|opened| &opened.outbox)
    }

    /// Reads the outbox; returns the default if it does not exist.
    fn read<T: Default, E>(
        &self,
        read: impl FnOnce(&crate::Outbox) -> Result<T, E>,
    ) -> Result<T, E> {
        self.there().map_or_else(|| Ok(T::default()), read)
    }

    /// The outbox that has a message.
    fn of(&self, id: i64) -> Result<&crate::Outbox, OutboxError> {
        self.there().ok_or(OutboxError::NotFound { id })
    }
}

#[rpc]
impl Outbox {
    /// Enqueues all, or none.
    pub async fn enqueue(&self, messages: Vec<Delayed>) -> Result<Vec<Enqueued>, Refused> {
        let now = self.ctx.env().clock().unix_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let outbox = &self.open()?.outbox;
        let enqueued = self.ctx.storage().transaction(|| {
            let enqueue = |(index, delayed): (usize, Delayed)| {
                delayed
                    .at(now)
                    .and_then(|message| outbox.enqueue(&message))
                    .map_err(|error| Refused { index, error })
            };
            messages.into_iter().enumerate().map(enqueue).collect()
        });
        if let Err(Refused {
            error: OutboxError::Full { .. },
            ..
        }) = enqueued
        {
            // There may be room next time.
            self.ctx.forget_call();
        }
        enqueued
    }

    /// A message with payload and history.
    pub async fn show(&self, id: i64) -> Result<Shown, OutboxError> {
        let outbox = self.of(id)?;
        Ok(Shown {
            record: outbox.get(id)?.ok_or(OutboxError::NotFound { id })?,
            payload: outbox
                .shown_payload(id)?
                .ok_or(OutboxError::NotFound { id })?,
            history: outbox.history(id)?,
        })
    }

    /// Messages, newest first.
    pub async fn list(&self, filter: MessageFilter) -> Result<Page> {
        self.read(|outbox| outbox.list(&filter))
    }

    /// Dead letters, newest first.
    pub async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Page> {
        self.read(|outbox| outbox.dead_letters(&filter))
    }

    /// The failing destinations, and a page of the failing messages.
    pub async fn failing(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<(Vec<Destination>, Page)> {
        self.read(|outbox| {
            let destinations = outbox.failing_destinations(limits::MAX_PAGE)?;
            Ok((destinations, outbox.failing(before, limit)?))
        })
    }

    /// The numbers of messages, and the destinations, failing ones first.
    pub async fn overview(&self) -> Result<(Counts, Vec<Destination>)> {
        self.read(|outbox| Ok((outbox.counts()?, outbox.destinations(limits::MAX_PAGE)?)))
    }

    /// A page with the newest messages that updates itself.
    pub async fn page(&self, title: String) -> Result<String> {
        let (live, assets) = ("live?format=turbo", "assets");
        match self.there() {
            Some(outbox) => Table.page(&title, outbox, live, assets),
            None => Ok(Table::empty_page(&title, live, assets)),
        }
    }

    /// Cancels a message that has not ended, or discards a dead letter.
    pub async fn remove(&self, id: i64) -> Result<Record, OutboxError> {
        self.of(id)?.remove(id)
    }

    /// Edits a dead letter, if clients may write messages of its kind.
    pub async fn edit(&self, id: i64, payload: String) -> Result<Record, OutboxError> {
        self.of(id)?.edit_open(id, &payload)
    }

    /// Makes a dead letter of a message that has not ended.
    pub async fn give_up(&self, id: i64) -> Result<Record, OutboxError> {
        self.of(id)?.give_up(id)
    }

    /// Redrives a dead letter.
    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.of(id)?.redrive(id)
    }

    /// Redrives dead letters.
    pub async fn redrive_all(&self, filter: DeadLetterFilter) -> Result<BulkResult, OutboxError> {
        self.read(|outbox| outbox.redrive_all(&filter))
    }

    /// Discards dead letters.
    pub async fn discard_all(&self, filter: DeadLetterFilter) -> Result<BulkResult, OutboxError> {
        self.read(|outbox| outbox.discard_all(&filter))
    }

    /// Ends the pause of a destination. True if the destination is known.
    pub async fn resume(&self, destination: String) -> Result<bool> {
        self.read(|outbox| outbox.resume(&destination))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self {
            index: 0,
            error: error.into(),
        }
    }
}
