//! The observations from outside the node, in order: the only input of the checkers.
//!
//! Clients, the receiver of requests and the objects' own code write to it. Code left from an earlier life of the
//! process writes nothing: it could not have been observed.

pub use crate::receiver::Act;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The number of an operation of a client.
pub type OpId = u32;

/// A value appended by a single operation.
pub type Value = u32;

/// An object that keeps a list.
pub type ObjectNo = u8;

/// An object with an outbox.
pub type SenderNo = u8;

/// An object that keeps one value, which can be erased.
pub type SlateNo = u8;

/// The number of a client's WebSocket.
pub type SocketNo = u32;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client sent an operation.
    Began(OpId, Op),
    /// It was answered.
    Ended(OpId, Outcome),
    /// A message of an object arrived outside of it, which shows its list's length and last value.
    Seen {
        /// The object.
        object: ObjectNo,
        /// The length of its list.
        version: u32,
        /// The last value of its list, if it has one.
        last: Option<Value>,
        /// The kind of message.
        by: Carrier,
    },
    /// A client sends a value over its WebSocket to an object, which appends it.
    Said(SocketNo, ObjectNo, Value),
    /// A client has received a frame with the number of the object's broadcasts including it. The first frame of a
    /// socket has the number before it was opened.
    Heard(SocketNo, ObjectNo, u32),
    /// A client's WebSocket has ended.
    Closed(SocketNo),
    /// The handler of an object's alarm began, for the alarm that was set with this value.
    Rang {
        /// The object.
        object: ObjectNo,
        /// The value that was appended when the alarm was set.
        value: Value,
        /// The time it was set to, in milliseconds since 1970.
        at: i64,
        /// The time by the wall clock.
        now: i64,
    },
    /// A message of a sender reached the receiver, as its attempt of this number, with this idempotency key.
    Tried(SenderNo, Value, u32, String, Moment),
    /// The receiver has accepted a message: it took effect.
    Took(SenderNo, Value),
    /// At the very end: an outbox's content, in the order of enqueueing.
    Posted(SenderNo, Vec<OutboxMessage>),
    /// An instance of an object with an outbox was created. The attempts of the last one may have had no recorded end.
    Opened(SenderNo),
    /// The alarm of a slate erases it.
    Wiped(SlateNo),
    /// The bytes that a slate keeps do not go with its value.
    Smudged(SlateNo),
    /// The disk works from here on.
    Healed,
    /// At the very end: whether a slate that has left memory exists. Before and after a last checkpoint, and after the
    /// last power loss.
    Exists {
        /// The slate.
        slate: SlateNo,
        /// It is found by its name.
        found: bool,
        /// It is listed.
        listed: bool,
    },
    /// At the very end: a slate's state.
    Shows(SlateNo, Option<Value>),
    /// An instance of an object was created. Instance numbers are unique.
    Made(ObjectNo, u32),
    /// Code of this instance ran.
    Ran(ObjectNo, u32),
    /// An object's rows are inconsistent.
    Torn(ObjectNo, String),
    /// The time of the wall clock just before it was set.
    Clock(i64),
    /// An operation sent twice under one idempotency key got these positions first, and another answer then.
    Differs(OpId, Vec<u32>, String),
    /// The process ended.
    Died(ProcessEnd),
    /// The node copies its log, and awaits the copy before it acknowledges anything, or not.
    Copies(bool),
    /// The log is durable on this machine up to this position: all that was acknowledged before is before it.
    Durable(u64),
    /// The node says that what is before this position is copied.
    Copied(u64),
    /// The data directory could not be opened although the disk works.
    Refused(String),
    /// The node failed although the disk works.
    Failed(String),
    /// At the very end, on a healthy disk, after a last power loss: an object's content.
    Holds(ObjectNo, Vec<Value>),
    /// An operation was not answered although everything had enough time.
    Hangs(OpId),
    /// A step of the schedule was executed; with the number of disk changes.
    Stepped(u32, u64),
    /// A hash of the disk's content before the last power loss.
    Disk(u64),
}

