//! The metrics of outboxes.
//!
//! Contract: outboxes are summed up by class, and their destinations by name: the first
//! [`limits::MAX_SHOWN_DESTINATIONS`] have their own labels, and the others share one. An outbox that leaves memory
//! with pending work is shown in its last state until it returns.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

use abide::ObjectId;
use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

use super::limits;

const MESSAGES: &str = "abide_outbox_messages_total";
const CIRCUITS: &str = "abide_outbox_circuits_opened_total";
const QUEUED: &str = "abide_outbox_queued";
const WAITING: &str = "abide_outbox_waiting";
const SENDING: &str = "abide_outbox_sending";
const FAILING: &str = "abide_outbox_failing";
const DEAD: &str = "abide_outbox_dead_letters";
const OLDEST: &str = "abide_outbox_oldest_message_timestamp_seconds";
const IN_FLIGHT: &str = "abide_outbox_in_flight";
const OPEN: &str = "abide_outbox_open_circuits";

/// The label of all destinations without their own label.
const OTHER: &str = "other";

/// An event of a message or of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Sent,
    /// To be retried.
    Retried,
    /// To be retried: its destination throttles.
    Throttled,
    /// To be retried: this node was overloaded.
    NotSent,
    /// A dead letter.
    Dead,
    /// A callback has failed and is called again.
    CallbackFailed,
    /// A callback has failed for the last time.
    CallbackGivenUp,
    /// A circuit breaker has opened that was closed.
    CircuitOpened,
}

impl Event {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Retried => "retried",
            Self::Throttled => "throttled",
            Self::NotSent => "not_sent",
            Self::Dead => "dead",
            Self::CallbackFailed => "callback_failed",
            Self::CallbackGivenUp => "callback_given_up",
            Self::CircuitOpened => "circuit_opened",
        }
    }
}

/// The contents of an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) queued: i64,
    pub(super) sending: i64,
    pub(super) failing: i64,
    pub(super) dead: i64,
    /// Since when the oldest message could be attempted, in milliseconds since 1970.
    pub(super) oldest: Option<i64>,
    /// Messages that wait for an attempt, by destination, within bounds.
    pub(super) waiting: Vec<(String, i64)>,
    /// Attempts and polls in flight, by destination.
    pub(super) in_flight: HashMap<String, i64>,
    /// Destinations whose circuit is open.
    pub(super) open: Vec<String>,
}

/// The outboxes of a program.
#[derive(Default)]
pub(crate) struct Board(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    outboxes: HashMap<ObjectId, Shown>,
    classes: HashMap<String, Class>,
    destinations: BTreeSet<String>,
    counters: HashMap<(String, String, Event), Counter>,
}

/// The shown state of an outbox.
struct Shown {
    class: String,
    holding: Contents,
}

/// The sums of a class.
struct Class {
    name: String,
    queued: Sum,
    sending: Sum,
    failing: Sum,
    dead: Sum,
    oldest: Gauge,
    times: BTreeSet<(i64, ObjectId)>,
    waiting: HashMap<String, Sum>,
    in_flight: HashMap<String, Sum>,
    open: HashMap<String, Sum>,
}

struct Sum {
    gauge: Gauge,
    value: i64,
}

impl Sum {
    fn new(gauge: Gauge) -> Self {
        Self { gauge, value: 0 }
    }

    fn add(&mut self, more: i64) {
        self.value += more;
    }

    fn show(&self) {
        self.gauge.set(self.value as f64);
    }
}

impl Class {
    fn new(class: &str) -> Self {
        let of = |name: &'static str| gauge!(name, "class" => class.to_owned());
        Self {
            name: class.to_owned(),
            queued: Sum::new(of(QUEUED)),
            sending: Sum::new(of(SENDING)),
            failing: Sum::new(of(FAILING)),
            dead: Sum::new(of(DEAD)),
            oldest: of(OLDEST),
            times: BTreeSet::new(),
            waiting: HashMap::new(),
            in_flight: HashMap::new(),
            open: HashMap::new(),
        }
    }
}

