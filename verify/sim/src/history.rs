//! What was seen from outside the node, in the order in which it happened: all that the checkers know.
//!
//! Clients, the receiver of requests and the objects' own code write to it. What still runs of a life of the process that
//! has ended writes nothing: nobody could have seen it.

pub use crate::receiver::Act;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The number of an operation of a client.
pub type OpId = u32;

/// A value that some operation appends; no other does.
pub type Value = u32;

/// An object that keeps a list.
pub type ObjectNo = u8;

/// An object with an outbox.
pub type SenderNo = u8;

/// The number of a client's WebSocket.
pub type SocketNo = u32;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client sent an operation.
    Began(OpId, Op),
    /// It was answered.
    Ended(OpId, Outcome),
    /// Something from an object arrived outside of it, which shows that its list had this length and last value.
    Seen {
        /// Whose.
        object: ObjectNo,
        /// The length of its list.
        version: u32,
        /// The last value of its list, if it has one.
        last: Option<Value>,
        /// What arrived.
        by: Carrier,
    },
    /// A client sends a value over its WebSocket to an object, which appends it.
    Said(SocketNo, ObjectNo, Value),
    /// A client of an object has got a frame, which says how many broadcasts the object had made with it. The first of a
    /// socket says how many there were before.
    Heard(SocketNo, ObjectNo, u32),
    /// A client's WebSocket has ended.
    Closed(SocketNo),
    /// The handler of an object's alarm began, for the alarm that this value came with.
    Rang {
        /// Whose.
        object: ObjectNo,
        /// What was appended when the alarm was set.
        value: Value,
        /// The time it was set to, in milliseconds since 1970.
        at: i64,
        /// The time by the wall clock.
        now: i64,
    },
    /// The disk was filled.
    Filled,
    /// A message of a sender reached the receiver, as its attempt of this number, with this idempotency key.
    Tried(SenderNo, Value, u32, String, Moment),
    /// The receiver has taken a message: it took effect.
    Took(SenderNo, Value),
    /// At the very end: what a sender's outbox holds, in the order in which it was put there.
    Posted(SenderNo, Vec<OutboxMessage>),
    /// An instance of an object was made. Instances have numbers that no two share.
    Made(ObjectNo, u32),
    /// Code of this instance ran.
    Ran(ObjectNo, u32),
    /// An object's rows do not fit together.
    Torn(ObjectNo, String),
    /// What the wall clock said just before it was set.
    Clock(i64),
    /// An operation that was sent twice under one idempotency key was answered with these places, and then so.
    Differs(OpId, Vec<u32>, String),
    /// The process ended.
    Died(ProcessEnd),
    /// The data directory could not be opened although the disk refused nothing.
    Refused(String),
    /// The node failed although the disk refused nothing.
    Failed(String),
    /// At the very end, on a healthy disk, after a last loss of power: what an object holds.
    Holds(ObjectNo, Vec<Value>),
    /// An operation was not answered although everything was given time.
    Hangs(OpId),
    /// A step of the schedule has been taken; so many changes of the disk were made.
    Stepped(u32, u64),
    /// What the disk holds before the last loss of power, as a number.
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
    /// It was killed; the machine lives on.
    Kill,
    /// The machine lost its power.
    PowerLoss,
    /// It was stopped, and had time to finish.
    Stop,
    /// Its log failed, and it ended itself.
    Failure,
}

/// A message in an outbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutboxMessage {
    /// What it says.
    pub value: Value,
    /// Its ordering key.
    pub key: Option<String>,
    /// Its state.
    pub state: MessageState,
    /// Attempts that were counted.
    pub attempts: u32,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// It was delivered.
    Sent,
    /// It is a dead letter, with a reason.
    Dead,
    /// It waits behind a dead letter.
    Behind,
    /// It is still to be delivered.
    Open,
}

/// When something happened, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moment(pub u64);

/// What a client asks an object for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// These values at the end of its list, in one transaction.
    Append(ObjectNo, Vec<Value>),
    /// One value in a transaction, then another in the next.
    Pair(ObjectNo, [Value; 2]),
    /// The list.
    Read(ObjectNo),
    /// As `Pair`, with the input gate closed, so that nothing comes between.
    Alone(ObjectNo, [Value; 2]),
    /// A value, in a call that is sent twice under one idempotency key.
    Twice(ObjectNo, Value),
    /// A value in a savepoint that then fails.
    Refused(ObjectNo, Value),
    /// A value, and then the handler panics.
    Panic(ObjectNo, Value),
    /// A value, then another one at another object, which it calls.
    Relay(ObjectNo, Value, ObjectNo, Value),
    /// A value, and an alarm after so many milliseconds, whose handler fails so many times and then appends the other value.
    Alarm(ObjectNo, [Value; 2], u32, u32),
    /// A value, and the alarm is deleted.
    Cancel(ObjectNo, Value),
    /// A message to a destination, with or without an ordering key, to whose attempts the receiver does these things.
    Post(SenderNo, u8, Value, Option<u8>, Vec<Act>),
    /// These messages, by a fan-out.
    Circulate(SenderNo, Vec<Value>),
    /// The dead letters are tried again.
    Redrive(SenderNo),
    /// The sender is reset.
    Reset(SenderNo),
    /// A value, then a request to another server that tells of it, then another value.
    Tell(ObjectNo, [Value; 2]),
}

impl Op {
    /// What is written because of it after it was answered.
    pub(crate) fn effect(&self) -> Option<(ObjectNo, Value)> {
        match self {
            Self::Alarm(object, [_, effect], ..) => Some((*object, *effect)),
            _ => None,
        }
    }

    /// What it writes: whose list, the value, and where an answer says that it is, if it says so.
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
            | Self::Reset(_) => Vec::new(),
        };
        writes.into_iter().enumerate().map(|(at, (object, value))| {
            let place = places.get(at).map(|place| *place as usize);
            (object, value, place)
        })
    }
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The values are at these places of their list.
    Placed(Vec<u32>),
    /// The whole list.
    List(Vec<Value>),
    /// It is done.
    Done,
    /// It never ran.
    NotRun(String),
    /// It ran and nothing of it is kept.
    Undone(String),
    /// It may have run.
    Unknown(String),
}

/// What the parts of a simulation share.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    events: Vec<Event>,
    life: u32,
    instances: u32,
}

impl History {
    /// Notes something of the present.
    pub fn note(&self, event: Event) {
        self.lock().events.push(event);
    }

    /// The life of the process that may write now.
    pub fn life(&self) -> u32 {
        self.lock().life
    }

    /// Nothing that belongs to earlier lives is noted any more.
    pub(crate) fn next_life(&self) {
        self.lock().life += 1;
    }

    /// What was noted so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// The operations of the present life that were not answered.
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
                Event::Began(id, _) if !ended.contains(id) => hang.push(*id),
                _ => {}
            }
        }
        hang
    }

    /// A number that tells this history from any other.
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

    /// True while this life lasts.
    pub fn writes(&self) -> bool {
        self.history.life() == self.life
    }

    /// Notes an event, unless this life is over.
    pub fn note(&self, event: Event) {
        let mut inner = self.history.lock();
        if inner.life == self.life {
            inner.events.push(event);
        }
    }

    /// Notes that an instance was made; returns its number.
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
