//! One desk: its tickets, the timers that escalate them, and the webhooks that report closed ones.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use abide::{
    outbox::{
        self, Deliver, Outbox,
        handlers::{Webhook, WebhookDelivery},
    },
    prelude::*,
    schedule::{self, Failure, Firing, Schedule, Spec},
};
use serde::{Deserialize, Serialize};

use crate::{
    live::{self, Event},
    settings::Settings,
    tickets::{Comment, Status, Thread, Ticket, Tickets},
};

/// A desk. Its name is chosen by its clients.
#[durable_object]
pub struct Desk {
    ctx: Ctx,
    tickets: Tickets,
    outbox: Outbox,
    schedule: Schedule,
    settings: Arc<Settings>,
}

/// Why a desk did not do what it was asked. Nothing changed.
#[derive(Debug, Serialize, Deserialize)]
pub enum DeskError {
    /// There is no ticket with this number.
    NoSuchTicket(i64),
    /// The ticket is closed.
    Closed(i64),
    /// The storage or a component failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for DeskError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

#[durable_object]
impl DurableObject for Desk {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let tickets = Tickets::open(ctx.sql())?;
        let outbox = Outbox::open(&ctx, outbox::OutboxOptions::default())?;
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let (desk, rows) = (ctx.clone(), tickets.clone());
        schedule.on_firing(move |firing| escalate(&desk, &rows, firing))?;
        Ok(Self {
            ctx,
            tickets,
            outbox,
            schedule,
            settings: env.require()?,
        })
    }

    /// Opens a live view: the router sends nothing else here.
    fn fetch(&self, _request: Request) -> Result<Response> {
        live::accept(&self.ctx, &self.tickets.list(None, i64::MAX)?)
    }
}

/// A timer has gone off: the ticket has not been closed in time.
fn escalate(ctx: &Ctx, tickets: &Tickets, firing: &Firing) -> Result<(), Failure> {
    let id = firing.metadata()?;
    // However late the timer is, a ticket that was closed in between stays closed.
    if let Some(ticket) = tickets.escalate(id, now(ctx))? {
        live::broadcast(ctx, &Event::Ticket { ticket: &ticket })?;
    }
    Ok(())
}

#[rpc]
impl Desk {
    /// Opens a ticket. The ticket and its timer are written together.
    pub fn create(&self, subject: String, from: String) -> Result<Ticket, DeskError> {
        let now = now(&self.ctx);
        let ticket = self.tickets.add(&subject, &from, now)?;
        let wait = i64::try_from(self.settings.escalate_after.as_millis()).unwrap_or(i64::MAX);
        let spec = Spec::once("escalate", now.saturating_add(wait)).metadata(&ticket.id)?;
        self.schedule.upsert(&timer(ticket.id), &spec)?;
        live::broadcast(&self.ctx, &Event::Ticket { ticket: &ticket })?;
        Ok(ticket)
    }

    /// Adds a comment, to a closed ticket as well.
    pub fn comment(&self, id: i64, author: String, text: String) -> Result<Comment, DeskError> {
        self.ticket(id)?;
        let comment = self
            .tickets
            .add_comment(id, &author, &text, now(&self.ctx))?;
        live::broadcast(&self.ctx, &Event::Comment { ticket: id })?;
        Ok(comment)
    }

    /// Assigns a ticket.
    pub fn assign(&self, id: i64, assignee: String) -> Result<Ticket, DeskError> {
        if self.ticket(id)?.status == Status::Closed {
            return Err(DeskError::Closed(id));
        }
        let ticket = self
            .tickets
            .assign(id, &assignee)?
            .ok_or(DeskError::NoSuchTicket(id))?;
        live::broadcast(&self.ctx, &Event::Ticket { ticket: &ticket })?;
        Ok(ticket)
    }

    /// Closes a ticket. If its webhook cannot be enqueued, the ticket stays open.
    pub fn close(&self, id: i64) -> Result<Ticket, DeskError> {
        self.ticket(id)?;
        let closed = self.tickets.close(id, now(&self.ctx))?;
        let ticket = closed.ok_or(DeskError::Closed(id))?;
        self.schedule.cancel(&timer(id))?;
        if let Some(hook) = &self.settings.hook {
            let data = serde_json::json!({ "desk": self.ctx.name(), "ticket": ticket });
            let event = Webhook::new(&hook.url, "ticket.closed", &data)?;
            WebhookDelivery::enqueue(&self.outbox, &event)?;
        }
        live::broadcast(&self.ctx, &Event::Ticket { ticket: &ticket })?;
        Ok(ticket)
    }

    /// The newest tickets below a number, of one status or of all.
    pub fn list(&self, status: Option<Status>, before: i64) -> Result<Vec<Ticket>> {
        self.tickets.list(status, before)
    }

    /// A ticket with its comments.
    pub fn get(&self, id: i64) -> Result<Thread, DeskError> {
        let ticket = self.ticket(id)?;
        let comments = self.tickets.comments(id)?;
        Ok(Thread { ticket, comments })
    }

    /// Brings the desk back to a moment, in milliseconds since 1970. Returns the bookmark that undoes it.
    pub async fn restore_to(&self, at: u64) -> Result<Bookmark> {
        let then = SystemTime::UNIX_EPOCH + Duration::from_millis(at);
        let bookmark = self.ctx.storage().bookmark_at(then).await?;
        live::end(&self.ctx)?;
        self.ctx.restore(&bookmark)
    }

    fn ticket(&self, id: i64) -> Result<Ticket, DeskError> {
        self.tickets.get(id)?.ok_or(DeskError::NoSuchTicket(id))
    }
}

/// The name of a ticket's timer.
fn timer(ticket: i64) -> String {
    format!("ticket {ticket}")
}

/// Milliseconds since 1970, by the node's clock, which tests can move.
pub(crate) fn now(ctx: &Ctx) -> i64 {
    ctx.now().unix_millis()
}