/// How something left an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// The answer to a client.
    Answer,
    /// A call of another object.
    Call,
    /// A request to another server.
    Request,
    /// A frame of a WebSocket.
    Frame,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessEnd {
    /// It was killed; the machine continued.
    Kill,
    /// The machine lost power.
    PowerLoss,
    /// It was stopped cleanly.
    Stop,
    /// Its log failed, and it stopped itself.
    Failure,
    /// Its machine was lost, and replaced by another one with the newest copy. The process may still run.
    Loss,
}

/// A message in an outbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutboxMessage {
    /// Its value.
    pub value: Value,
    /// Its ordering key.
    pub key: Option<String>,
    /// Its state.
    pub state: MessageState,
    /// Counted attempts.
    pub attempts: u32,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// It was delivered.
    Sent,
    /// It is a dead letter, with a reason.
    Dead,
    /// It waits for a preceding dead letter.
    Behind,
    /// It has not been delivered yet.
    Open,
}

/// When something happened, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moment(pub u64);

/// An operation of a client on an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Appends these values, in one transaction.
    Append(ObjectNo, Vec<Value>),
    /// Appends one value in a transaction, then another in the next.
    Pair(ObjectNo, [Value; 2]),
    /// Reads the list.
    Read(ObjectNo),
    /// Like `Pair`, with the input gate closed, so that nothing comes in between.
    Alone(ObjectNo, [Value; 2]),
    /// Appends a value, in a call that is sent twice under one idempotency key.
    Twice(ObjectNo, Value),
    /// Appends a value in a savepoint that then fails.
    Refused(ObjectNo, Value),
    /// Appends a value, and then the handler panics.
    Panic(ObjectNo, Value),
    /// Appends a value, then another one at another object, which it calls.
    Relay(ObjectNo, Value, ObjectNo, Value),
    /// Appends a value, and sets an alarm after this many milliseconds, whose handler fails this many times and then
    /// appends the other value.
    Alarm(ObjectNo, [Value; 2], u32, u32),
    /// Appends a value, and deletes the alarm.
    Cancel(ObjectNo, Value),
    /// Sends a message to a destination, with or without an ordering key; the receiver handles its attempts like this.
    Post(SenderNo, u8, Value, Option<u8>, Vec<Act>),
    /// Sends these messages, by a fan-out.
    Circulate(SenderNo, Vec<Value>),
    /// Redrives the dead letters.
    Redrive(SenderNo),
    /// Resets the sender.
    Reset(SenderNo),
    /// Appends a value, sends it to another server, then appends another value.
    Tell(ObjectNo, [Value; 2]),
    /// Writes a value to a slate, and sets an alarm that erases it after this many milliseconds, or deletes the alarm.
    Write(SlateNo, Value, Option<u32>),
    /// Erases a slate.
    Erase(SlateNo),
    /// Reads a slate.
    Look(SlateNo),
}

impl Op {
    /// The value that is written because of it after it was answered.
    pub(crate) fn effect(&self) -> Option<(ObjectNo, Value)> {
        match self {
            Self::Alarm(object, [_, effect], ..) => Some((*object, *effect)),
            _ => None,
        }
    }

