//! The output gate: what an object sends leaves when what it wrote is durable.
//!
//! - A [`Departure`] carries the log position (LSN) of the newest write it may reveal. If the log is durable
//!   that far it leaves at once, without a lock; otherwise it waits in its worker's [`Lane`].
//! - The log's writer thread releases what has become durable, directly to the receiver: the worker is not
//!   involved any more.
//! - What one object sends leaves in the order in which it was sent.
//! - If the log fails, everything held is replaced by an error, and so is everything that comes later and
//!   would have to wait.
//! - [`Released`] is the proof of having passed: reply channels carry nothing else, and only this module makes one.

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use abide_storage::{Lsn, Store};
use tokio::sync::oneshot;

use crate::{
    Error, Reply, Result,
    body::{BodyMessage, FramePermit},
    envelope::{Envelope, Replier},
};

/// A value that has passed an output gate.
///
/// Nothing outside the gate can make one, so a channel of `Released<T>` cannot carry anything that is not
/// durable yet:
///
/// ```compile_fail
/// let forged = abide_runtime::Released("not durable");
/// ```
/// ```compile_fail
/// let forged = abide_runtime::Released::new("not durable");
/// ```
/// ```compile_fail
/// let forged: abide_runtime::Released<&str> = "not durable".into();
/// ```
/// ```compile_fail
/// fn copy(one: &abide_runtime::Released<&str>) -> abide_runtime::Released<&str> { one.clone() }
/// ```
pub struct Released<T>(T);

impl<T> Released<T> {
    /// The value, which is free to go anywhere.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Released<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Released").field(&self.0).finish()
    }
}

/// Something on its way out of an object.
pub(crate) enum Departure {
    /// The answer to an event.
    Reply(Replier, Result<Reply>),
    /// A call to another object.
    Call(Envelope),
    /// A piece of a streamed response body.
    Body(FramePermit, BodyMessage),
    /// Nothing but the news that everything before it is durable.
    Synced(oneshot::Sender<Released<()>>),
}

impl Departure {
    /// Lets it out. Quick, never blocks: it may run on the log's writer thread.
    fn release(self) {
        match self {
            Self::Reply(replier, result) => replier.send(Released(result)),
            Self::Call(envelope) => {
                if let Err((envelope, error)) = envelope.replier.mailbox().post(envelope) {
                    envelope.replier.send(Released(Err(error)));
                }
            }
            Self::Body(permit, message) => drop(permit.send(Released(message))),
            // The object may have been reset meanwhile.
            Self::Synced(waiter) => drop(waiter.send(Released(()))),
        }
    }

    /// The same departure with an error instead of its content.
    pub(crate) fn into_failed(self, error: Error) -> Self {
        match self {
            Self::Reply(replier, _) => Self::Reply(replier, Err(error)),
            Self::Call(envelope) => Self::Reply(envelope.replier, Err(error)),
            Self::Body(permit, _) => Self::Body(permit, BodyMessage::Failed(error)),
            // Dropping the sender at release tells the waiter.
            Self::Synced(_) => Self::Synced(oneshot::channel().0),
        }
    }
}

/// An answer that the runtime gives in place of an object: it reveals nothing of what an object wrote.
pub(crate) fn refuse(replier: Replier, error: Error) {
    replier.send(Released(Err(error)));
}

/// The output gate of one worker's objects.
#[derive(Default)]
pub(crate) struct Lane {
    held: Mutex<Held>,
    /// Serialises releasing, so that the order of departures is kept between the worker and the log's writer.
    releasing: Mutex<()>,
    /// Everything held at or before this LSN has left.
    released: AtomicU64,
    count: AtomicUsize,
}

#[derive(Default)]
struct Held {
    /// Sorted by LSN; in order of arrival among equals.
    queue: VecDeque<(Lsn, Departure)>,
    failed: bool,
}

impl Lane {
    /// Lets a departure out when `lsn` is durable. `last_held` belongs to the sending object: the highest
    /// LSN at which something of it was ever held.
    pub(crate) fn depart(&self, store: &Store, lsn: Lsn, last_held: &Cell<Lsn>, departure: Departure) {
        if lsn <= store.durable() && last_held.get().get() <= self.released.load(Ordering::Acquire) {
            departure.release();
            return;
        }
        {
            let mut held = self.held();
            if held.failed {
                drop(held);
                departure.into_failed(Error::log_failed()).release();
                return;
            }
            let at = held.queue.partition_point(|(other, _)| *other <= lsn);
            held.queue.insert(at, (lsn, departure));
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        last_held.set(last_held.get().max(lsn));
        // The log may have moved between the check and the insertion; its writer will not come back for us.
        let durable = store.durable();
        if lsn <= durable {
            self.release_through(durable);
        } else if store.failed() {
            self.fail();
        }
    }

    /// Everything up to `durable` may leave.
    pub(crate) fn release_through(&self, durable: Lsn) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let _order = self.releasing.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let ready: Vec<_> = {
                    let mut held = self.held();
                    let end = held.queue.partition_point(|(lsn, _)| *lsn <= durable);
                    held.queue.drain(..end).collect()
                };
                if ready.is_empty() {
                    break;
                }
                self.count.fetch_sub(ready.len(), Ordering::Relaxed);
                ready.into_iter().for_each(|(_, departure)| departure.release());
            }
        }
        self.released.fetch_max(durable.get(), Ordering::Release);
    }

    /// The log has failed: what is held will never be durable.
    pub(crate) fn fail(&self) {
        let _order = self.releasing.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = {
            let mut held = self.held();
            held.failed = true;
            std::mem::take(&mut held.queue)
        };
        self.count.fetch_sub(lost.len(), Ordering::Relaxed);
        lost.into_iter().for_each(|(_, departure)| departure.into_failed(Error::log_failed()).release());
    }

    /// How many departures wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
