//! A node on a disk in memory whose objects hold outboxes, and a handler that does what a test's script says.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abide::{
    Fetching, Node, Outbound, SimDisk, Store, StoreOptions,
    clock::{Clock, Sleep, TestClock},
    prelude::*,
};
use abide_patterns::deliver::HttpDelivery;
use abide_patterns::outbox::{
    self, Batch, Change, Counts, DeadLetterFilter, Deliver, Delivery, Destination, Enqueued,
    Failure, FanOut, FanOutRecord, Filter, Message, Options, Outbox, OutboxError, Page, Polled,
    Record, Registry, Status, Submitted, Swept,
};
use serde::{Deserialize, Serialize};

/// Requests are answered with 200.
impl Outbound for Script {
    fn fetch(&self, request: Request) -> Fetching {
        let mut inner = self.0.lock().unwrap();
        inner.requests.push(request.uri().to_string());
        Box::pin(std::future::ready(Ok(Response::new(Body::empty()))))
    }
}

/// A test that hangs fails instead, after far longer than any of them takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs a test to its end.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, test).await })
        .expect("the test hangs");
    runtime.shutdown_background();
}

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
    /// Does this when the script says that it is time.
    Later(Box<Act>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    acts: HashMap<String, VecDeque<Act>>,
    calls: Vec<Call>,
    /// Texts that were told that this node is too busy, each as often as it was.
    not_sent: Vec<String>,
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
        made - inner.not_sent.iter().filter(|not| *not == text).count()
    }

    /// Most attempts at a time so far.
    pub(crate) fn most(&self) -> usize {
        self.0.lock().unwrap().most
    }

    /// What to do; `None` if the process was killed.
    fn next(&self, life: usize, call: Call) -> Option<Act> {
        let mut inner = self.0.lock().unwrap();
        if life != inner.life {
            return None;
        }
        let act = inner.acts.get_mut(&call.text).and_then(VecDeque::pop_front);
        if matches!(&act, Some(Act::Submit(Err(failure))) if *failure == Failure::not_sent("busy here"))
        {
            inner.not_sent.push(call.text.clone());
        }
        inner.calls.push(call);
        inner.running += 1;
        inner.most = inner.most.max(inner.running);
        Some(act.unwrap_or(Act::Well))
    }

    /// It is time for what was to happen later.
    pub(crate) fn now(&self) {
        self.0.lock().unwrap().now = true;
    }

    fn is_now(&self) -> bool {
        self.0.lock().unwrap().now
    }

    fn kill(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.life += 1;
        inner.running = 0;
    }

    fn life(&self) -> usize {
        self.0.lock().unwrap().life
    }

    fn ended(&self, life: usize) {
        let mut inner = self.0.lock().unwrap();
        if life == inner.life {
            inner.running -= 1;
        }
    }

    fn effect(&self, text: &str, key: &str) {
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
pub(crate) struct Scripted(Script, usize);

impl Scripted {
    fn call(delivery: &Delivery, note: &Note, poll: Option<&str>) -> Call {
        Call {
            to: note.to.clone(),
            text: note.text.clone(),
            key: delivery.idempotency_key().to_owned(),
            attempt: delivery.attempt(),
            at: delivery.now() - TestClock::START_UNIX_MILLIS.cast_signed(),
            poll: poll.map(str::to_owned),
            unknown: delivery.unknown(),
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
            Act::Poll(result) => result,
            Act::Panic => panic!("the script says so"),
            Act::Hang | Act::TakeAndHang => std::future::pending().await,
            Act::Submit(_) | Act::Later(_) => panic!("the script expected an attempt"),
        }
    }
}

/// So many notes to all.
pub(crate) struct Circular;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Circulate {
    /// What their texts begin with.
    pub(crate) name: String,
    pub(crate) count: usize,
    /// Fails at this one.
    pub(crate) fails_at: Option<usize>,
}

impl FanOut for Circular {
    type Command = Circulate;
    const NAME: &'static str = "circular";

    fn batch(
        &self,
        _storage: &Storage,
        command: &Circulate,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch> {
        let start: usize = after.map_or(0, |after| after.parse().unwrap());
        let end = command.count.min(start + limit);
        if command
            .fails_at
            .is_some_and(|at| (start..end).contains(&at))
        {
            return Err(Error::new("the script says so"));
        }
        let name = &command.name;
        let messages = (start..end).map(|number| note("all", &format!("{name}note {number}")));
        Ok(Batch {
            messages: messages.collect(),
            next: (end < command.count).then(|| end.to_string()),
        })
    }
}

#[derive(Clone)]
struct Settings(Arc<Options>);

/// An object with an outbox.
#[durable_object]
pub(crate) struct Sender {
    state: State,
    outbox: Outbox,
}

impl DurableObject for Sender {
    fn new(state: State, env: Env) -> Result<Self> {
        let settings = env.require::<Settings>()?;
        let outbox = Outbox::open(&state, env.require::<Registry>()?, (*settings.0).clone())?;
        Ok(Self { state, outbox })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        if self.outbox.take_alarm()? {
            let now = self.state.env().clock().unix_millis();
            self.state.storage().put("rang", &now)?;
        }
        self.outbox.alarm()
    }
}

#[rpc]
#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
impl Sender {
    pub async fn enqueue(&self, message: Message) -> Result<Enqueued, OutboxError> {
        self.outbox.enqueue(&message)
    }

    pub async fn enqueue_all(&self, messages: Vec<Message>) -> Result<(), OutboxError> {
        for message in &messages {
            self.outbox.enqueue(message)?;
        }
        Ok(())
    }

    /// Enqueues, and then does not commit.
    pub async fn enqueue_and_panic(&self, message: Message) -> Result<(), OutboxError> {
        self.outbox.enqueue(&message)?;
        panic!("the test wants it")
    }

    pub async fn enqueue_and_roll_back(&self, message: Message) -> Result<(), OutboxError> {
        let outcome = self.state.storage().transaction_sync(|| {
            self.outbox.enqueue(&message)?;
            Err::<(), OutboxError>(OutboxError::Invalid("undone".to_owned()))
        });
        assert!(outcome.is_err());
        Ok(())
    }

    pub async fn fan_out(&self, command: Circulate) -> Result<i64, OutboxError> {
        self.outbox.fan_out::<Circular>(&command)
    }

    pub async fn fan_outs(&self) -> Result<Vec<FanOutRecord>> {
        self.outbox.fan_outs(10)
    }

    pub async fn cancel_fan_out(&self, id: i64) -> Result<FanOutRecord, OutboxError> {
        self.outbox.cancel_fan_out(id)
    }

    pub async fn resume_fan_out(&self, id: i64) -> Result<FanOutRecord, OutboxError> {
        self.outbox.resume_fan_out(id)
    }

    pub async fn get(&self, id: i64) -> Result<Option<Record>> {
        self.outbox.get(id)
    }

    pub async fn payload(&self, id: i64) -> Result<Option<String>> {
        self.outbox.payload(id)
    }

    pub async fn history(&self, id: i64) -> Result<Vec<Change>> {
        self.outbox.history(id)
    }

    pub async fn list(&self, filter: Filter) -> Result<Page> {
        self.outbox.list(&filter)
    }

    pub async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Page> {
        self.outbox.dead_letters(&filter)
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn destinations(&self) -> Result<Vec<Destination>> {
        self.outbox.destinations(10)
    }

    pub async fn cancel(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.cancel(id)
    }

    pub async fn edit(&self, id: i64, payload: String) -> Result<Record, OutboxError> {
        self.outbox.edit(id, &payload)
    }

    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.redrive(id)
    }

    pub async fn discard(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.discard(id)
    }

    pub async fn redrive_all(&self, filter: DeadLetterFilter) -> Result<Swept, OutboxError> {
        self.outbox.redrive_all(&filter)
    }

    /// Sets the alarm, as an object does that has times of its own.
    pub async fn set_own_alarm(&self, at: i64) -> Result<()> {
        self.outbox.set_alarm(Some(at))
    }

    /// When the object's own alarm went off.
    pub async fn rang(&self) -> Result<Option<u64>> {
        self.state.storage().get("rang")
    }

    pub async fn alarm_time(&self) -> Result<Option<i64>> {
        Ok(self
            .state
            .storage()
            .get_alarm()?
            .map(AlarmTime::unix_millis))
    }

    /// How the database would run a query.
    pub async fn plan(&self, query: String) -> Result<Vec<String>> {
        let sql = self.state.storage().sql();
        let steps: Vec<(i64, i64, i64, String)> = sql
            .exec(&format!("EXPLAIN QUERY PLAN {query}"), ())?
            .to_array()?;
        Ok(steps.into_iter().map(|step| step.3).collect())
    }

    /// Compares the counts with the rows.
    pub async fn counts_are_right(&self) -> Result<bool> {
        let sql = self.state.storage().sql();
        let counts = self.outbox.counts()?;
        let by_status = [
            ("queued", counts.queued),
            ("sending", counts.sending),
            ("sent", counts.sent),
            ("canceled", counts.canceled),
            ("discarded", counts.discarded),
        ];
        for (status, count) in by_status {
            let rows: i64 = sql
                .exec(
                    "SELECT count(*) FROM outbox_messages WHERE status = ?1",
                    (status,),
                )?
                .one()?;
            if rows != count {
                return Ok(false);
            }
        }
        let dead: i64 = sql
            .exec("SELECT count(*) FROM outbox_dead_letters", ())?
            .one()?;
        Ok(dead == counts.failed)
    }

    /// Returns when everything that was written before is durable, and what waited for that has run.
    pub async fn fence(&self) -> Result<()> {
        let storage = self.state.storage();
        let passed: i64 = storage.get("fences")?.unwrap_or(0);
        storage.put("fences", &(passed + 1))?;
        storage.sync().await
    }

    pub async fn reset(&self) -> Result<()> {
        self.state.abort("the test wants it");
        Ok(())
    }
}

/// A clock whose wall time can be set, as people do.
#[derive(Clone, Default)]
pub(crate) struct Wall {
    clock: TestClock,
    back: Arc<AtomicU64>,
}

impl Wall {
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Sets the wall time back.
    pub(crate) fn set_back(&self, millis: u64) {
        self.back.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Wall {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn unix_millis(&self) -> u64 {
        self.clock.unix_millis() - self.back.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.clock.sleep_until(deadline)
    }
}

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Wall,
    pub(crate) node: Node,
    pub(crate) script: Script,
    options: Options,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        Self::at(Wall::default(), SimDisk::new(), Script::default(), options)
    }

    pub(crate) fn at(clock: Wall, disk: SimDisk, script: Script, options: Options) -> Self {
        let time = clock.clone();
        let store_options = StoreOptions {
            unix_millis: Arc::new(move || time.unix_millis()),
            ..StoreOptions::small()
        };
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), store_options).unwrap();
        let registry = Registry::new()
            .with(Scripted(script.clone(), script.life()))
            .with_kind("other", Scripted(script.clone(), script.life()))
            .with(HttpDelivery::new())
            .with_fan_out(Circular);
        let node = Node::builder(store)
            .class::<Sender>("SENDER", outbox::class_options())
            .with(registry)
            .with(Settings(Arc::new(options.clone())))
            .clock(Arc::new(clock.clone()))
            .outbound(Arc::new(script.clone()))
            .workers(1)
            .start()
            .unwrap();
        Self {
            disk,
            clock,
            node,
            script,
            options,
        }
    }

    /// Another node, on what a kill of this one leaves.
    pub(crate) fn killed(self) -> Self {
        self.script.kill();
        Self::at(
            self.clock.clone(),
            self.disk.after_kill(),
            self.script.clone(),
            self.options.clone(),
        )
    }

    /// Another node, on what a power failure leaves of the disk.
    pub(crate) fn crashed(self, seed: u64) -> Self {
        self.script.kill();
        Self::at(
            self.clock.clone(),
            self.disk.crash(seed),
            self.script.clone(),
            self.options.clone(),
        )
    }

    pub(crate) fn sender(&self) -> Stub<Sender> {
        self.node.env().object::<Sender>().get_by_name("ada")
    }

    pub(crate) async fn enqueue(&self, message: Message) -> i64 {
        self.sender().enqueue(message).await.unwrap().unwrap().id
    }

    pub(crate) async fn get(&self, id: i64) -> Record {
        self.sender().get(id).await.unwrap().unwrap().unwrap()
    }

    pub(crate) async fn status(&self, id: i64) -> Status {
        self.get(id).await.status
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.sender().counts().await.unwrap().unwrap()
    }

    /// Waits until a message is so.
    pub(crate) async fn until(&self, id: i64, so: impl Fn(&Record) -> bool) -> Record {
        loop {
            let record = self.get(id).await;
            if so(&record) {
                return record;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the counts are so.
    pub(crate) async fn until_counts(&self, so: impl Fn(Counts) -> bool) -> Counts {
        loop {
            let counts = self.counts().await;
            if so(counts) {
                return counts;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock, in steps in which alarms and attempts have time to happen.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(500);
        let mut left = time;
        self.rest().await;
        while !left.is_zero() {
            let now = left.min(step);
            self.clock.advance(now);
            left -= now;
            self.rest().await;
        }
    }

    /// Lets everything happen that can without the clock moving: until nothing has changed for a while in which what was
    /// written became durable several times.
    pub(crate) async fn rest(&self) {
        let mut quiet = 0;
        let mut before = None;
        while quiet < 3 {
            for _ in 0..3 {
                self.sender().fence().await.unwrap().unwrap();
            }
            let now = self.clock.unix_millis().cast_signed();
            let alarm = self.sender().alarm_time().await.unwrap().unwrap();
            let seen = Some((self.script.calls().len(), self.counts().await, alarm));
            if seen == before && alarm.is_none_or(|at| at > now) {
                quiet += 1;
            } else {
                quiet = 0;
            }
            before = seen;
        }
    }

    /// Events of a message's history.
    pub(crate) async fn events(&self, id: i64) -> Vec<String> {
        let history = self.sender().history(id).await.unwrap().unwrap();
        history.into_iter().map(|change| change.event).collect()
    }

    pub(crate) async fn check_counts(&self) {
        assert!(self.sender().counts_are_right().await.unwrap().unwrap());
    }
}

pub(crate) fn note(to: &str, text: &str) -> Message {
    let note = Note {
        to: to.to_owned(),
        text: text.to_owned(),
    };
    Scripted::message(&note).unwrap()
}

pub(crate) fn refused() -> Act {
    Act::Submit(Err(Failure::refused("busy")))
}

/// As fast as possible, retries after 1 s, 2 s, 4 s… exactly.
pub(crate) fn plain() -> Options {
    let waits = [1, 2, 4, 8].map(Duration::from_secs).to_vec();
    Options {
        pace: outbox::Pace::unlimited(16),
        retry: outbox::RetryPolicy::Schedule(waits),
        jitter: false,
        ..Options::default()
    }
}