impl Board {
    /// Counts events, of this many messages each.
    pub(super) fn count(&self, class: &str, event: Event, destination: &str, messages: u64) {
        describe();
        let sums = &mut *self.sums();
        let label = label(&mut sums.destinations, destination);
        let key = (class.to_owned(), label, event);
        let counter = sums.counters.entry(key).or_insert_with_key(|key| {
            let (class, destination, event) = key;
            let (class, destination) = (class.clone(), destination.clone());
            match event {
                Event::CircuitOpened => {
                    counter!(CIRCUITS, "class" => class, "destination" => destination)
                }
                _ => {
                    counter!(MESSAGES, "class" => class, "destination" => destination, "event" => event.as_str())
                }
            }
        });
        counter.increment(messages);
    }

    /// Updates the contents of an outbox.
    pub(super) fn show(&self, class: &str, outbox: ObjectId, holding: Contents) {
        describe();
        let sums = &mut *self.sums();
        let is_known = sums.outboxes.contains_key(&outbox);
        if !is_known && sums.outboxes.len() >= limits::MAX_SHOWN_OUTBOXES {
            return;
        }
        let of_class = sums
            .classes
            .entry(class.to_owned())
            .or_insert_with(|| Class::new(class));
        if let Some(before) = sums.outboxes.remove(&outbox) {
            of_class.add(&mut sums.destinations, outbox, &before.holding, -1);
        }
        of_class.add(&mut sums.destinations, outbox, &holding, 1);
        of_class.show();
        let shown = Shown {
            class: class.to_owned(),
            holding,
        };
        sums.outboxes.insert(outbox, shown);
    }

    /// An outbox has left memory. Nothing of it is in flight any more.
    pub(super) fn leave(&self, outbox: ObjectId) {
        let sums = &mut *self.sums();
        let Some(Shown { class, mut holding }) = sums.outboxes.remove(&outbox) else {
            return;
        };
        let Some(of_class) = sums.classes.get_mut(&class) else {
            return;
        };
        of_class.add(&mut sums.destinations, outbox, &holding, -1);
        holding.in_flight.clear();
        if holding != Contents::default() {
            of_class.add(&mut sums.destinations, outbox, &holding, 1);
        }
        of_class.show();
        if holding != Contents::default() {
            sums.outboxes.insert(outbox, Shown { class, holding });
        }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Class {
    /// Adds or subtracts the contents of an outbox.
    fn add(
        &mut self,
        destinations: &mut BTreeSet<String>,
        outbox: ObjectId,
        holding: &Contents,
        sign: i64,
    ) {
        self.queued.add(sign * holding.queued);
        self.sending.add(sign * holding.sending);
        self.failing.add(sign * holding.failing);
        self.dead.add(sign * holding.dead);
        if let Some(at) = holding.oldest {
            let time = (at, outbox);
            if sign > 0 {
                self.times.insert(time);
            } else {
                self.times.remove(&time);
            }
        }
        for (destination, count) in &holding.waiting {
            let label = label(destinations, destination);
            self.waiting
                .entry(label)
                .or_insert_with_key(|label| of_destination(WAITING, &self.name, label))
                .add(sign * count);
        }
        #[allow(
            clippy::iter_over_hash_type,
            reason = "sums do not depend on the order"
        )]
        for (destination, count) in &holding.in_flight {
            let label = label(destinations, destination);
            self.in_flight
                .entry(label)
                .or_insert_with_key(|label| of_destination(IN_FLIGHT, &self.name, label))
                .add(sign * count);
        }
        for destination in &holding.open {
            let label = label(destinations, destination);
            self.open
                .entry(label)
                .or_insert_with_key(|label| of_destination(OPEN, &self.name, label))
                .add(sign);
        }
    }

