//! The state that the clones of an outbox share.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
    fmt,
    rc::Rc,
    sync::Arc,
};

use abide::{Ctx, Result};
use sha2::{Digest, Sha256};

use super::{
    FanOutStatus, NAME, OutboxError, OutboxMessage, OutboxOptions, Priority, Registry,
    claim::Claim,
    flights::Flights,
    limits,
    metrics::Contents,
    outcome::Outcome,
    overload::Overload,
    polls::Reserved,
    registry::Accepted,
    rows::{New, Rows},
};
use abide_component::WakeUp;
use abide_component::numbers::millis;
use abide_component::suspects::Suspects;
use abide_component::worker::Worker;

/// One object's outbox.
pub(super) struct Inner {
    pub(super) ctx: Ctx,
    /// Makes the passes.
    pub(super) worker: Worker,
    pub(super) registry: Arc<Registry>,
    pub(super) rows: Rows,
    /// Attempts in flight, by destination.
    pub(super) flights: RefCell<Flights>,
    /// Whether this node is overloaded.
    pub(super) overload: Cell<Overload>,
    /// Whether others are stopped while a suspect is attempted alone.
    pub(super) suspects: Suspects,
    /// What the current tick is to poll.
    pub(super) reserved: RefCell<Reserved>,
    /// Messages that were ended while in flight, in transactions that may be rolled back: their attempts are to be
    /// interrupted.
    pub(super) ended: RefCell<BTreeSet<i64>>,
    /// Results that could not be written yet. Their messages are still in flight.
    pub(super) unwritten: RefCell<Vec<(Claim, Outcome)>>,
    /// When a pass last found the outbox's bucket full.
    pub(super) was_full_at: Cell<i64>,
    /// When to update the metrics again.
    show_at: Cell<i64>,
    waiting: RefCell<Counted>,
    /// Counts the turns of destinations.
    turns: Cell<i64>,
    /// The fan-out that has made the last batch.
    pub(super) last_fan_out: Cell<i64>,
}

impl Inner {
    pub(super) fn open(
        ctx: &Ctx,
        registry: Arc<Registry>,
        options: OutboxOptions,
    ) -> Result<Rc<Self>> {
        let inner = Rc::new(Self {
            ctx: ctx.clone(),
            worker: Worker::new(ctx, WakeUp::new(ctx, NAME)),
            registry,
            rows: Rows::open(ctx, options)?,
            flights: RefCell::default(),
            overload: Cell::default(),
            suspects: Suspects::default(),
            reserved: RefCell::default(),
            ended: RefCell::default(),
            unwritten: RefCell::default(),
            was_full_at: Cell::new(0),
            show_at: Cell::new(0),
            waiting: RefCell::default(),
            turns: Cell::new(0),
            last_fan_out: Cell::new(0),
        });
        inner.rows.callbacks.belong_to(&inner);
        Ok(inner)
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }

    /// Adds a message. `Ok(None)` if one with its dedup key exists. Call it in a transaction: a refusal may come late.
    pub(super) fn add(
        &self,
        message: &OutboxMessage,
        fan_out: Option<i64>,
        now: i64,
    ) -> Result<Added, OutboxError> {
        let hash = message.dedup_key.as_ref().map(|_| content(message));
        if let Some(key) = &message.dedup_key
            && let Some((id, known)) = self.rows.with_dedup_key(key)?
        {
            return if hash.as_deref() == Some(known.as_slice()) {
                Ok(Added::Known(id))
            } else {
                Err(OutboxError::KeyReused { id })
            };
        }
        let accepted = self.check(message, now)?;
        let max = self.rows.options.max_queued;
        let Some(id) = self.rows.count_new(max)? else {
            return Err(OutboxError::Full { max });
        };
        let schedule = match &message.schedule {
            Some(waits) => Some(serde_json::to_string(waits).map_err(abide::Error::from_std)?),
            None => None,
        };
        let new = New {
            id,
            idempotency_key: &self.key(id, 0, &message.payload, now),
            kind: &message.kind,
            payload: &message.payload,
            destination: &accepted.destination,
            origin: accepted.origin.as_deref(),
            summary: &accepted.summary,
            dedup_key: message.dedup_key.as_deref(),
            dedup_hash: hash,
            ordering_key: message.ordering_key.as_deref(),
            priority: match message.priority {
                Priority::High => 0,
                Priority::Normal => 1,
                Priority::Low => 2,
            },
            schedule,
            not_before: message.not_before,
            deadline: message.deadline,
            fan_out,
        };
        self.rows.insert(&new, now)?;
        Ok(Added::New(id))
    }

