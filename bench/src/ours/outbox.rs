//! A node whose objects hold outboxes, and what delivers their messages over HTTP.

use std::{path::Path, time::Duration};

use abide::outbox::{
    self, Counts, Deliver, Delivery, Failure, Outbox, OutboxMessage, OutboxOptions, Pace, Registry,
    Submitted,
};
use abide::{
    ErrorKind,
    prelude::*,
    server::{AllowPrivate, Host, LocalHost},
};
use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::receiver::Stamp;

/// A message of the bench.
#[derive(Serialize, Deserialize)]
pub(crate) struct Post {
    pub(crate) url: String,
    pub(crate) text: String,
}

/// Sends posts.
pub(crate) struct Poster;

impl Deliver for Poster {
    type Payload = Post;
    const KIND: &'static str = "post";

    fn destination(&self, post: &Post) -> String {
        post.url.clone()
    }

    async fn submit(&self, delivery: &Delivery, post: &Post) -> Result<Submitted, Failure> {
        let request = abide::http::Request::post(&post.url)
            .header("idempotency-key", delivery.idempotency_key())
            .body(Body::from(post.text.clone()))?;
        match delivery.fetch(request).await {
            Ok(answer) if answer.status().is_success() => Ok(Submitted::Done),
            Ok(answer) => Err(Failure::refused(answer.status().to_string())),
            Err(error) => Err(Failure::temporary(error.to_string())),
        }
    }
}

/// How many attempts of one outbox are on their way at a time, as the objects find it.
struct Concurrency(u32);

#[durable_object]
pub(crate) struct Sender {
    outbox: Outbox,
}

impl DurableObject for Sender {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options =
            OutboxOptions::default().pace(Pace::unlimited(env.require::<Concurrency>()?.0));
        let outbox = Outbox::open(&ctx, options)?;
        Ok(Self { outbox })
    }
}

/// Messages to be enqueued in one transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) url: String,
    /// The number of the first; the others follow.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// In milliseconds since 1970.
    pub(crate) not_before: Option<i64>,
}

#[rpc]
impl Sender {
    pub(crate) async fn enqueue(&self, order: Order) -> Result<(), String> {
        for number in order.first..order.first + order.count {
            let post = Post {
                url: order.url.clone(),
                text: Stamp::now(number).text(),
            };
            let enqueue = || -> Result<(), outbox::OutboxError> {
                let message = OutboxMessage {
                    not_before: order.not_before,
                    ..Poster::message(&post)?
                };
                self.outbox.enqueue(&message)?;
                Ok(())
            };
            enqueue().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    pub(crate) async fn counts(&self) -> Result<Counts, String> {
        self.outbox.counts().map_err(|error| error.to_string())
    }
}

/// Outboxes that are asked at a time whether they are done.
const ASKED_AT_A_TIME: usize = 8;

/// The outboxes whose messages are delivered.
pub(crate) const SENDERS: &str = "sender";

/// A host of senders in this process, without listeners.
pub(crate) struct Senders {
    pub(crate) runtime: Runtime,
    host: LocalHost,
    outboxes: usize,
}

impl Senders {
    /// `in_flight` messages are on their way at a time; an outbox claims at most `claims`.
    pub(crate) fn start(
        dir: &Path,
        outboxes: usize,
        in_flight: usize,
        claims: usize,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let host = Host::builder(dir)
            .with(Registry::new().with(Poster))
            .with(Concurrency(u32::try_from(claims)?))
            .object_with::<Sender>(ClassOptions::default().idle_timeout(Duration::from_hours(24)))
            .configure(|config| {
                config.outbound.allow_private = AllowPrivate::All;
                config.outbound.max_queued = 65_536;
                config.outbound.max_in_flight = in_flight;
            });
        let host = runtime
            .block_on(host.start_local())
            .context("cannot start the host")?;
        Ok(Self {
            runtime,
            host,
            outboxes,
        })
    }

    fn sender(&self, group: &str, number: u64) -> Stub<Sender> {
        let number = number % self.outboxes as u64;
        let senders = self.host.env().object::<Sender>();
        senders.get_by_name(&format!("{group}-{number}"))
    }

    /// Enqueues messages in a group of outboxes, each in its own transaction, this many at a time.
    pub(crate) fn enqueue_each(
        &self,
        group: &str,
        order: &Order,
        at_once: u64,
    ) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let lanes = (0..at_once).map(|lane| async move {
                for number in (order.first..order.first + order.count)
                    .skip(lane as usize)
                    .step_by(at_once as usize)
                {
                    let one = Order {
                        first: number,
                        count: 1,
                        ..order.clone()
                    };
                    enqueue(&self.sender(group, number), one).await?;
                }
                Ok(())
            });
            futures_util::future::try_join_all(lanes).await.map(drop)
        })
    }

    /// Enqueues messages in one transaction of each of the [`SENDERS`].
    pub(crate) fn fill(&self, order: &Order) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let outboxes = self.outboxes as u64;
            let share = order.count / outboxes;
            let calls = (0..outboxes).map(|outbox| async move {
                let part = Order {
                    first: order.first + outbox * share,
                    count: share,
                    ..order.clone()
                };
                enqueue(&self.sender(SENDERS, outbox), part).await
            });
            futures_util::future::try_join_all(calls).await.map(drop)
        })
    }

    /// Returns when every message of the [`SENDERS`] is recorded as sent.
    pub(crate) fn settled(&self) -> anyhow::Result<()> {
        let settled = |outbox| async move {
            loop {
                let counts = self.sender(SENDERS, outbox).counts().await;
                let counts = counts.map_err(anyhow::Error::msg)?;
                ensure!(counts.failed == 0, "messages have failed: {counts:?}");
                if counts.sending + counts.queued == 0 {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        self.runtime.block_on(
            futures_util::stream::iter((0..self.outboxes as u64).map(settled))
                .buffer_unordered(ASKED_AT_A_TIME)
                .try_collect(),
        )
    }

    pub(crate) fn shutdown(self) -> anyhow::Result<()> {
        let ended = self.runtime.block_on(self.host.shutdown());
        ended.context("the host did not end cleanly")
    }
}

/// Enqueues; again and again while the node says that it has too much to do.
async fn enqueue(sender: &Stub<Sender>, order: Order) -> anyhow::Result<()> {
    loop {
        match sender.enqueue(order.clone()).answer().await {
            Err(error) if error.kind() == ErrorKind::Overloaded => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            enqueued => return enqueued?.map_err(anyhow::Error::msg),
        }
    }
}
