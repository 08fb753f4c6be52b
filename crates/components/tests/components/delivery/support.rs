//! A node on an in-memory disk that delivers to a scripted server, through one component.

pub(crate) use abide_harness::run;

use std::{sync::Arc, time::Duration};

use abide::component::answer;
use abide::outbox::{
    self, Deliver, Outbox, Registry,
    handlers::{HttpCall, HttpDelivery},
};
use abide::queue::{self, Queue, QueueMessage, QueueShard, Queues, ToHttp};
use abide::schedule::{self, Firing, Schedule, Spec};
use abide::workflow::{
    self, Context, Failure, StepState, Workflow, WorkflowDirectory, WorkflowInstance, Workflows,
};
use abide::{NodeBuilder, clock::TestClock, component::RetryPolicy, prelude::*, storage::SimDisk};

use crate::delivery::server::Server;
use crate::world::{self, Setup};

/// The component that delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    Outbox,
    Queue,
    Schedule,
    Workflow,
}

pub(crate) const ALL: [Through; 4] = [
    Through::Outbox,
    Through::Queue,
    Through::Schedule,
    Through::Workflow,
];

/// Four attempts, 10 s, 20 s and 40 s apart, and up to a quarter more: the steps of workflows always have jitter.
const BASE: Duration = Duration::from_secs(10);
pub(crate) const ATTEMPTS: usize = 4;

fn policy() -> RetryPolicy {
    RetryPolicy::Exponential {
        base: BASE,
        max: BASE * 4,
        max_attempts: 4,
    }
}

/// An object with an outbox and a schedule.
#[durable_object]
pub(crate) struct Sender {
    outbox: Outbox,
    schedule: Schedule,
}

impl DurableObject for Sender {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = outbox::OutboxOptions::default()
            .retry(policy())
            .jitter(false);
        let outbox = Outbox::open(&ctx, options)?;
        let options = schedule::ScheduleOptions::default()
            .retry(policy())
            .jitter(false);
        let schedule = Schedule::open(&ctx, options)?;
        schedule.on_firing_in_background(move |firing: Firing| {
            let env = env.clone();
            async move { fetch(&env, &firing.timer).await }
        })?;
        Ok(Self { outbox, schedule })
    }
}

/// Sends the request of a name, as the handlers of timers and the steps of workflows do.
async fn fetch(env: &Env, name: &str) -> Result<(), abide::component::Failure> {
    let request = abide::http::Request::post(url(name))
        .body(Body::empty())
        .unwrap();
    answer::fetch(env, request).await?.check().map(drop)
}

/// Each name is another host: one that throttles delays no other.
fn url(name: &str) -> String {
    format!("https://{name}.example.com/{name}")
}

#[rpc]
#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
impl Sender {
    pub async fn send(&self, names: Vec<String>) -> Result<()> {
        for name in names {
            HttpDelivery::enqueue(&self.outbox, &HttpCall::post(url(&name)))?;
        }
        Ok(())
    }

    pub async fn set(&self, names: Vec<String>, at: i64) -> Result<()> {
        for name in names {
            self.schedule.upsert(&name, &Spec::once("send", at))?;
        }
        Ok(())
    }

    /// Messages and timers that are not decided, and the errors of those that were given up.
    pub async fn standing(&self) -> Result<(i64, Vec<String>)> {
        let counts = self.outbox.counts()?;
        let timers = self.schedule.list(None, 100)?;
        let active = timers.iter().filter(|timer| {
            !matches!(
                timer.phase,
                schedule::Phase::Ended | schedule::Phase::Failed
            )
        });
        let letters = self
            .outbox
            .dead_letters(&outbox::DeadLetterFilter::default())?;
        let letters = letters
            .records
            .into_iter()
            .filter_map(|letter| letter.last_error);
        let failed = self.schedule.failed(None, 100)?.into_iter();
        Ok((
            counts.queued + counts.sending + i64::try_from(active.count()).unwrap(),
            letters
                .chain(failed.filter_map(|run| run.last_error))
                .collect(),
        ))
    }
}

/// A workflow with a step for each name.
struct Steps;

impl Workflow for Steps {
    const NAME: &'static str = "steps";
    type Input = Vec<String>;
    type Output = ();