    pub(super) fn check(&self, message: &OutboxMessage, now: i64) -> Result<Accepted, OutboxError> {
        let invalid = |text: String| Err(OutboxError::Invalid(text));
        let handler = self
            .registry
            .handler(&message.kind)
            .map_err(|error| told(&error))?;
        for (what, key) in [
            ("dedup", &message.dedup_key),
            ("ordering", &message.ordering_key),
        ] {
            if let Some(key) = key
                && !(1..=limits::MAX_KEY_BYTES).contains(&key.len())
            {
                return invalid(format!(
                    "the {what} key has {} bytes: give it 1 to {}",
                    key.len(),
                    limits::MAX_KEY_BYTES
                ));
            }
        }
        let max = self
            .rows
            .options
            .max_payload_bytes
            .min(limits::MAX_PAYLOAD_BYTES);
        if message.payload.len() > max {
            return invalid(format!(
                "the payload has {} bytes; at most {max} are accepted: store large data elsewhere and send its address",
                message.payload.len()
            ));
        }
        if message.deadline.is_some_and(|deadline| deadline <= now) {
            return invalid("the deadline has passed".to_owned());
        }
        if message.not_before.is_some_and(|at| at > limits::MAX_TIME) {
            return invalid("not_before is later than the year 9999".to_owned());
        }
        if let (Some(not_before), Some(deadline)) = (message.not_before, message.deadline)
            && not_before >= deadline
        {
            return invalid("the deadline is not after not_before".to_owned());
        }
        if let Some(waits) = &message.schedule
            && (waits.len() > limits::MAX_SCHEDULE
                || waits
                    .iter()
                    .any(|wait| !(0..=millis(limits::MAX_WAIT)).contains(wait)))
        {
            return invalid(format!(
                "a schedule has at most {} waits, in milliseconds from 0 to a year",
                limits::MAX_SCHEDULE
            ));
        }
        handler.take(message).map_err(|error| told(&error))
    }

    /// A message's idempotency key. It includes the payload and the time, because an object that was restored to an
    /// earlier state reuses its ids.
    pub(super) fn key(&self, id: i64, generation: i64, payload: &str, now: i64) -> String {
        let mut hash = Sha256::new();
        hash.update(self.ctx.id().to_string());
        for number in [id, generation, now] {
            hash.update(number.to_le_bytes());
        }
        hash.update(payload);
        let hash = hash.finalize();
        let digits = hash[..16].iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
        let mut key = String::with_capacity(36);
        key.push_str("msg_");
        key.extend(digits);
        key
    }

    /// Gives a message that certainly had no effect a new idempotency key.
    pub(super) fn renew_key(&self, id: i64, now: i64) -> Result<()> {
        let (generation, payload) = self.rows.next_generation(id)?;
        let key = self.key(id, generation, &payload, now);
        self.rows.renew_key(id, &key)
    }

    /// Gives an edited dead letter a new idempotency key.
    pub(super) fn renew_key_of_dead(&self, id: i64, now: i64) -> Result<()> {
        let (generation, payload) = self.rows.next_generation_of("outbox_dead_letters", id)?;
        let key = self.key(id, generation, &payload, now);
        self.rows.renew_key_of("outbox_dead_letters", id, &key)
    }

    /// Wakes the object not later than at this time.
    pub(super) fn arm(&self, at: i64) -> Result<()> {
        self.worker.alarm().not_later_than(at)
    }

    /// Sets the alarm that continues the work if nothing in memory does.
    pub(super) fn guard(&self) -> Result<()> {
        self.worker.guard(self.rows.options.recovery)
    }

    /// The alarm has gone off: continues with what is due.
    pub(super) fn wake(self: &Rc<Self>) -> Result<()> {
        if self.has_work()? {
            self.guard()?;
        }
        self.kick();
        Ok(())
    }

    /// Waits until all writes are durable, and reports their events.
    pub(super) async fn tell(&self) -> Result<()> {
        let count = self.rows.notes.len();
        self.ctx.storage().sync().await?;
        self.tell_durable(count);
        Ok(())
    }

    /// Reports the first this many events.
    pub(super) fn tell_durable(&self, count: usize) {
        let (board, class) = (&self.registry.board, self.ctx.class());
        self.rows.notes.tell(count, board, class, self.ctx.id());
    }

    /// Publishes the outbox's contents to the metrics.
    pub(super) fn show(&self, now: i64) -> Result<()> {
        self.show_at
            .set(now.saturating_add(millis(limits::SHOW_EVERY)));
        self.rows.notes.holding_is_shown();
        let counts = self.rows.counts()?;
        let mut in_flight: HashMap<String, i64> = HashMap::new();
        let flights = self.flights.borrow();
        let polls = flights.polls.each();
        for (destination, count) in flights.to_destination.each().chain(polls) {
            *in_flight.entry(destination.to_owned()).or_default() += i64::from(count);
        }
        let holding = Contents {
            waiting: self.waiting(counts.queued, now)?,
            queued: counts.queued,
            sending: counts.sending,
            failing: counts.failing,
            dead: counts.failed,
            oldest: match counts.queued + counts.sending {
                0 => None,
                _ => self.rows.oldest(now)?,
            },
            in_flight,
            open: self.rows.open_circuits()?,
        };
        let board = &self.registry.board;
        board.show(self.ctx.class(), self.ctx.id(), holding);
        Ok(())
    }

