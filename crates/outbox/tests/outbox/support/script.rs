//! What a test says that happens to messages, and the handler and the client that do it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::outbox::{Deliver, Delivery, Failure, Fate, Polled, Submitted};
use abide::{Fetching, Outbound, clock::TestClock, prelude::*};
use serde::{Deserialize, Serialize};

/// What a message of the tests says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) to: String,
    pub(crate) text: String,
}

/// A call of the handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) to: String,
    pub(crate) text: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    /// Milliseconds since the clock began.
    pub(crate) at: i64,
    pub(crate) poll: Option<String>,
    pub(crate) unknown: bool,
    /// True if nothing left: this node had too much to do.
    pub(crate) not_sent: bool,
}

/// What the handler does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Submit(Result<Submitted, Failure>),
    Poll(Result<Polled, Failure>),
    /// All goes well.
    Well,
    Panic,
    Hang,
    /// Takes it, and hangs: the answer is lost.
    TakeAndHang,
    /// All goes well after a time.
    After(Duration),
    /// Does this when the script says that it is time.
    Later(Box<Act>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    acts: HashMap<String, VecDeque<Act>>,
    calls: Vec<Call>,
    /// Texts that were told that this node or their destination is too busy, each as often as it was.
    not_counted: Vec<String>,
    running: usize,
    most: usize,
    /// Whether it is time for what was to happen later.
    now: bool,
    /// How often the process was killed.
    life: usize,
    /// Keys of what has taken effect, in order.
    effects: Vec<(String, String)>,
    /// The addresses of requests.
    requests: Vec<String>,
}

impl Script {
    /// What happens to a text's next attempts and polls, one after the other; then all goes well.
    pub(crate) fn say(&self, text: &str, acts: impl IntoIterator<Item = Act>) {
        let mut inner = self.0.lock().unwrap();
        inner.acts.entry(text.to_owned()).or_default().extend(acts);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().calls.clone()
    }

    /// When a text was tried.
    pub(crate) fn times(&self, text: &str) -> Vec<i64> {
        self.calls()
            .iter()
            .filter(|call| call.text == text)
            .map(|call| call.at)
            .collect()
    }

    /// The texts that had an effect, each as often as it had one at a receiver that knows no keys.
    pub(crate) fn effects(&self) -> Vec<String> {
        let inner = self.0.lock().unwrap();
        inner.effects.iter().map(|(text, _)| text.clone()).collect()
    }

    /// The texts of the last attempts and polls, in the order in which they began.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let calls = self.calls();
        let last = &calls[calls.len().saturating_sub(count)..];
        last.iter().map(|call| call.text.clone()).collect()
    }

    /// The same with the keys under which they had it.
    pub(crate) fn keyed_effects(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().effects.clone()
    }

    /// Where requests have gone to.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// How many attempts of a text were made that count.
    pub(crate) fn attempts(&self, text: &str) -> usize {
        let inner = self.0.lock().unwrap();
        let made = |call: &&Call| call.text == text && call.poll.is_none();
        let made = inner.calls.iter().filter(made).count();
        made - inner.not_counted.iter().filter(|not| *not == text).count()
    }

    /// Most attempts at a time so far.
    pub(crate) fn most(&self) -> usize {
        self.0.lock().unwrap().most
    }

    /// What to do; `None` if the process was killed.
    pub(super) fn next(&self, life: usize, call: Call) -> Option<Act> {
        let mut inner = self.0.lock().unwrap();
        if life != inner.life {
            return None;
        }
        let act = inner.acts.get_mut(&call.text).and_then(VecDeque::pop_front);
        if matches!(&act, Some(Act::Submit(Err(failure))) if matches!(failure.fate(), Fate::NotSent | Fate::Throttled))
        {
            inner.not_counted.push(call.text.clone());
        }
        let not_sent = matches!(&act, Some(Act::Submit(Err(failure)) | Act::Poll(Err(failure))) if failure.fate() == Fate::NotSent);
        inner.calls.push(Call { not_sent, ..call });
        inner.running += 1;
        inner.most = inner.most.max(inner.running);
        Some(act.unwrap_or(Act::Well))
    }

    /// It is time for what was to happen later.
    pub(crate) fn now(&self) {
        self.0.lock().unwrap().now = true;
    }

    pub(super) fn is_now(&self) -> bool {
        self.0.lock().unwrap().now
    }

    pub(super) fn kill(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.life += 1;
        inner.running = 0;
    }

    pub(super) fn life(&self) -> usize {
        self.0.lock().unwrap().life
    }

    pub(super) fn ended(&self, life: usize) {
        let mut inner = self.0.lock().unwrap();
        if life == inner.life {
            inner.running -= 1;
        }
    }

    pub(super) fn effect(&self, text: &str, key: &str) {
        let mut inner = self.0.lock().unwrap();
        inner.effects.push((text.to_owned(), key.to_owned()));
    }
}