    async fn run(&self, ctx: Context, names: Vec<String>) -> Result<(), Failure> {
        let policy = workflow::RetryPolicy::default()
            .attempts(4)
            .backoff(BASE, BASE * 4);
        let steps = names.iter().map(|name| {
            ctx.step(name.clone(), policy.clone(), async |attempt| {
                fetch(attempt.env(), name).await
            })
        });
        ctx.parallel(steps).await;
        Ok(())
    }
}

/// What delivers, and the server to which.
pub(crate) struct Way {
    through: Through,
    pub(crate) server: Server,
}

impl Setup for Way {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        let options = queue::QueueOptions::default()
            .retry(policy())
            .jitter(false)
            .max_batch(1);
        let to = ToHttp::new("https://example.com/queue").unwrap();
        node.class::<Sender>(ClassOptions::default())
            .class::<QueueShard>(queue::class_options())
            .class::<WorkflowInstance>(workflow::class_options())
            .class::<WorkflowDirectory>(ClassOptions::default())
            .with(Registry::new().with(HttpDelivery::new()))
            .with(Queues::new().with("requests", options, to))
            .with(workflow::WorkflowRegistry::new().with(Steps))
            .with(workflow::WorkflowOptions::default().recovery(Duration::from_secs(2)))
            .outbound(Arc::new(self.server.clone()))
    }

    fn end_life(&mut self) {
        self.server = self.server.next_life();
    }
}

pub(crate) type World = world::World<Way>;

impl World {
    pub(crate) fn new(through: Through) -> Self {
        println!("through {through:?}");
        let clock = TestClock::new();
        let server = Server::new(&clock);
        Self::at(clock, Way { through, server })
    }

    fn sender(&self) -> Stub<Sender> {
        self.stub("ada")
    }

    fn queue(&self) -> Queue {
        Queue::new(self.node.env(), "requests").unwrap()
    }

    fn workflows(&self) -> Workflows<Steps> {
        Workflows::new(self.node.env())
    }

    /// Delivers to each of these names.
    pub(crate) async fn deliver(&self, names: &[&str]) {
        let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        match self.through {
            Through::Outbox => self.sender().send(all).await.unwrap(),
            Through::Schedule => {
                self.sender().set(all, self.now()).await.unwrap();
            }
            Through::Queue => {
                let messages = names.iter().map(|name| QueueMessage::new(name).unwrap());
                self.queue().send_batch(messages.collect()).await.unwrap();
            }
            Through::Workflow => {
                self.workflows().start("a", &all).await.unwrap();
            }
        }
    }

    /// How many deliveries are not decided, and the errors of those that were given up.
    pub(crate) async fn standing(&self) -> (i64, Vec<String>) {
        match self.through {
            Through::Outbox | Through::Schedule => self.sender().standing().await.unwrap(),
            Through::Queue => {
                let open = self.queue().counts().await.unwrap().messages;
                let letters = self.queue().dead_letters(100).await.unwrap();
                (
                    open,
                    letters.into_iter().map(|letter| letter.error).collect(),
                )
            }
            Through::Workflow => {
                let status = self.workflows().status("a").await.unwrap().status;
                let steps = self.workflows().history("a", 0).await.unwrap();
                let failed = steps
                    .into_iter()
                    .filter(|step| step.state == StepState::Failed);
                (
                    i64::from(!status.is_end()),
                    failed.filter_map(|step| step.error).collect(),
                )
            }
        }
    }

    /// Moves the clock in steps until something is so.
    pub(crate) async fn pass_until(&self, step: Duration, what: &str, so: impl AsyncFn() -> bool) {
        let mut busy = 0;
        for _ in 0..20_000 {
            if so().await {
                return;
            }
            // A request that is on its way gets its response first, unless it hangs.
            if step > secs(60) {
                // Claimed messages must not wait that long.
                self.node.settle().await.unwrap();
            }
            busy = if self.server.is_busy() { busy + 1 } else { 0 };
            if busy == 0 || busy > 20 {
                self.clock.advance(step);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!(
            "through {:?}: never {what}: {:?}",
            self.through,
            self.standing().await
        );
    }

    /// Moves the clock until each delivery is decided; the errors of those that were given up.
    pub(crate) async fn decided(&self, step: Duration) -> Vec<String> {
        self.pass_until(step, "all is decided", async || {
            self.standing().await.0 == 0
        })
        .await;
        self.standing().await.1
    }
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
