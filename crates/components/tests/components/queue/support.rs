//! A node on an in-memory disk with queues, and a scripted consumer.

pub(crate) use abide_harness::run;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::queue::{
    self, Batch, Consumer, Counts, Queue, QueueMessage, QueueOptions, QueueShard, Queues,
    RetryPolicy,
};
use abide::{
    Fetching, NodeBuilder, Outbound,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};

use crate::world::{self, Setup};

/// What a consumer does with a message.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Acknowledged by a mark, whatever the batch does.
    Ack,
    Retry(Option<Duration>),
    Refuse,
    /// Not now: this is no attempt.
    Wait,
    /// The consumer asks for patience.
    Throttle(Duration),
    /// The whole batch fails.
    Fail,
    Panic,
    Hang,
    /// Hangs if another batch runs at the same time.
    HangUnlessAlone,
}

/// A batch, as the consumer saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) queue: String,
    /// Milliseconds since the clock began.
    pub(crate) at: u64,
    pub(crate) bodies: Vec<String>,
    pub(crate) attempts: Vec<u32>,
    pub(crate) ids: Vec<String>,
}

/// What is to happen, and what has. Outlives nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    acts: HashMap<String, VecDeque<Act>>,
    seen: Vec<Seen>,
    running: usize,
    most: usize,
    life: usize,
    /// Requests that were sent, with their bodies, and what they are answered.
    requests: Vec<String>,
    answers: VecDeque<Answer>,
    /// When requests were sent, in milliseconds since the clock began.
    sent_at: Vec<u64>,
    clock: Option<TestClock>,
    /// Bodies that the consumer has taken.
    taken: BTreeSet<String>,
    /// Bodies of batches for which the consumer has asked for patience.
    throttled: BTreeSet<String>,
}

/// A response of the scripted server.
#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    retry_after: Option<String>,
    body: String,
}

impl Script {
    /// What happens at a message's next attempts; then all goes well.
    pub(crate) fn say(&self, body: &str, acts: impl IntoIterator<Item = Act>) {
        let mut inner = self.0.lock().unwrap();
        inner.acts.entry(body.to_owned()).or_default().extend(acts);
    }

    pub(crate) fn answer(&self, status: u16, body: &str) {
        self.push(status, None, body);
    }

    /// Several times, with a `Retry-After`.
    pub(crate) fn answer_later(&self, times: usize, status: u16, retry_after: &str) {
        for _ in 0..times {
            self.push(status, Some(retry_after.to_owned()), "");
        }
    }

    fn push(&self, status: u16, retry_after: Option<String>, body: &str) {
        self.0.lock().unwrap().answers.push_back(Answer {
            status,
            retry_after,
            body: body.to_owned(),
        });
    }

    /// When requests were sent, in milliseconds since the clock began.
    pub(crate) fn sent_at(&self) -> Vec<u64> {
        self.0.lock().unwrap().sent_at.clone()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().seen.clone()
    }

    /// All bodies in the order in which they were seen.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let seen = self.seen();
        seen.into_iter().flat_map(|seen| seen.bodies).collect()
    }

    /// Bodies of batches for which the consumer has asked for patience.
    pub(crate) fn throttled(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().throttled.clone()
    }

    /// True if the consumer has taken a body, and said so.
    pub(crate) fn has_taken(&self, body: &str) -> bool {
        self.0.lock().unwrap().taken.contains(body)
    }

    /// From now on the consumer sees nothing until there is another node.
    fn end_life(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.life += 1;
        inner.running = 0;
    }

    fn take(&self, body: &str) {
        self.0.lock().unwrap().taken.insert(body.to_owned());
    }

    /// When a body was seen, in milliseconds.
    pub(crate) fn times(&self, body: &str) -> Vec<u64> {
        let seen = self.seen().into_iter();
        seen.filter(|seen| seen.bodies.iter().any(|other| other == body))
            .map(|seen| seen.at)
            .collect()
    }

    /// Most batches at a time.
    pub(crate) fn most(&self) -> usize {
        self.0.lock().unwrap().most
    }
}

