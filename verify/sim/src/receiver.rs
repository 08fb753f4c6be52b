//! The receiver of messages: it handles each as scheduled, and records those that have taken effect.
//!
//! It is another machine: its state survives the node's lives, and attempts of an earlier life no longer reach it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use abide::outbox::{Deliver, Delivery, Failure, Polled, Submitted};
use serde::{Deserialize, Serialize};

use crate::history::{Event, Moment, Recorder, SenderNo, Value};

/// How the receiver handles one attempt, or one poll of an accepted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Act {
    /// Rejects; a retry may succeed.
    Refuse,
    /// Rejects, with a `Retry-After`.
    Throttle,
    /// Rejects permanently.
    Reject,
    /// Accepts, with an operation to poll.
    Accept,
    /// Never responds.
    Hang,
    /// Accepts, but the response is lost.
    Lose,
    /// The handler panics.
    Panic,
}

/// The content of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) from: SenderNo,
    pub(crate) to: u8,
    pub(crate) value: Value,
}

/// Clones share the same receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver(Arc<Mutex<BTreeMap<Value, VecDeque<Act>>>>);

impl Receiver {
    /// Scripts the handling of a message; afterwards it is accepted.
    pub(crate) fn plan(&self, value: Value, acts: &[Act]) {
        self.acts().entry(value).or_default().extend(acts);
    }

    fn next(&self, value: Value) -> Option<Act> {
        self.acts().get_mut(&value).and_then(VecDeque::pop_front)
    }

    fn acts(&self) -> MutexGuard<'_, BTreeMap<Value, VecDeque<Act>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers the messages of one life to the receiver.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverDelivery {
    pub(crate) recorder: Recorder,
    pub(crate) receiver: Receiver,
}

impl ReceiverDelivery {
    fn act(&self, value: Value) -> Option<Act> {
        self.receiver.next(value)
    }

    fn takes(&self, note: &Note) {
        self.recorder.note(Event::Took(note.from, note.value));
    }
}

impl Deliver for ReceiverDelivery {
    type Payload = Note;
    const KIND: &'static str = "note";

    fn destination(&self, note: &Note) -> String {
        format!("receiver {}", note.to)
    }

    fn summary(&self, note: &Note) -> String {
        note.value.to_string()
    }

    async fn submit(&self, delivery: &Delivery, note: &Note) -> Result<Submitted, Failure> {
        if !self.recorder.writes() {
            return std::future::pending().await;
        }
        let key = delivery.idempotency_key().to_owned();
        let now = Moment(delivery.env().clock().now().as_millis() as u64);
        self.recorder.note(Event::Tried(
            note.from,
            note.value,
            delivery.attempt(),
            key,
            now,
        ));
        tokio::task::yield_now().await;
        match self.act(note.value) {
            None => {
                self.takes(note);
                Ok(Submitted::Done)
            }
            Some(Act::Refuse) => Err(Failure::refused("busy")),
            Some(Act::Throttle) => Err(Failure::throttled("slow", Some(Duration::from_secs(2)))),
            Some(Act::Reject) => Err(Failure::permanent("gone")),
            Some(Act::Accept) => {
                self.takes(note);
                Ok(Submitted::Accepted {
                    operation: "operation".into(),
                    after: None,
                })
            }
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Lose) => {
                self.takes(note);
                std::future::pending().await
            }
            Some(Act::Panic) => panic!("{}", crate::ON_PURPOSE),
        }
    }

    async fn poll(
        &self,
        _delivery: &Delivery,
        note: &Note,
        _operation: &str,
    ) -> Result<Polled, Failure> {
        if !self.recorder.writes() {
            return std::future::pending().await;
        }
        match self.act(note.value) {
            None | Some(Act::Accept | Act::Lose) => Ok(Polled::Done),
            Some(Act::Refuse | Act::Reject) => Err(Failure::refused("503")),
            Some(Act::Throttle) => Ok(Polled::Running { after: None }),
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Panic) => panic!("{}", crate::ON_PURPOSE),
        }
    }
}
