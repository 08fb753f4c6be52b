//! (k) The durable outbox beside a queue in `PostgreSQL`.
//!
//! Both sides deliver to the same receiver, with the same HTTP client, as many messages at a time, and make durable that an
//! attempt is made before it is made.

use std::{
    cell::RefCell,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::Args;

use crate::{
    context::Context,
    ours::{
        alarms::now,
        outbox::{Order, SENDERS, Senders},
    },
    peers::{
        postgres::{Form, Queue, Server},
        wire::Wire,
    },
    probe::DiskLatency,
    process::cpu_seconds,
    receiver::{Received, Receiver},
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many outboxes the messages are in; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100])]
    outboxes: Vec<usize>,
    /// Messages of a slice.
    #[arg(long, default_value_t = 10_000)]
    messages: u64,
    /// Messages on their way at a time, over all outboxes and all workers.
    #[arg(long, default_value_t = 32)]
    in_flight: usize,
    /// Messages that an outbox claims at a time, if its share of the messages in flight is not more. The default is
    /// its concurrency for one destination. Messages beyond the node's capacity wait for it.
    #[arg(long, default_value_t = 16)]
    claims: usize,
    /// Workers of the peer that are tried, each with a connection; the best number is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8])]
    workers: Vec<usize>,
    /// Messages that are enqueued at a time; as many connections of the peer enqueue.
    #[arg(long, default_value_t = 16)]
    producers: usize,
    /// Messages of a slice that are enqueued one after the other, to see how long each is on its way.
    #[arg(long, default_value_t = 500)]
    singles: u64,
}

/// A pause between messages that are sent one after the other, longer than each takes.
const REST: Duration = Duration::from_millis(4);
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(1);
/// A day, in milliseconds.
const DAY: i64 = 86_400_000;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let mut receiver = Receiver::start()?;
    let server = if context.wants_peer() {
        Some(Server::start(&context.fresh_dir("peer")?)?)
    } else {
        None
    };
    for (index, &outboxes) in options.outboxes.iter().enumerate() {
        let ours = if context.wants_ours() {
            let dir = context.fresh_dir("ours")?;
            let claims = options.in_flight.div_ceil(outboxes).max(options.claims);
            let senders = Senders::start(&dir, outboxes, options.in_flight, claims)?;
            // Every object is there before the first slice.
            senders.settled()?;
            Some(senders)
        } else {
            None
        };
        let mut bench = Bench {
            context,
            options,
            receiver: &mut receiver,
            url: String::new(),
            next: 0,
            fill_of_ours: Duration::ZERO,
            fill_of_peer: Duration::ZERO,
        };
        bench.url = bench.receiver.url();
        if index == 0 {
            bench.wire()?;
        }
        bench.measure(outboxes, ours.as_ref(), server.as_ref())?;
        if let Some(ours) = ours {
            ours.shutdown()?;
        }
    }
    Ok(())
}

/// When the messages of a slice were due.
struct Begun {
    at: Instant,
    cpu_seconds: f64,
}

impl Begun {
    fn now(server: Option<&Server>) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            cpu_seconds: cpu_of(server)?,
        })
    }
}

/// CPU seconds of this process and, if the peer is measured, of its server.
fn cpu_of(server: Option<&Server>) -> Result<f64> {
    let server = server.map_or(Ok(0.0), Server::cpu_seconds)?;
    Ok(cpu_seconds(std::process::id())? + server)
}

/// What a message costs: this process, and the peer's server with the peer.
fn print_cpu(
    context: &Context,
    name: &str,
    disk: DiskLatency,
    (ours, peer): (Option<f64>, Option<f64>),
    form: &'static str,
) {
    context.print(
        &Measurement::new(format!("{name}/cpu"), Unit::CpuMicroseconds, disk)
            .ours(ours)
            .peer(form, peer),
    );
}

struct Bench<'a> {
    context: &'a Context,
    options: &'a Options,
    receiver: &'a mut Receiver,
    url: String,
    /// The number of the next message.
    next: u64,
    /// The longest time that filling took.
    fill_of_ours: Duration,
    fill_of_peer: Duration,
}

