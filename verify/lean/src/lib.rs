//! A program without a server: its objects run on a node in its own process, with a schedule, an outbox, a queue, a workflow
//! and a lock.
//!
//! Build and test it alone (`cargo test -p abide-lean`): beside the rest of the workspace, `abide` has all features.

#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use abide::{
    NodeBuilder,
    outbox::{Deliver, Delivery, Failure, Outbox, OutboxOptions, Registry, Submitted},
    patterns::lock,
    prelude::*,
    queue::{self, QueueOptions, Queues},
    schedule::{Firing, Schedule, ScheduleError, ScheduleOptions, Spec},
    workflow::{self, Context, RetryPolicy, Workflow, WorkflowOptions, WorkflowRegistry},
};

/// What has left the program. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn add(&self, text: &str) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.push(text.to_owned());
    }

    /// All of it, in order.
    pub fn all(&self) -> Vec<String> {
        let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.clone()
    }
}

/// Delivers letters.
struct Postman(Sent);

impl Deliver for Postman {
    type Payload = String;
    const KIND: &'static str = "letter";

    async fn submit(&self, _delivery: &Delivery, letter: &String) -> Result<Submitted, Failure> {
        self.0.add(letter);
        Ok(Submitted::Done)
    }
}

/// Writes a letter when its trial ends.
#[durable_object]
pub struct Subscription {
    schedule: Schedule,
}

impl DurableObject for Subscription {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, ScheduleOptions::default())?;
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        // The letter, and that the timer has gone off, are one transaction.
        schedule.on_firing(move |firing: &Firing| {
            Postman::enqueue(&outbox, &firing.kind).map(|_| ())
        })?;
        Ok(Self { schedule })
    }
}

#[rpc]
impl Subscription {
    /// Begins the trial, which ends at this time, in milliseconds since 1970.
    pub async fn start_trial(&self, ends_at: i64) -> Result<(), ScheduleError> {
        let end = Spec::once("The trial has ended.", ends_at);
        self.schedule.upsert("trial", &end)?;
        Ok(())
    }
}

/// Greets by a step.
#[derive(Debug)]
pub struct Greeting(Sent);

impl Workflow for Greeting {
    const NAME: &'static str = "greeting";
    type Input = String;
    type Output = ();

    async fn run(&self, ctx: Context, name: String) -> Result<(), Failure> {
        let sent = self.0.clone();
        ctx.step("greet", RetryPolicy::default(), async move |_| {
            sent.add(&format!("Hello, {name}."));
            Ok(())
        })
        .await
    }
}

/// The name of the queue of notes.
pub const NOTES: &str = "notes";

/// Registers all of the program with a node.
pub fn install(node: NodeBuilder, sent: &Sent) -> NodeBuilder {
    let notes = sent.clone();
    let consumer = queue::function(async move |batch: &queue::Batch<String>| {
        for note in batch.messages() {
            notes.add(&note.body);
        }
        Ok(())
    });
    let queues = Queues::new().with(NOTES, QueueOptions::default(), consumer);
    let workflows = WorkflowRegistry::new().with(Greeting(sent.clone()));
    let node = queue::install(node, queues);
    let node = workflow::install(node, workflows, WorkflowOptions::default());
    lock::install(node)
        .with(Registry::new().with(Postman(sent.clone())))
        .class::<Subscription>(ClassOptions::default())
}