/// Answers requests as the script says.
impl Outbound for Script {
    fn fetch(&self, request: Request) -> Fetching {
        let script = self.clone();
        Box::pin(async move {
            let body = axum::body::to_bytes(request.into_body(), usize::MAX).await;
            let mut inner = script.0.lock().unwrap();
            let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
            inner.requests.push(body);
            let now = inner.clock.as_ref().unwrap().now().as_millis();
            inner.sent_at.push(u64::try_from(now).unwrap());
            let Some(answer) = inner.answers.pop_front() else {
                return Ok(Response::builder().status(204).body(Body::empty()).unwrap());
            };
            let mut response = Response::builder().status(answer.status);
            if let Some(after) = answer.retry_after {
                response = response.header("retry-after", after);
            }
            Ok(response.body(Body::from(answer.body)).unwrap())
        })
    }
}

/// The consumer, and for which life of the process it works: one that was killed does nothing any more.
pub(crate) struct Scripted(pub(crate) Script, pub(crate) usize);

impl Consumer for Scripted {
    type Body = String;

    async fn consume(&self, batch: &Batch<String>) -> Result<()> {
        let clock = Arc::clone(batch.env().clock());
        let acts = {
            let mut inner = self.0.0.lock().unwrap();
            if inner.life == self.1 {
                let messages = batch.messages().iter();
                inner.seen.push(Seen {
                    queue: batch.queue().to_owned(),
                    at: u64::try_from(clock.now().as_millis()).unwrap(),
                    bodies: messages.clone().map(|m| m.body.clone()).collect(),
                    attempts: messages.clone().map(queue::Received::attempt).collect(),
                    ids: messages.clone().map(|m| m.id().to_string()).collect(),
                });
                inner.running += 1;
                inner.most = inner.most.max(inner.running);
                Some(
                    messages
                        .map(|m| inner.acts.get_mut(&m.body).and_then(VecDeque::pop_front))
                        .collect::<Vec<_>>(),
                )
            } else {
                None
            }
        };
        let Some(acts) = acts else {
            return std::future::pending().await;
        };
        let _running = Running(&self.0, self.1);
        // So that batches of one pass are on their way together.
        tokio::task::yield_now().await;
        let mut result = Ok(());
        let (mut unmarked, mut throttled) = (Vec::new(), None);
        for (message, act) in batch.messages().iter().zip(acts) {
            match act {
                None => unmarked.push(&message.body),
                Some(Act::Ack) => {
                    message.ack();
                    self.0.take(&message.body);
                }
                Some(Act::Retry(after)) => message.retry(after, "not now"),
                Some(Act::Refuse) => message.refuse("never"),
                Some(Act::Wait) => message.wait("not yet"),
                Some(Act::Throttle(after)) => throttled = Some(after),
                Some(Act::Fail) => result = Err(Error::new("the script says so")),
                Some(Act::Panic) => panic!("the script says so"),
                Some(Act::Hang) => return std::future::pending().await,
                Some(Act::HangUnlessAlone) => {
                    if self.0.0.lock().unwrap().running > 1 {
                        return std::future::pending().await;
                    }
                    unmarked.push(&message.body);
                }
            }
        }
        if let Some(after) = throttled {
            let bodies = batch.messages().iter().map(|message| message.body.clone());
            self.0.0.lock().unwrap().throttled.extend(bodies);
            batch.wait(Some(after), "busy");
        } else if result.is_ok() {
            for body in unmarked {
                self.0.take(body);
            }
        }
        result
    }
}

/// Counts a batch that runs, until this is dropped.
struct Running<'a>(&'a Script, usize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock().unwrap();
        if inner.life == self.1 {
            inner.running -= 1;
        }
    }
}

