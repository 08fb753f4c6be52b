//! How an event reaches a worker, and how its answer returns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    task::{Context, Poll},
    time::Duration,
};

use abide_storage::{MemoryAccount, MemoryBudget, MemoryUse, Store, TimelineRow};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    Error, Event, ObjectId, Reply, Result,
    alarms::AlarmRequest,
    backlog::Backlog,
    call::Answer,
    census::Census,
    chain::Link,
    creator::Creator,
    gate::{Lane, Released},
    limits::{
        EVENT_BYTES, GATED_SHARE, MAX_GATED_PER_WORKER, MAX_QUEUED_PER_WORKER, OBJECTS_SHARE,
    },
    poll_watch::PollWatch,
    socket::Delivery,
    stats::Counters,
    unwind::guarded,
};

/// An event addressed to an object.
pub(crate) struct Envelope {
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) event: Event,
    pub(crate) replier: Replier,
    /// The tasks that wait for the answer behind a closed gate.
    pub(crate) chain: Option<Arc<Link>>,
    /// On whose behalf it is sent, if created objects are counted.
    pub(crate) creator: Option<Creator>,
    /// It is not part of work that has begun, so it may be rejected when memory is short.
    pub(crate) from_outside: bool,
}

/// An event that a worker rejected.
pub(crate) struct Refusal {
    pub(crate) envelope: Envelope,
    pub(crate) error: Error,
}

/// Tells the result of a task.
pub(crate) type Tell = Box<dyn FnOnce() + Send>;

/// An administrative task on the database of an object, which is held in the meantime.
pub(crate) struct AdminTask {
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    pub(crate) purpose: Purpose,
    /// Returns what tells the caller.
    pub(crate) work: Box<dyn FnOnce(&Store) -> Tell + Send>,
    /// Receives the reason if it cannot be done.
    pub(crate) refused: oneshot::Sender<Error>,
}

/// What an object is held for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// To restore or repair it.
    Restore,
    /// To fork another object to it, on behalf of this creator. It must be empty.
    Fork(Option<Creator>),
    /// To make it from a database. Nothing must be stored of it.
    Import,
}

/// What a worker knows of an object's timeline.
pub(crate) type Known = (TimelineRow, Option<String>);

/// An operator's question about an object's timeline.
pub(crate) struct TimelineQuestion {
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    pub(crate) tell: oneshot::Sender<Result<Known>>,
}

/// Asks a worker to evict an object.
pub(crate) struct Eviction {
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    /// Receives what keeps the object in memory, for people; `None` if it is not in memory.
    pub(crate) tell: oneshot::Sender<Option<String>>,
}

/// A message in a worker's channel.
pub(crate) enum Message {
    Event(Envelope),
    /// Handle a request about an object's alarm.
    AlarmRequest(AlarmRequest),
    AdminTask(AdminTask),
    Timeline(TimelineQuestion),
    Eviction(Eviction),
    /// Report the activity.
    Census(oneshot::Sender<Census>),
    /// Memory is short: evict idle objects.
    Trim,
    /// Drop every object and end.
    Stop,
}

/// Signals a stopping node when nothing is outstanding any more.
#[derive(Default)]
pub(crate) struct Drain {
    /// Set once the node is stopping: until then there is no listener and workers need not signal.
    pub(crate) wanted: AtomicBool,
    pub(crate) is_drained: Notify,
}

/// The part of a worker that other threads see.
pub(crate) struct Mailbox {
    channel: mpsc::UnboundedSender<Message>,
    /// Unanswered events sent to this worker. This bounds the channel, the answers and calls in the lane, and
    /// everything in between.
    outstanding: AtomicUsize,
    /// Events that the worker has not begun.
    pub(crate) backlog: Backlog,
    /// Bytes sent to sockets that are at the output gate.
    pub(crate) gated: AtomicUsize,
    /// The limit of `gated`.
    pub(crate) max_gated: usize,
    /// The worker's memory account.
    pub(crate) memory: Arc<MemoryAccount>,
    /// The share of memory for its objects, in bytes.
    pub(crate) max_object_bytes: u64,
    drain: Arc<Drain>,
    pub(crate) lane: Lane,
    pub(crate) watch: PollWatch,
    pub(crate) counters: Counters,
}