impl Bench<'_> {
    fn measure(
        &mut self,
        outboxes: usize,
        ours: Option<&Senders>,
        server: Option<&Server>,
    ) -> Result<()> {
        self.enqueue(outboxes, ours, server)?;
        if let Some(senders) = ours {
            // The peer is warm, too: the number of its workers is found first.
            self.drain_ours(senders)?;
        }
        for form in Form::ALL {
            if server.is_none() && form != Form::Batches {
                break;
            }
            self.deliver(outboxes, ours, server, form)?;
        }
        self.singles(outboxes, ours, server)
    }

    /// Messages per second without a queue: neither side can deliver more.
    fn wire(&mut self) -> Result<()> {
        let disk = self.context.probe()?;
        let wire = Wire::new(self.options.in_flight)?;
        let count = self.options.messages;
        let context = self.context;
        let bench = RefCell::new(self);
        let sides = context.alternate(
            Some(|| {
                let mut bench = bench.borrow_mut();
                let begun = Begun::now(None)?;
                wire.send(&bench.url, bench.next, count)?;
                bench.cost(&begun, None)
            }),
            None::<fn() -> Result<[f64; 2]>>,
        )?;
        let note = "no queue: the HTTP client and the receiver alone";
        context.print(
            &Measurement::new("outbox/wire", Unit::MessagesPerSecond, disk)
                .ours(sides.figure(0).0)
                .note(note.to_owned()),
        );
        print_cpu(context, "outbox/wire", disk, sides.figure(1), "");
        Ok(())
    }

    /// Messages enqueued per second, each durable before the next of its producer.
    fn enqueue(
        &mut self,
        outboxes: usize,
        ours: Option<&Senders>,
        server: Option<&Server>,
    ) -> Result<()> {
        let disk = self.context.probe()?;
        let queue = server
            .map(|server| Queue::start(server, Form::Batches, 1, 1, self.options.producers))
            .transpose()?;
        let (url, messages, producers) = (&self.url, self.options.messages, self.options.producers);
        let order = Order {
            url: url.clone(),
            first: 0,
            count: messages,
            not_before: Some(now() + DAY),
        };
        // Each outbox has been opened, and has run its statements.
        if let Some(senders) = ours {
            senders.enqueue_each("later", &order, producers as u64)?;
        }
        if let Some(queue) = &queue {
            queue.enqueue_for_later(url, messages)?;
        }
        let rate = |begun: Instant| Ok([messages as f64 / begun.elapsed().as_secs_f64()]);
        let sides = self.context.alternate(
            ours.map(|senders| {
                let order = &order;
                move || {
                    let begun = Instant::now();
                    senders.enqueue_each("later", order, producers as u64)?;
                    rate(begun)
                }
            }),
            queue.as_ref().map(|queue| {
                move || {
                    let begun = Instant::now();
                    queue.enqueue_for_later(url, messages)?;
                    rate(begun)
                }
            }),
        )?;
        let (ours, peer) = sides.figure(0);
        let name = format!("outbox/enqueue/outboxes={outboxes}");
        self.context.print(
            &Measurement::new(name, Unit::MessagesPerSecond, disk)
                .ours(ours)
                .peer("PostgreSQL, INSERT", peer),
        );
        Ok(())
    }

    /// Messages delivered and recorded per second, from the moment when all are due.
    fn deliver(
        &mut self,
        outboxes: usize,
        ours: Option<&Senders>,
        server: Option<&Server>,
        form: Form,
    ) -> Result<()> {
        let workers = match server {
            Some(server) => self.best_workers(server, form)?,
            None => 0,
        };
        let disk = self.context.probe()?;
        let queue = server
            .map(|server| self.queue(server, form, workers))
            .transpose()?;
        // The sides take turns at the receiver, too.
        let context = self.context;
        let bench = RefCell::new(self);
        let sides = context.alternate(
            ours.map(|senders| || bench.borrow_mut().drain_ours(senders)),
            queue
                .as_ref()
                .map(|queue| || bench.borrow_mut().drain_queue(queue, server)),
        )?;
        let (ours, peer) = sides.figure(0);
        let name = format!("outbox/deliver/outboxes={outboxes}");
        let note = peer.map(|_| format!("the peer has {workers} workers, its best number"));
        context.print(
            &Measurement::new(&name, Unit::MessagesPerSecond, disk)
                .ours(ours)
                .peer(form.name(), peer)
                .note(note),
        );
        print_cpu(context, &name, disk, sides.figure(1), form.name());
        Ok(())
    }

    fn queue(&self, server: &Server, form: Form, workers: usize) -> Result<Queue> {
        let Options { in_flight, .. } = *self.options;
        Queue::start(server, form, workers, in_flight, 1)
    }

    /// The number of workers with which the peer is fastest here.
    fn best_workers(&mut self, server: &Server, form: Form) -> Result<usize> {
        let mut best = (0.0, 1);
        for &workers in &self.options.workers {
            let queue = self.queue(server, form, workers)?;
            let [rate, _] = self.drain_queue(&queue, Some(server))?;
            if rate > best.0 {
                best = (rate, workers);
            }
        }
        Ok(best.1)
    }

    fn drain_ours(&mut self, senders: &Senders) -> Result<[f64; 2]> {
        let due = self.due(self.fill_of_ours);
        let order = Order {
            url: self.url.clone(),
            first: self.next,
            count: self.options.messages,
            not_before: Some(due),
        };
        let took = Self::fill(due, || senders.fill(&order))?;
        self.fill_of_ours = self.fill_of_ours.max(took);
        let begun = Begun::now(None)?;
        self.received(self.options.messages)?;
        senders.settled()?;
        self.cost(&begun, None)
    }

    fn drain_queue(&mut self, queue: &Queue, server: Option<&Server>) -> Result<[f64; 2]> {
        let (first, count) = (self.next, self.options.messages);
        let due = self.due(self.fill_of_peer);
        let before = queue.marked()?;
        let took = Self::fill(due, || queue.fill(&self.url, first, count, due))?;
        self.fill_of_peer = self.fill_of_peer.max(took);
        let begun = Begun::now(server)?;
        queue.tell()?;
        self.received(count)?;
        while queue.marked()? < before + count as usize {
            sleep(POLL);
        }
        self.cost(&begun, server)
    }

    /// The due time of messages that are enqueued now: after the last of them is enqueued. `longest` is the longest
    /// time that this has taken.
    fn due(&self, longest: Duration) -> i64 {
        let fill = if longest.is_zero() {
            // Each outbox is opened.
            let outboxes = self.options.outboxes.iter().max().copied();
            let opened = outboxes.unwrap_or_default() as u64 * 1_000 / 400;
            Duration::from_millis(opened + self.options.messages * 1_000 / 5_000)
        } else {
            longest * 2
        };
        now() + 500 + fill.as_millis() as i64
    }

    /// Enqueues, and returns at the moment when all are due, with the time that enqueuing took.
    fn fill(due: i64, fill: impl FnOnce() -> Result<()>) -> Result<Duration> {
        let begun = Instant::now();
        fill()?;
        let took = begun.elapsed();
        let left = due - now();
        ensure!(
            left >= 0,
            "messages were due before all were enqueued: take fewer with --messages"
        );
        sleep(Duration::from_millis(left.unsigned_abs()));
        Ok(took)
    }

    /// Messages per second since then, and the microseconds of CPU time that each took.
    fn cost(&mut self, begun: &Begun, server: Option<&Server>) -> Result<[f64; 2]> {
        let seconds = begun.at.elapsed().as_secs_f64();
        let cpu = cpu_of(server)? - begun.cpu_seconds;
        let messages = self.take(self.options.messages)?.messages as f64;
        Ok([messages / seconds, cpu * 1e6 / messages])
    }

    /// Waits until this many messages have arrived.
    fn received(&mut self, messages: u64) -> Result<()> {
        let begun = Instant::now();
        while (self.receiver.messages()? as u64) < messages {
            ensure!(begun.elapsed() < PATIENCE, "messages are not delivered");
            sleep(POLL);
        }
        Ok(())
    }

    /// Checks the arrivals: each message, and each once, because there were no failures.
    fn take(&mut self, messages: u64) -> Result<Received> {
        let received = self.receiver.take()?;
        ensure!(
            received.messages as u64 == messages && received.repeated == 0,
            "of {messages} messages {} arrived, and {} again",
            received.messages,
            received.repeated
        );
        self.next += messages;
        Ok(received)
    }

    /// How long a message is on its way when there is nothing else to do.
    fn singles(
        &mut self,
        outboxes: usize,
        ours: Option<&Senders>,
        server: Option<&Server>,
    ) -> Result<()> {
        let disk = self.context.probe()?;
        let queue = server
            .map(|server| self.queue(server, Form::Batches, 1))
            .transpose()?;
        let context = self.context;
        let bench = RefCell::new(self);
        let sides = context.alternate(
            ours.map(|senders| {
                || {
                    bench.borrow_mut().one_by_one(|url, number| {
                        let order = Order {
                            url: url.to_owned(),
                            first: number,
                            count: 1,
                            not_before: None,
                        };
                        senders.enqueue_each(SENDERS, &order, 1)
                    })
                }
            }),
            queue.as_ref().map(|queue| {
                || {
                    bench
                        .borrow_mut()
                        .one_by_one(|url, number| queue.enqueue_and_tell(url, number))
                }
            }),
        )?;
        for (index, percentile) in ["p50", "p99"].into_iter().enumerate() {
            let (ours, peer) = sides.figure(index);
            let name = format!("outbox/on-the-way/outboxes={outboxes}/{percentile}");
            context.print(
                &Measurement::new(name, Unit::Microseconds, disk)
                    .ours(ours)
                    .peer("PostgreSQL, SKIP LOCKED, NOTIFY", peer),
            );
        }
        Ok(())
    }

    fn one_by_one(&mut self, enqueue: impl Fn(&str, u64) -> Result<()>) -> Result<[f64; 2]> {
        let singles = self.options.singles;
        for number in self.next..self.next + singles {
            enqueue(&self.url, number)?;
            sleep(REST);
        }
        self.received(singles)?;
        let received = self.take(singles)?;
        Ok([received.p50_us, received.p99_us])
    }
}