/// Makes the queues of a life of the process.
type Make = Box<dyn Fn(&Script, usize) -> Queues>;

/// What consumes, and from which queues.
pub(crate) struct Consumers {
    pub(crate) script: Script,
    make: Make,
}

impl Setup for Consumers {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        let life = self.script.0.lock().unwrap().life;
        node.class::<QueueShard>(queue::class_options())
            .class::<crate::queue::elsewhere::Ledger>(ClassOptions::default())
            .with((self.make)(&self.script, life))
            .outbound(Arc::new(self.script.clone()))
            .workers(2)
    }

    fn end_life(&mut self) {
        self.script.end_life();
    }

    fn seen(&self) -> String {
        format!("{:#?}", self.script.seen())
    }
}

pub(crate) type World = world::World<Consumers>;

impl World {
    pub(crate) fn new(make: impl Fn(&Script, usize) -> Queues + 'static) -> Self {
        let (clock, script) = (TestClock::new(), Script::default());
        script.0.lock().unwrap().clock = Some(clock.clone());
        let make = Box::new(make);
        Self::at(clock, Consumers { script, make })
    }

    /// Another node, with other queues.
    pub(crate) fn with(self, make: impl Fn(&Script, usize) -> Queues + 'static) -> Self {
        self.restarted_with(|consumers| consumers.make = Box::new(make))
    }

    pub(crate) fn queue(&self, name: &str) -> Queue {
        Queue::new(self.node.env(), name).unwrap()
    }

    pub(crate) async fn send(&self, bodies: &[&str]) {
        let messages = bodies.iter().map(|body| message(body)).collect();
        self.queue("words").send_batch(messages).await.unwrap();
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.queue("words").counts().await.unwrap()
    }

    /// Waits until something is so, and does not move the clock.
    pub(crate) async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        self.wait(Duration::ZERO, what, so).await;
    }

    /// Moves the clock until something is so; asks no object meanwhile, unless `so` does.
    pub(crate) async fn pass_until(&self, what: &str, so: impl AsyncFn() -> bool) {
        self.wait(Duration::from_millis(100), what, so).await;
    }

    /// Waits until this many messages were consumed and none is left.
    pub(crate) async fn until_consumed(&self, count: i64) {
        self.until("all is consumed", async || {
            let counts = self.counts().await;
            counts.consumed == count && counts.messages == 0
        })
        .await;
    }

    /// The same, and moves the clock.
    pub(crate) async fn pass_until_consumed(&self, count: i64) {
        self.pass_until_decided().await;
        assert_eq!(self.counts().await.consumed, count);
    }

    /// Moves the clock until each message was consumed or given up.
    pub(crate) async fn pass_until_decided(&self) {
        self.pass_until("all is decided", async || self.counts().await.messages == 0)
            .await;
    }

    /// The counts agree with what the shards hold: all that is left can be discarded, and nothing remains.
    pub(crate) async fn check_empty(&self) {
        let counts = self.counts().await;
        assert_eq!((counts.messages, counts.bytes, counts.dead), (0, 0, 0));
        assert_eq!(counts.oldest, None);
    }
}

pub(crate) fn message(body: &str) -> QueueMessage {
    QueueMessage::new(body).unwrap()
}

/// A queue `words` of one shard, whose retries come after 1 s, 2 s, 4 s, exactly.
pub(crate) fn plain() -> QueueOptions {
    QueueOptions::default()
        .retry(RetryPolicy::Schedule(
            [1, 2, 4].map(Duration::from_secs).to_vec(),
        ))
        .jitter(false)
}

pub(crate) fn words(script: &Script, life: usize) -> Queues {
    words_with(plain())(script, life)
}

/// The same with other options.
pub(crate) fn words_with(options: QueueOptions) -> impl Fn(&Script, usize) -> Queues {
    move |script, life| {
        let consumer = Scripted(script.clone(), life);
        Queues::new().with("words", options.clone(), consumer)
    }
}