impl Mailbox {
    /// The mailbox of one of this many workers.
    pub(crate) fn new(
        channel: mpsc::UnboundedSender<Message>,
        drain: Arc<Drain>,
        lane: Lane,
        memory: &MemoryBudget,
        workers: usize,
    ) -> Self {
        let limit = memory.limit();
        let gated = usize::try_from(limit / GATED_SHARE).unwrap_or(usize::MAX);
        Self {
            max_gated: gated.min(MAX_GATED_PER_WORKER),
            memory: memory.account(),
            max_object_bytes: limit / OBJECTS_SHARE / workers as u64,
            channel,
            outstanding: AtomicUsize::new(0),
            backlog: Backlog::default(),
            gated: AtomicUsize::new(0),
            drain,
            lane,
            watch: PollWatch::default(),
            counters: Counters::default(),
        }
    }

    /// Queues an event for the worker, or returns it with the reason for the rejection.
    pub(crate) fn post(&self, envelope: Envelope) -> Result<(), Box<Refusal>> {
        // Alarms have their own limit, and this one has been counted as begun.
        let admitted = match envelope.event {
            Event::Alarm(_) | Event::Timeline(_) => Ok(()),
            _ => self.admit(),
        };
        if let Err(error) = admitted {
            return Err(Box::new(Refusal { envelope, error }));
        }
        self.channel()
            .send(Message::Event(envelope))
            .map_err(|refused| match refused.0 {
                Message::Event(envelope) => Box::new(Refusal {
                    envelope,
                    error: Error::stopping(),
                }),
                Message::AlarmRequest(_)
                | Message::AdminTask(_)
                | Message::Timeline(_)
                | Message::Eviction(_)
                | Message::Census(_)
                | Message::Trim
                | Message::Stop => {
                    unreachable!("an event was sent")
                }
            })
    }

    /// Sends the worker a message other than an event.
    pub(crate) fn send(&self, message: Message) -> Result<()> {
        self.channel().send(message).map_err(|_| Error::stopping())
    }

    /// Queues an event that was admitted before, or must not be rejected. It is dropped if the worker has ended.
    pub(crate) fn post_admitted(&self, envelope: Envelope) {
        let _ = self.channel().send(Message::Event(envelope));
    }

    /// Rejects an event whose ticket already exists if it exceeds the worker's limit.
    pub(crate) fn admit(&self) -> Result<()> {
        if self.outstanding() > MAX_QUEUED_PER_WORKER {
            self.counters.overloaded.add();
            return Err(Error::overloaded_object());
        }
        Ok(())
    }

    /// Rejects an event from outside that would wait too long. Calls between objects are part of work that has begun,
    /// and are not rejected.
    pub(crate) fn admit_from_outside(&self) -> Result<()> {
        if self.backlog.is_too_long() {
            self.counters.overloaded.add();
            return Err(Error::overloaded_object());
        }
        if self.memory.budget().is_over() {
            return Err(self.out_of_memory(MemoryUse::Events));
        }
        Ok(())
    }

    /// The error for lack of memory.
    pub(crate) fn out_of_memory(&self, used_for: MemoryUse) -> Error {
        self.counters.overloaded.add();
        self.memory.budget().count_refusal(used_for);
        Error::out_of_memory(self.memory.budget())
    }

    /// The channel, for one message.
    fn channel(&self) -> &mpsc::UnboundedSender<Message> {
        self.backlog.add();
        &self.channel
    }

    /// Queues a request about an alarm. If the worker has ended, dropping the request answers it.
    pub(crate) fn send_alarm_request(&self, request: AlarmRequest) {
        let _ = self.channel().send(Message::AlarmRequest(request));
    }

    /// Tells the worker to stop; it may already have stopped.
    pub(crate) fn stop(&self) {
        let _ = self.channel().send(Message::Stop);
    }

    /// Runs code of the program that is not an object's, on the worker's thread, and catches its panics.
    pub(crate) fn guard(&self, what: &str, f: impl FnOnce()) {
        // The panic was logged and counted.
        let _ = guarded(&self.counters.panics, what, f);
    }

    /// Drops a value created by the program, on the worker's thread.
    pub(crate) fn discard<T>(&self, value: T) {
        self.guard("a destructor", || drop(value));
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }
}

/// The return path to a caller.
pub(crate) struct Replier {
    to: Origin,
    ticket: Ticket,
    /// Until when the event may begin.
    deadline: Option<Duration>,
}

/// A response whose caller is gone. Its destructor is code of the program: the node is not drained until it has run.
pub(crate) struct UndeliveredReply {
    _reply: Reply,
    _ticket: Ticket,
}

/// Who receives the outcome of an event.
enum Origin {
    Caller(oneshot::Sender<Answer>),
    Socket(Delivery),
}