    fn show(&self) {
        let sums = [&self.queued, &self.sending, &self.failing, &self.dead];
        let by_destination = [&self.waiting, &self.in_flight, &self.open];
        let by_destination = by_destination.into_iter().flat_map(HashMap::values);
        sums.into_iter().chain(by_destination).for_each(Sum::show);
        let oldest = self.times.first().map(|(at, _)| *at as f64 / 1e3);
        self.oldest.set(oldest.unwrap_or(f64::NAN));
    }
}

fn of_destination(name: &'static str, class: &str, destination: &str) -> Sum {
    let (class, destination) = (class.to_owned(), destination.to_owned());
    Sum::new(gauge!(name, "class" => class, "destination" => destination))
}

/// The label of a destination: its name without a query, which may hold a secret.
fn label(known: &mut BTreeSet<String>, destination: &str) -> String {
    let name = destination.split(['?', '#']).next().unwrap_or_default();
    if !known.contains(name) {
        if known.len() >= limits::MAX_SHOWN_DESTINATIONS {
            return OTHER.to_owned();
        }
        known.insert(name.to_owned());
    }
    name.to_owned()
}

fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        describe_counter!(
            MESSAGES,
            "Results of outbox attempts: sent, retried, throttled, not_sent, dead."
        );
        describe_counter!(
            CIRCUITS,
            "Circuit breakers of outbox destinations that opened."
        );
        describe_gauge!(QUEUED, "Messages of outboxes that wait for an attempt.");
        describe_gauge!(
            WAITING,
            "Messages of outboxes that wait for an attempt at a destination, at most 1,000 of each outbox, without those behind \
             others with their ordering key."
        );
        describe_gauge!(
            SENDING,
            "Messages of outboxes with an attempt in flight, or accepted by a receiver that is processing them."
        );
        describe_gauge!(
            FAILING,
            "Failing messages of outboxes, which would otherwise have been given up."
        );
        describe_gauge!(DEAD, "Dead letters of outboxes.");
        describe_gauge!(
            OLDEST,
            Unit::Seconds,
            "Since when the oldest undelivered message could be attempted, in Unix time; NaN if there is none."
        );
        describe_gauge!(IN_FLIGHT, "Attempts and polls of outboxes in flight.");
        describe_gauge!(OPEN, "Destinations of outboxes whose circuit is open.");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(number: u8) -> ObjectId {
        format!("{number:02x}").repeat(32).parse().unwrap()
    }

    fn holding(queued: i64, oldest: Option<i64>) -> Contents {
        Contents {
            queued,
            oldest,
            ..Contents::default()
        }
    }

    fn sums(board: &Board) -> (i64, Option<i64>, usize) {
        let sums = board.sums();
        let class = &sums.classes["SHOP"];
        let oldest = class.times.first().map(|(at, _)| *at);
        (class.queued.value, oldest, sums.outboxes.len())
    }

    #[test]
    fn metrics_of_a_class_include_outboxes_of_hibernated_objects() {
        let board = Board::default();
        board.show("SHOP", outbox(1), holding(5, Some(100)));
        board.show("SHOP", outbox(2), holding(3, Some(50)));
        assert_eq!(sums(&board), (8, Some(50), 2));
        board.show("SHOP", outbox(2), holding(1, Some(200)));
        board.leave(outbox(1));
        assert_eq!(sums(&board), (6, Some(100), 2));
        board.show("SHOP", outbox(1), holding(0, None));
        board.leave(outbox(1));
        assert_eq!(sums(&board), (1, Some(200), 1));
    }

    #[test]
    fn destinations_beyond_the_first_have_one_label_and_none_shows_its_query() {
        let mut known = BTreeSet::new();
        let secret = label(&mut known, "https://example.com/hook?token=secret");
        assert_eq!(secret, "https://example.com/hook");
        for number in 0..1_000 {
            label(&mut known, &format!("host{number}"));
        }
        assert_eq!(known.len(), limits::MAX_SHOWN_DESTINATIONS);
        assert_eq!(label(&mut known, "host0"), "host0");
        assert_eq!(label(&mut known, "host999"), OTHER);
    }
}
