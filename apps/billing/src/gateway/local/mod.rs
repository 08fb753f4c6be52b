//! A local gateway with fault injection: for tests, and for trying the program.
//!
//! Contract: it is correct where it counts, and as unreliable as real gateways everywhere else. It accepts a payment
//! once for each idempotency key and never charges twice; it also throttles, fails before and after it has done its
//! work, loses responses, is slow, and sends its webhooks twice, late and out of order, or not at all. The same seed
//! and the same requests give the same faults. A card's behavior is determined by its name ([`Card`]).

mod book;
mod card;
mod journal;
mod mischief;
mod outbound;
mod refunds;
mod sender;
pub mod server;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use abide::{clock::Clock, http::Method};
use serde_json::{Value, json};

use book::{Book, Refusal};
use journal::{Change, Entry, Journal, Known};
use mischief::Dice;
use refunds::Refunds;

pub use book::Tally;
pub use card::Card;
pub use mischief::Mischief;

use super::{GatewayEvent, Payment, Refund, RefundEvent, Told};

/// Milliseconds after which a rejected webhook is sent again.
const AGAIN: u64 = 1_000;

/// After a restart, webhooks that were due this many milliseconds before it, or later, are sent; possibly again.
const REMEMBERED: u64 = 60_000;

/// The gateway. Clones share the same one.
#[derive(Clone)]
pub struct LocalGateway {
    key: Arc<str>,
    mischief: Mischief,
    clock: Arc<dyn Clock>,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    book: Book,
    refunds: Refunds,
    dice: Dice,
    /// Webhooks to send, copies included, and when, in milliseconds since 1970.
    events: Vec<(u64, Told)>,
    /// The journal, if the gateway survives its process.
    journal: Option<Journal>,
}

/// A request to the gateway.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) authorization: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) body: &'a [u8],
}

/// The response to the client.
#[derive(Debug)]
pub(super) struct Answer {
    /// Its delay.
    pub(super) delay: std::time::Duration,
    /// The status and the body; `None` if the connection is closed instead.
    pub(super) said: Option<(u16, Value)>,
    /// The `Retry-After` in seconds.
    pub(super) retry_after: Option<u64>,
}

impl LocalGateway {
    /// A gateway whose client has this key.
    pub fn new(key: &str, mischief: Mischief, clock: Arc<dyn Clock>) -> Self {
        Self {
            key: key.into(),
            mischief,
            clock,
            shared: Arc::new(Mutex::new(Shared {
                book: Book::new(mischief.seed),
                refunds: Refunds::default(),
                dice: Dice::new(mischief.seed),
                events: Vec::new(),
                journal: None,
            })),
        }
    }

    /// The same, with a journal file. It has the same payments and refunds when it is opened again with the same seed.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is not a gateway's journal.
    pub fn open(
        key: &str,
        mischief: Mischief,
        clock: Arc<dyn Clock>,
        file: &Path,
    ) -> io::Result<Self> {
        let gateway = Self::new(key, mischief, clock);
        let (journal, entries) = Journal::open(file)?;
        let mut shared = gateway.shared();
        for Entry { at, change } in entries {
            shared.change_again(&mischief, at, change)?;
        }
        let horizon = gateway.clock.unix_millis().saturating_sub(REMEMBERED);
        shared.events.retain(|(at, _)| *at >= horizon);
        shared.journal = Some(journal);
        drop(shared);
        Ok(gateway)
    }

    /// Every payment, in the order in which they were created.
    pub fn payments(&self) -> Vec<Payment> {
        self.shared().book.all().collect()
    }

    /// The totals of all payments.
    pub fn tally(&self) -> Tally {
        self.shared().book.tally()
    }

    /// Every refund, in the order in which they were created.
    pub fn refunds(&self) -> Vec<Refund> {
        self.shared().refunds.all().collect()
    }

    /// Takes the payment webhooks that are due; some are duplicated, and some are late.
    pub fn take_events(&self) -> Vec<GatewayEvent> {
        let told = self.take_all().into_iter();
        told.filter_map(|told| match told {
            Told::Payment(event) => Some(event),
            Told::Refund(_) => None,
        })
        .collect()
    }