    /// Its writes: the list, the value, and the position in the answer, if any.
    pub(crate) fn written<'a>(
        &'a self,
        places: &'a [u32],
    ) -> impl Iterator<Item = (ObjectNo, Value, Option<usize>)> + 'a {
        let writes: Vec<(ObjectNo, Value)> = match self {
            Self::Append(object, values) => values.iter().map(|value| (*object, *value)).collect(),
            Self::Pair(object, values)
            | Self::Alone(object, values)
            | Self::Tell(object, values) => values.iter().map(|value| (*object, *value)).collect(),
            Self::Panic(object, value)
            | Self::Refused(object, value)
            | Self::Twice(object, value)
            | Self::Alarm(object, [value, _], ..)
            | Self::Cancel(object, value) => vec![(*object, *value)],
            Self::Relay(from, value, to, other) => vec![(*from, *value), (*to, *other)],
            Self::Read(_)
            | Self::Post(..)
            | Self::Circulate(..)
            | Self::Redrive(_)
            | Self::Reset(_)
            | Self::Write(..)
            | Self::Erase(_)
            | Self::Look(_) => Vec::new(),
        };
        writes.into_iter().enumerate().map(|(at, (object, value))| {
            let place = places.get(at).map(|place| *place as usize);
            (object, value, place)
        })
    }
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The values are at these positions of their list.
    Placed(Vec<u32>),
    /// The whole list.
    List(Vec<Value>),
    /// The state of a slate.
    State(Option<Value>),
    /// It is done.
    Done,
    /// It never ran.
    NotRun(String),
    /// It ran, and none of its writes are kept.
    Undone(String),
    /// It may have run.
    Unknown(String),
}

/// The history shared by the parts of a simulation.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    events: Vec<Event>,
    life: u32,
    instances: u32,
    /// The life that continues although its machine was given up.
    zombie: Option<u32>,
    /// Operations that were sent to it.
    strays: BTreeSet<OpId>,
}

impl History {
    /// Records an event of the present life.
    pub fn note(&self, event: Event) {
        self.lock().events.push(event);
    }

    /// The life of the process that may write now.
    pub fn life(&self) -> u32 {
        self.lock().life
    }

    /// Ends the present life: its later events are not recorded.
    pub(crate) fn next_life(&self) {
        self.lock().life += 1;
    }

    /// As [`Self::next_life`], but what the present life acknowledges later is still recorded.
    pub(crate) fn give_up(&self) {
        let mut inner = self.lock();
        inner.zombie = Some(inner.life);
        inner.life += 1;
    }

    /// The events so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// The unanswered operations of the present life.
    pub(crate) fn unanswered(&self) -> Vec<OpId> {
        let inner = self.lock();
        let present = inner.events.iter().rev();
        let present = present.take_while(|event| !matches!(event, Event::Died(_)));
        let (mut ended, mut hang) = (BTreeSet::new(), Vec::new());
        for event in present {
            match event {
                Event::Ended(id, _) => {
                    ended.insert(*id);
                }
                Event::Began(id, _) if !ended.contains(id) && !inner.strays.contains(id) => {
                    hang.push(*id);
                }
                _ => {}
            }
        }
        hang
    }

    /// A hash of this history.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lock().events.hash(&mut hasher);
        hasher.finish()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records events for as long as one life of the process lasts.
#[derive(Clone, Debug)]
pub struct Recorder {
    history: History,
    life: u32,
}

impl Recorder {
    pub(crate) fn new(history: &History) -> Self {
        Self {
            history: history.clone(),
            life: history.life(),
        }
    }

    /// Returns true while this life lasts.
    pub fn writes(&self) -> bool {
        self.history.life() == self.life
    }

    /// Records an event, unless this life is over.
    pub fn note(&self, event: Event) {
        let mut inner = self.history.lock();
        if inner.life == self.life {
            inner.events.push(event);
        } else if inner.zombie == Some(self.life) {
            // What it does inside is its own concern.
            match &event {
                Event::Began(id, _) => drop(inner.strays.insert(*id)),
                Event::Ended(..) | Event::Seen { .. } => {}
                _ => return,
            }
            inner.events.push(event);
        }
    }

    /// Records that an instance was created; returns its number.
    pub(crate) fn made(&self, object: ObjectNo) -> u32 {
        let number = {
            let mut inner = self.history.lock();
            inner.instances += 1;
            inner.instances
        };
        self.note(Event::Made(object, number));
        number
    }
}