    /// How many of the queued messages wait at each destination, within bounds. They are recounted after a while, and
    /// when their number changes.
    fn waiting(&self, queued: i64, now: i64) -> Result<Vec<(String, i64)>> {
        let mut counted = self.waiting.borrow_mut();
        let until = counted.at.saturating_add(millis(limits::SHOW_EVERY));
        if counted.queued != queued || !(counted.at..until).contains(&now) {
            *counted = Counted {
                waiting: self.count_waiting(queued)?,
                queued,
                at: now,
            };
        }
        Ok(counted.waiting.clone())
    }

    fn count_waiting(&self, queued: i64) -> Result<Vec<(String, i64)>> {
        let mut waiting = Vec::new();
        if queued == 0 {
            return Ok(waiting);
        }
        let most = limits::MAX_SHOWN_DESTINATIONS;
        let due = self.rows.due_destinations(i64::MAX, most)?;
        let due = due.into_iter().map(|row| row.destination);
        // A destination with its maximum of attempts in flight is not due.
        let flights = self.flights.borrow();
        let full = flights.to_destination.each().map(|(to, _)| to.to_owned());
        for destination in due.chain(full.take(most)).collect::<BTreeSet<_>>() {
            let count = self.rows.count_waiting(&destination)?;
            if count > 0 {
                waiting.push((destination, count));
            }
        }
        Ok(waiting)
    }

    /// Publishes the outbox's contents, if they have changed and were not published for a while. Otherwise returns when
    /// to publish them.
    pub(super) fn show_changes(&self, now: i64) -> Result<Option<i64>> {
        if !self.rows.notes.holding_has_changed() {
            return Ok(None);
        }
        // A clock may be set back.
        let latest = now.saturating_add(millis(limits::SHOW_EVERY));
        let at = self.show_at.get().min(latest);
        if at > now {
            return Ok(Some(at));
        }
        self.show(now).map(|()| None)
    }

    /// The number of the next turn. It starts from the activation time, so it increases across activations.
    pub(super) fn next_turn(&self) -> i64 {
        let turn = self.turns.get().max(self.now().saturating_mul(1_000)) + 1;
        self.turns.set(turn);
        turn
    }

    /// True if the object must be kept for the outbox: it has work, or something that waits for an operator.
    pub(super) fn holds(&self) -> Result<bool> {
        if self.has_work()? || self.rows.counts()?.failed > 0 {
            return Ok(true);
        }
        self.rows
            .sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM outbox_fan_outs WHERE status = 'failed')
                     OR EXISTS (SELECT 1 FROM outbox_callbacks)",
                (),
            )?
            .one()
    }

    /// Drops the functions of the program, which may own this.
    pub(super) fn forget_functions(&self) {
        self.rows.callbacks.forget();
        self.rows.changes.forget_listeners();
    }

    /// True if the outbox has anything to do, now or later: messages to deliver, operations to poll, fan-outs to
    /// continue, callbacks to repeat.
    pub(super) fn has_work(&self) -> Result<bool> {
        let counts = self.rows.counts()?;
        if counts.queued + counts.sending > 0 {
            return Ok(true);
        }
        self.rows
            .sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM outbox_fan_outs WHERE status = 'running')
                     OR EXISTS (SELECT 1 FROM outbox_callbacks WHERE next_at IS NOT NULL)",
                (),
            )?
            .one()
    }

    pub(super) fn fan_outs_run(&self) -> Result<bool> {
        self.rows
            .sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM outbox_fan_outs WHERE status = 'running')",
                (),
            )?
            .one()
    }
}

/// How many messages waited at each destination when they were counted.
#[derive(Default)]
struct Counted {
    waiting: Vec<(String, i64)>,
    /// How many were queued then.
    queued: i64,
    at: i64,
}

/// A fingerprint of a message: the beginning of a hash of its kind and payload. It distinguishes it from others with
/// the same dedup key.
fn content(message: &OutboxMessage) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update((message.kind.len() as u64).to_le_bytes());
    hash.update(message.kind.as_bytes());
    hash.update(&message.payload);
    hash.finalize()[..16].to_vec()
}

/// The result of adding a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New(i64),
    /// It existed.
    Known(i64),
}

/// A refusal by the registry, as an error for the caller.
fn told(error: &abide::Error) -> OutboxError {
    OutboxError::Invalid(error.message().to_owned())
}

impl FanOutStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.registry.board.leave(self.ctx.id());
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("ctx", &self.ctx)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
