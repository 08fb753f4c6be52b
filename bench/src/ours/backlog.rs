//! Outboxes with very many rows, and how long single acts take in them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use abide::outbox::{
    DeadLetterFilter, Deliver, Delivery, Failure, MessageFilter, Outbox, OutboxError,
    OutboxMessage, OutboxOptions, Pace, Registry, Submitted,
};
use abide::{
    prelude::*,
    server::{Host, LocalHost},
};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, sync::Notify};

use crate::{ours::alarms::now, report::micros};

/// The outcome of a message, and so its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fate {
    /// It is delivered.
    Taken,
    /// It becomes a dead letter.
    Refused,
    /// Its destination wants to be left alone for a day.
    Paused,
}

#[derive(Serialize, Deserialize)]
struct Job {
    fate: Fate,
}

/// Sends nothing anywhere.
struct Jobs(Arc<Taken>);

/// Messages that were delivered.
#[derive(Default)]
struct Taken {
    count: AtomicUsize,
    news: Notify,
}

const DAY: Duration = Duration::from_hours(24);

impl Deliver for Jobs {
    type Payload = Job;
    const KIND: &'static str = "job";

    fn destination(&self, job: &Job) -> String {
        format!("{:?}", job.fate)
    }

    async fn submit(&self, _delivery: &Delivery, job: &Job) -> Result<Submitted, Failure> {
        match job.fate {
            Fate::Taken => {
                self.0.count.fetch_add(1, Ordering::Relaxed);
                self.0.news.notify_one();
                Ok(Submitted::Done)
            }
            Fate::Refused => Err(Failure::permanent("the bench wants it")),
            Fate::Paused => Err(Failure::throttled("the bench wants it", Some(DAY))),
        }
    }
}

/// Messages to be enqueued in one transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pile {
    pub(crate) count: usize,
    pub(crate) fate: Fate,
    /// Not due before tomorrow.
    pub(crate) later: bool,
    pub(crate) ordered: bool,
}

#[durable_object]
pub(crate) struct Backlog {
    outbox: Outbox,
}

impl DurableObject for Backlog {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let options = OutboxOptions::default()
            .pace(Pace::unlimited(256))
            .max_queued(100_000_000);
        let outbox = Outbox::open(&ctx, options)?;
        Ok(Self { outbox })
    }
}

#[rpc]
impl Backlog {
    /// Enqueues; the mean microseconds of a message.
    pub(crate) async fn enqueue(&self, pile: Pile) -> Result<f64, String> {
        let message = || -> Result<OutboxMessage> {
            let mut message = Jobs::message(&Job { fate: pile.fate })?;
            message.not_before = pile.later.then(|| now() + 86_400_000);
            message.ordering_key = pile.ordered.then(|| "one".to_owned());
            Ok(message)
        };
        let message = message().map_err(|error| error.to_string())?;
        let begun = Instant::now();
        for _ in 0..pile.count {
            self.outbox
                .enqueue(&message)
                .map_err(|error| error.to_string())?;
        }
        Ok(micros(begun.elapsed()) / pile.count as f64)
    }

    /// Does something; the microseconds that took.
    pub(crate) async fn time(&self, act: Act) -> Result<f64, String> {
        let begun = Instant::now();
        self.act(act).map_err(|error| error.to_string())?;
        Ok(micros(begun.elapsed()))
    }

    pub(crate) async fn waiting(&self) -> Result<i64, String> {
        let counts = self.outbox.counts().map_err(|error| error.to_string())?;
        Ok(counts.queued + counts.sending)
    }
}

/// Something that is done with an outbox.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Act {
    Counts,
    /// The newest hundred messages.
    FirstPage,
    /// A hundred messages before this one.
    PageBefore(i64),
    /// A thousand dead letters.
    RedriveThousand,
    /// The first message.
    CancelFirst,
}

impl Backlog {
    fn act(&self, act: Act) -> Result<(), OutboxError> {
        let page = |before| MessageFilter::default().before(before).limit(100);
        match act {
            Act::Counts => drop(self.outbox.counts()?),
            Act::FirstPage => drop(self.outbox.list(&page(None))?),
            Act::PageBefore(id) => drop(self.outbox.list(&page(Some(id)))?),
            Act::RedriveThousand => drop(self.outbox.redrive_all(&DeadLetterFilter::default())?),
            Act::CancelFirst => drop(self.outbox.cancel(1)?),
        }
        Ok(())
    }
}

/// A host of backlogs in this process, without listeners.
pub(crate) struct Backlogs {
    runtime: Runtime,
    host: LocalHost,
    taken: Arc<Taken>,
}

/// Messages that are enqueued in one transaction while a pile grows.
const CHUNK: usize = 2_000;

impl Backlogs {
    pub(crate) fn start(dir: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let taken = Arc::new(Taken::default());
        let options = ClassOptions::default().idle_timeout(DAY);
        let host = Host::builder(dir)
            .with(Registry::new().with(Jobs(Arc::clone(&taken))))
            .object_with::<Backlog>(options);
        let host = runtime
            .block_on(host.start_local())
            .context("cannot start the host")?;
        Ok(Self {
            runtime,
            host,
            taken,
        })
    }

    fn backlog(&self, name: &str) -> Stub<Backlog> {
        self.host.env().object::<Backlog>().get_by_name(name)
    }

    /// Makes a pile; the mean microseconds of the last messages.
    pub(crate) fn grow(&self, name: &str, pile: &Pile) -> anyhow::Result<f64> {
        let mut left = pile.count;
        let mut mean = 0.0;
        while left > 0 {
            let count = left.min(CHUNK);
            left -= count;
            let chunk = Pile {
                count,
                ..pile.clone()
            };
            let enqueued = self.runtime.block_on(self.backlog(name).enqueue(chunk));
            mean = enqueued.map_err(anyhow::Error::msg)?;
        }
        Ok(mean)
    }

    pub(crate) fn time(&self, name: &str, act: Act) -> anyhow::Result<f64> {
        let time = self.runtime.block_on(self.backlog(name).time(act));
        time.map_err(anyhow::Error::msg)
    }

    /// Microseconds from enqueuing a message until its attempt.
    pub(crate) fn attempt(&self, name: &str) -> anyhow::Result<f64> {
        let one = Pile {
            count: 1,
            fate: Fate::Taken,
            later: false,
            ordered: false,
        };
        self.runtime.block_on(async {
            let before = self.taken();
            let begun = Instant::now();
            let enqueued = self.backlog(name).enqueue(one).await;
            enqueued.map_err(anyhow::Error::msg)?;
            while self.taken() == before {
                self.taken.news.notified().await;
            }
            Ok(micros(begun.elapsed()))
        })
    }

    /// Waits until at most this many messages are not at their end.
    pub(crate) fn wait(&self, name: &str, left: i64) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            loop {
                let waiting = self.backlog(name).waiting().await;
                if waiting.map_err(anyhow::Error::msg)? <= left {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// Messages that were delivered so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken.count.load(Ordering::Relaxed)
    }

    pub(crate) fn shutdown(self) -> anyhow::Result<()> {
        let ended = self.runtime.block_on(self.host.shutdown());
        ended.context("the host did not end cleanly")
    }
}