/// Counts an attempt that runs, until this is dropped.
struct Running<'a>(&'a Script, usize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.ended(self.1);
    }
}

/// The handler, and for which life of the process it works: one that was killed does nothing any more.
pub(crate) struct Scripted(pub(super) Script, pub(super) usize);

impl Scripted {
    pub(crate) fn new(script: &Script) -> Self {
        Self(script.clone(), script.life())
    }

    pub(super) fn call(delivery: &Delivery, note: &Note, poll: Option<&str>) -> Call {
        Call {
            to: note.to.clone(),
            text: note.text.clone(),
            key: delivery.idempotency_key().to_owned(),
            attempt: delivery.attempt(),
            at: delivery.now() - TestClock::START_UNIX_MILLIS.cast_signed(),
            poll: poll.map(str::to_owned),
            unknown: delivery.unknown(),
            not_sent: false,
        }
    }
}

impl Deliver for Scripted {
    type Payload = Note;
    const KIND: &'static str = "note";

    fn check(&self, note: &Note) -> Result<(), String> {
        if note.text.is_empty() {
            return Err("a note has a text".to_owned());
        }
        Ok(())
    }

    fn destination(&self, note: &Note) -> String {
        note.to.clone()
    }

    /// What stands before a slash: several destinations may share it.
    fn origin(&self, note: &Note) -> Option<String> {
        let (origin, _) = note.to.split_once('/')?;
        Some(origin.to_owned())
    }

    fn summary(&self, note: &Note) -> String {
        note.text.clone()
    }

    async fn submit(&self, delivery: &Delivery, note: &Note) -> Result<Submitted, Failure> {
        let Some(act) = self.0.next(self.1, Self::call(delivery, note, None)) else {
            return std::future::pending().await;
        };
        let _running = Running(&self.0, self.1);
        // So that attempts of one pass are on their way together.
        tokio::task::yield_now().await;
        let act = match act {
            Act::Later(act) => {
                while !self.0.is_now() {
                    tokio::task::yield_now().await;
                }
                *act
            }
            act => act,
        };
        match act {
            Act::Well => {
                self.0.effect(&note.text, delivery.idempotency_key());
                Ok(Submitted::Done)
            }
            Act::Submit(result) => {
                if result.is_ok() {
                    self.0.effect(&note.text, delivery.idempotency_key());
                }
                result
            }
            Act::After(time) => {
                let clock = delivery.env().clock();
                clock.sleep_until(clock.now() + time).await;
                self.0.effect(&note.text, delivery.idempotency_key());
                Ok(Submitted::Done)
            }
            Act::Panic => panic!("the script says so"),
            Act::Hang => std::future::pending().await,
            Act::TakeAndHang => {
                self.0.effect(&note.text, delivery.idempotency_key());
                std::future::pending().await
            }
            Act::Poll(_) | Act::Later(_) => panic!("the script expected a poll"),
        }
    }

    async fn poll(
        &self,
        delivery: &Delivery,
        note: &Note,
        operation: &str,
    ) -> Result<Polled, Failure> {
        let call = Self::call(delivery, note, Some(operation));
        let Some(act) = self.0.next(self.1, call) else {
            return std::future::pending().await;
        };
        let _running = Running(&self.0, self.1);
        match act {
            Act::Well => Ok(Polled::Done),
            Act::After(time) => {
                let clock = delivery.env().clock();
                clock.sleep_until(clock.now() + time).await;
                Ok(Polled::Done)
            }
            Act::Poll(result) => result,
            Act::Panic => panic!("the script says so"),
            Act::Hang | Act::TakeAndHang => std::future::pending().await,
            Act::Submit(_) | Act::Later(_) => panic!("the script expected an attempt"),
        }
    }
}

/// Requests are answered with 200.
impl Outbound for Script {
    fn fetch(&self, request: Request) -> Fetching {
        let mut inner = self.0.lock().unwrap();
        inner.requests.push(request.uri().to_string());
        Box::pin(std::future::ready(Ok(Response::new(Body::empty()))))
    }
}