    /// The same for payments and refunds.
    pub(super) fn take_all(&self) -> Vec<Told> {
        let now = self.clock.unix_millis();
        let mut shared = self.shared();
        shared.events.sort_by_key(|(at, _)| *at);
        let due = shared.events.partition_point(|(at, _)| *at <= now);
        shared.events.drain(..due).map(|(_, event)| event).collect()
    }

    /// Reschedules a webhook that was rejected.
    pub(super) fn send_again(&self, event: Told) {
        let at = self.clock.unix_millis() + AGAIN;
        self.shared().events.push((at, event));
    }

    /// Payments waiting for customer authentication.
    pub fn waiting(&self) -> Vec<Payment> {
        self.shared().book.waiting().collect()
    }

    /// Completes or fails the customer's authentication. Has no effect if the payment does not wait for it.
    pub fn authenticate(&self, payment: &str, succeeds: bool) -> Option<Payment> {
        let mut shared = self.shared();
        let now = self.clock.unix_millis();
        let change = Change::Authenticated {
            payment: payment.to_owned(),
            succeeds,
        };
        let payment = shared.book.authenticate(payment, succeeds)?;
        shared.announce(&self.mischief, now, &payment);
        if let Err(error) = shared.remember(now, change) {
            tracing::error!(%error, "the local gateway cannot store a customer's authentication");
        }
        Some(payment)
    }

    /// Processes a request, or injects a fault.
    pub(super) fn answer(&self, asked: &Asked<'_>) -> Answer {
        if asked.authorization != format!("Bearer {}", &*self.key) {
            return Answer::of(401, json!({ "error": "The key is not valid." }));
        }
        let shared = &mut *self.shared();
        let fate = shared.dice.roll(&self.mischief);
        if let Some((status, retry_after)) = fate.before {
            return Answer {
                retry_after,
                ..Answer::of(status, json!({ "error": "Injected fault." }))
            };
        }
        if fate.dropped {
            return Answer::nothing();
        }
        let now = self.clock.unix_millis();
        let before = shared.changes();
        let mut answer = match shared.handle(asked, &self.mischief, now) {
            Ok(answer) => Answer::of(200, answer),
            Err(refusal) => Answer::of(refusal.status(), json!({ "error": refusal.to_string() })),
        };
        if shared.changes() != before
            && let Err(error) = shared.remember(now, asked.into())
        {
            tracing::error!(%error, "the local gateway cannot store a request");
            return Answer::of(500, json!({ "error": "The disk cannot be written." }));
        }
        answer.delay = fate.delay;
        if fate.lost {
            answer.said = None;
        } else if fate.broken {
            answer.said = Some((500, json!({ "error": "Injected fault." })));
        }
        answer
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // The state is consistent between any two statements.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&Asked<'_>> for Change {
    fn from(asked: &Asked<'_>) -> Self {
        Self::Asked {
            method: asked.method.to_string(),
            path: asked.path.to_owned(),
            key: asked.key.map(str::to_owned),
            // A request that changed something was valid JSON.
            body: String::from_utf8_lossy(asked.body).into_owned(),
        }
    }
}

impl Shared {
    fn changes(&self) -> u64 {
        self.book.changes() + self.refunds.changes()
    }

    fn remember(&mut self, at: u64, change: Change) -> io::Result<()> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        journal.write(&Entry { at, change })?;
        if journal.has_grown() {
            let known = Known {
                book: std::mem::replace(&mut self.book, Book::new(0)),
                refunds: std::mem::take(&mut self.refunds),
                events: self.events.clone(),
            };
            let mut entry = Entry {
                at,
                change: Change::Known(Box::new(known)),
            };
            let replaced = journal.replace(&entry);
            if let Change::Known(known) = &mut entry.change {
                std::mem::swap(&mut self.book, &mut known.book);
                std::mem::swap(&mut self.refunds, &mut known.refunds);
            }
            // The change itself is written.
            if let Err(error) = replaced {
                tracing::warn!(%error, "cannot compact the local gateway's file");
            }
        }
        Ok(())
    }

