//! A gateway on this machine that behaves badly: for tests, and to try the program with.
//!
//! Contract: it is a gateway as one should be where it counts, and as bad as real ones everywhere else. It takes a
//! payment once for each idempotency key and never takes money twice; it also throttles, fails before and after it has
//! done its work, loses answers, takes its time, and sends its webhooks twice, late and out of order, or not at all. The
//! same seed and the same requests give the same mischief. What a card does is in its name ([`Card`]).

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

/// Milliseconds after which a webhook that was not taken is sent again.
const AGAIN: u64 = 1_000;

/// Webhooks that were to be sent so many milliseconds before the gateway starts again, or later, are sent; perhaps once more.
const REMEMBERED: u64 = 60_000;

/// The gateway. Clones are the same one.
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
    /// Webhooks that wait to be sent, copies included, and when they are, in milliseconds since 1970.
    events: Vec<(u64, Told)>,
    /// Where changes are written, if the gateway outlives its process.
    journal: Option<Journal>,
}

/// A request as the gateway sees it.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) authorization: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) body: &'a [u8],
}

/// What the client gets.
#[derive(Debug)]
pub(super) struct Answer {
    /// How long it takes.
    pub(super) delay: std::time::Duration,
    /// The status and the body; nothing if the connection is closed instead.
    pub(super) said: Option<(u16, Value)>,
    /// Seconds that the client is to wait.
    pub(super) retry_after: Option<u64>,
}

impl LocalGateway {
    /// A gateway that knows its client by this key.
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

    /// The same, which remembers what it was asked in a file. It knows the same payments and refunds when it is opened again with
    /// the same seed.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is none of a gateway.
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

    /// What came of them.
    pub fn tally(&self) -> Tally {
        self.shared().book.tally()
    }

    /// Every refund, in the order in which they were created.
    pub fn refunds(&self) -> Vec<Refund> {
        self.shared().refunds.all().collect()
    }

    /// Takes the webhooks of payments that are to be sent now; some are there twice, and some are late.
    pub fn take_events(&self) -> Vec<GatewayEvent> {
        let told = self.take_all().into_iter();
        told.filter_map(|told| match told {
            Told::Payment(event) => Some(event),
            Told::Refund(_) => None,
        })
        .collect()
    }

    /// The same of payments and of refunds.
    pub(super) fn take_all(&self) -> Vec<Told> {
        let now = self.clock.unix_millis();
        let mut shared = self.shared();
        shared.events.sort_by_key(|(at, _)| *at);
        let due = shared.events.partition_point(|(at, _)| *at <= now);
        shared.events.drain(..due).map(|(_, event)| event).collect()
    }

    /// Sends a webhook again, later: it was not taken.
    pub(super) fn send_again(&self, event: Told) {
        let at = self.clock.unix_millis() + AGAIN;
        self.shared().events.push((at, event));
    }

    /// Payments whose customers must prove who they are.
    pub fn waiting(&self) -> Vec<Payment> {
        self.shared().book.waiting().collect()
    }

    /// The customer proves who they are, or fails to. Nothing happens if the payment does not wait for it.
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
            tracing::error!(%error, "the local gateway will forget that a customer has proved who they are");
        }
        Some(payment)
    }

    /// Does what is asked, or something bad.
    pub(super) fn answer(&self, asked: &Asked<'_>) -> Answer {
        if asked.authorization != format!("Bearer {}", &*self.key) {
            return Answer::of(401, json!({ "error": "The key is not known." }));
        }
        let shared = &mut *self.shared();
        let fate = shared.dice.roll(&self.mischief);
        if let Some((status, retry_after)) = fate.before {
            return Answer {
                retry_after,
                ..Answer::of(status, json!({ "error": "This is a bad day." }))
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
            tracing::error!(%error, "the local gateway cannot remember what it was asked");
            return Answer::of(500, json!({ "error": "The disk cannot be written." }));
        }
        answer.delay = fate.delay;
        if fate.lost {
            answer.said = None;
        } else if fate.broken {
            answer.said = Some((500, json!({ "error": "This is a bad day." })));
        }
        answer
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // What is in it is whole between any two statements.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&Asked<'_>> for Change {
    fn from(asked: &Asked<'_>) -> Self {
        Self::Asked {
            method: asked.method.to_string(),
            path: asked.path.to_owned(),
            key: asked.key.map(str::to_owned),
            // What has changed something was JSON.
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
                tracing::warn!(%error, "the local gateway's file is not shortened");
            }
        }
        Ok(())
    }

    /// Does what was done before the process ended.
    fn change_again(&mut self, mischief: &Mischief, at: u64, change: Change) -> io::Result<()> {
        let before = self.changes();
        let of_another = || {
            let text = "the file of the local gateway is not one of this seed";
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
                // What is refused changes nothing, which is told below.
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

    /// Queues the webhook of what has happened, with its copies.
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