impl Replier {
    /// The return path of an event with this weight.
    pub(crate) fn new(
        answer: oneshot::Sender<Answer>,
        mailbox: &Arc<Mailbox>,
        weight: usize,
    ) -> Self {
        Self {
            to: Origin::Caller(answer),
            ticket: Ticket::new(mailbox, weight),
            deadline: None,
        }
    }

    pub(crate) fn for_socket(delivery: Delivery, mailbox: &Arc<Mailbox>) -> Self {
        Self {
            to: Origin::Socket(delivery),
            ticket: Ticket::new(mailbox, EVENT_BYTES),
            deadline: None,
        }
    }

    /// The event may begin until this time of the clock.
    pub(crate) fn until(self, deadline: Option<Duration>) -> Self {
        Self { deadline, ..self }
    }

    /// Returns whether it is too late to begin the event: its caller no longer waits.
    pub(crate) fn is_late(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns whether a caller waits for the answer.
    pub(crate) fn has_caller(&self) -> bool {
        matches!(self.to, Origin::Caller(_))
    }

    /// Ready once the caller no longer waits for the answer. A socket always does.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.to {
            Origin::Caller(caller) => caller.poll_closed(cx),
            Origin::Socket(_) => Poll::Pending,
        }
    }

    /// Records that the runtime will answer the event with an error.
    pub(crate) fn interrupted(&self) {
        if let Origin::Socket(delivery) = &self.to {
            delivery.interrupted();
        }
    }

    /// Returns whether this is a socket's event that waits, or has waited, for an object that could not be created.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(&self.to, Origin::Socket(delivery) if delivery.is_put_off())
    }

    /// Since when a socket's event has been waiting for an object that cannot be created; `now` if it has not so far,
    /// or is not a socket's.
    pub(crate) fn put_off(&mut self, now: Duration) -> Duration {
        match &mut self.to {
            Origin::Socket(delivery) => delivery.put_off(now),
            Origin::Caller(_) => now,
        }
    }

    /// Answers. Returns a response whose caller is gone.
    pub(crate) fn send(self, answer: Released<Result<Reply>>) -> Option<UndeliveredReply> {
        let Self { to, ticket, .. } = self;
        let answer = match to {
            Origin::Caller(caller) => caller.send(answer).err()?.into_inner(),
            Origin::Socket(delivery) => {
                if let Err(error) = answer.into_inner() {
                    delivery.fail(&error);
                }
                return None;
            }
        };
        match answer {
            Ok(reply @ Reply::Fetch(_)) => Some(UndeliveredReply {
                _reply: reply,
                _ticket: ticket,
            }),
            // Nothing but bytes.
            Ok(Reply::Rpc(_) | Reply::Done) | Err(_) => None,
        }
    }

    /// Accounts for an answer of this many bytes.
    pub(crate) fn carries(&mut self, bytes: usize) {
        self.ticket.carries(bytes as u64);
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.ticket.mailbox)
    }
}

/// Counts an outstanding answer of a worker, and its memory. A stopping node waits until none is outstanding.
pub(crate) struct Ticket {
    mailbox: Arc<Mailbox>,
    used_for: MemoryUse,
    bytes: u64,
}

impl Ticket {
    /// A ticket of this weight, at least [`EVENT_BYTES`].
    pub(crate) fn new(mailbox: &Arc<Mailbox>, weight: usize) -> Self {
        mailbox.outstanding.fetch_add(1, Ordering::AcqRel);
        mailbox.memory.take(MemoryUse::Events, weight as u64);
        Self {
            mailbox: Arc::clone(mailbox),
            used_for: MemoryUse::Events,
            bytes: weight as u64,
        }
    }

    /// The event has become an answer. An answer that is no larger keeps the charge of its event.
    fn carries(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.mailbox.memory.give(self.used_for, self.bytes);
            self.mailbox.memory.take(MemoryUse::Replies, bytes);
            (self.used_for, self.bytes) = (MemoryUse::Replies, bytes);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.mailbox.memory.give(self.used_for, self.bytes);
        if self.mailbox.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Without it, `wanted` may be read before the count is seen to be zero, and the stopping node would wait
            // for a signal that never comes. Pairs with the one in `Router::enter`.
            fence(Ordering::SeqCst);
            if self.mailbox.drain.wanted.load(Ordering::Acquire) {
                self.mailbox.drain.is_drained.notify_one();
            }
        }
    }
}