    /// Replays a change of an earlier process.
    fn change_again(&mut self, mischief: &Mischief, at: u64, change: Change) -> io::Result<()> {
        let before = self.changes();
        let of_another = || {
            let text = "the file of the local gateway belongs to another seed";
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        match change {
            Change::Known(known) if known.book.seed() == mischief.seed => {
                self.book = known.book;
                self.refunds = known.refunds;
                self.events = known.events;
                return Ok(());
            }
            Change::Known(_) => return Err(of_another()),
            Change::Asked {
                method,
                path,
                key,
                body,
            } => {
                let asked = Asked {
                    method: &method.parse().map_err(io::Error::other)?,
                    path: &path,
                    authorization: "",
                    key: key.as_deref(),
                    body: body.as_bytes(),
                };
                // A rejected request changes nothing, which is reported below.
                let _ = self.handle(&asked, mischief, at);
            }
            Change::Authenticated { payment, succeeds } => {
                if let Some(payment) = self.book.authenticate(&payment, succeeds) {
                    self.announce(mischief, at, &payment);
                }
            }
        }
        if self.changes() == before {
            return Err(of_another());
        }
        Ok(())
    }

    fn handle(
        &mut self,
        asked: &Asked<'_>,
        mischief: &Mischief,
        now: u64,
    ) -> Result<Value, Refusal> {
        let path = asked.path.strip_prefix("/v1/").ok_or(Refusal::NotFound)?;
        let parts: Vec<&str> = path.split('/').collect();
        let key = || asked.key.ok_or(Refusal::NoKey);
        let payment = match (asked.method, &*parts) {
            (&Method::POST, ["payments"]) => self.book.create(key()?, asked.body),
            (&Method::GET, ["payments", id]) => self.book.status(id),
            (&Method::POST, ["payments", id, "confirm"]) => {
                let (payment, fresh) = self.book.confirm(key()?, id)?;
                if fresh {
                    self.announce(mischief, now, &payment);
                }
                Ok(payment)
            }
            (&Method::POST, ["payments", id, "cancel"]) => self.book.cancel(key()?, id),
            (&Method::POST, ["refunds"]) => {
                let (refund, fresh) = self.refunds.create(&self.book, key()?, asked.body)?;
                return Ok(self.answer_of(mischief, now, refund, fresh));
            }
            (&Method::GET, ["refunds", id]) => {
                let (refund, fresh) = self.refunds.status(id)?;
                return Ok(self.answer_of(mischief, now, refund, fresh));
            }
            _ => Err(Refusal::NotFound),
        };
        Ok(json!(payment?))
    }

    fn answer_of(&mut self, mischief: &Mischief, now: u64, refund: Refund, fresh: bool) -> Value {
        let answer = json!(refund);
        if fresh {
            let id = self.book.event_id();
            self.queue(
                mischief,
                now,
                &id.clone(),
                &Told::Refund(RefundEvent { id, refund }),
            );
        }
        answer
    }

    /// Queues the webhook of an event, with its copies.
    fn announce(&mut self, mischief: &Mischief, now: u64, payment: &Payment) {
        let event = GatewayEvent {
            id: self.book.event_id(),
            payment: payment.clone(),
        };
        let id = event.id.clone();
        self.queue(mischief, now, &id, &Told::Payment(event));
    }

    fn queue(&mut self, mischief: &Mischief, now: u64, id: &str, told: &Told) {
        for copy in 0..self.dice.copies(mischief) {
            let at = now + mischief.lateness(id, copy);
            self.events.push((at, told.clone()));
        }
    }
}

impl Answer {
    fn of(status: u16, body: Value) -> Self {
        Self {
            said: Some((status, body)),
            ..Self::nothing()
        }
    }

    fn nothing() -> Self {
        Self {
            delay: std::time::Duration::ZERO,
            said: None,
            retry_after: None,
        }
    }
}

impl std::fmt::Debug for LocalGateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalGateway")
            .field("mischief", &self.mischief)
            .finish_non_exhaustive()
    }
}
