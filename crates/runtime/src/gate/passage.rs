//! A bound on what waits at the output gate and has no caller.
//!
//! Replies and calls are bounded by the events that they belong to. What an object sends to its sockets is not: one event
//! may send to thousands of them, and background work belongs to no event. So each such departure takes room at its
//! object's [`Doorway`] and in its worker, and gives it back when it has left.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Error, ErrorKind, Result, envelope::Mailbox, limits::MAX_GATED_PER_OBJECT};

/// What one object has at its output gate, in bytes. It outlives the object in memory, as departures do.
#[derive(Default)]
pub(crate) struct Doorway(AtomicUsize);

/// Room at the gate, for as long as it is held.
pub(crate) struct Passage {
    bytes: usize,
    doorway: Arc<Doorway>,
    mailbox: Arc<Mailbox>,
}

impl Passage {
    /// Takes room for something of this weight. A single departure always fits.
    pub(crate) fn enter(
        bytes: usize,
        doorway: &Arc<Doorway>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Self> {
        // Only the object's own thread adds; others subtract.
        let of_object = doorway.0.load(Ordering::Relaxed);
        let of_worker = mailbox.gated.load(Ordering::Relaxed);
        let full = |used: usize, limit| used > 0 && used.saturating_add(bytes) > limit;
        let most = mailbox.max_gated;
        if full(of_object, MAX_GATED_PER_OBJECT.min(most)) || full(of_worker, most) {
            mailbox.counters.overloaded.add();
            return Err(Error::with_kind(
                ErrorKind::Overloaded,
                format!(
                    "too much that was sent to WebSockets waits for the disk ({of_object} bytes of this object, {of_worker} \
                     of its worker): wait with `state.storage().sync().await` and send again"
                ),
            ));
        }
        doorway.0.fetch_add(bytes, Ordering::Relaxed);
        mailbox.gated.fetch_add(bytes, Ordering::Relaxed);
        Ok(Self {
            bytes,
            doorway: Arc::clone(doorway),
            mailbox: Arc::clone(mailbox),
        })
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.doorway.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.mailbox.gated.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
