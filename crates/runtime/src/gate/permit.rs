//! A limit on departures at the output gate that have no caller.
//!
//! Replies and calls are bounded by the events that they belong to. Messages to an object's sockets are not: one event
//! may send to thousands of them, and background work belongs to no event. Each such departure therefore has a permit,
//! which counts against the [`HeldBytes`] of its object and its worker until it has left.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Error, ErrorKind, Result, envelope::Mailbox, limits::MAX_GATED_PER_OBJECT};

/// Bytes that one object has at its output gate. They outlive the object in memory, as departures do.
#[derive(Default)]
pub(crate) struct HeldBytes(AtomicUsize);

/// A reservation at the gate, released on drop.
pub(crate) struct GatePermit {
    bytes: usize,
    held_bytes: Arc<HeldBytes>,
    mailbox: Arc<Mailbox>,
}

impl GatePermit {
    /// Reserves capacity for a departure of this size. A single one always fits.
    pub(crate) fn acquire(
        bytes: usize,
        held_bytes: &Arc<HeldBytes>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Self> {
        // Only the object's own thread adds; others subtract.
        let of_object = held_bytes.0.load(Ordering::Relaxed);
        let of_worker = mailbox.gated.load(Ordering::Relaxed);
        let full = |used: usize, limit| used > 0 && used.saturating_add(bytes) > limit;
        let most = mailbox.max_gated;
        if full(of_object, MAX_GATED_PER_OBJECT.min(most)) || full(of_worker, most) {
            mailbox.counters.overloaded.add();
            return Err(Error::with_kind(
                ErrorKind::Overloaded,
                format!(
                    "too many bytes sent to WebSockets are waiting for the disk ({of_object} of this object, {of_worker} \
                     of its worker): wait with `ctx.storage().sync().await` and send again"
                ),
            ));
        }
        held_bytes.0.fetch_add(bytes, Ordering::Relaxed);
        mailbox.gated.fetch_add(bytes, Ordering::Relaxed);
        Ok(Self {
            bytes,
            held_bytes: Arc::clone(held_bytes),
            mailbox: Arc::clone(mailbox),
        })
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        self.held_bytes.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.mailbox.gated.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
