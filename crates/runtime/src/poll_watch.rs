//! A worker's record of the poll that it is doing, for the watchdog.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::ObjectId;

/// A worker's record of its current poll. Written only by the worker.
#[derive(Default)]
pub(crate) struct PollWatch {
    /// Nanoseconds plus one at which the poll began; 0 between polls.
    began: AtomicU64,
    binding: AtomicU64,
    id: [AtomicU64; 4],
    stuck: AtomicBool,
}

impl PollWatch {
    pub(crate) fn begin(&self, now: Duration, binding: usize, id: ObjectId) -> Watched<'_> {
        self.binding.store(binding as u64, Ordering::Relaxed);
        for (word, bytes) in self.id.iter().zip(id.as_bytes().chunks_exact(8)) {
            word.store(
                bytes.try_into().map_or(0, u64::from_le_bytes),
                Ordering::Relaxed,
            );
        }
        self.began
            .store(now.as_nanos() as u64 + 1, Ordering::Release);
        Watched(self)
    }

    /// Records whether it lasts too long.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// How long the current poll has lasted, and when it began.
    pub(crate) fn age(&self, now: Duration) -> Option<(u64, Duration)> {
        match self.began.load(Ordering::Acquire) {
            0 => None,
            began => Some((began, now.saturating_sub(Duration::from_nanos(began - 1)))),
        }
    }

    /// The object being polled. Accurate whenever the poll has lasted long enough to be reported.
    pub(crate) fn object(&self) -> (usize, ObjectId) {
        let mut id = [0; 32];
        for (word, bytes) in self.id.iter().zip(id.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        (
            self.binding.load(Ordering::Relaxed) as usize,
            ObjectId::from_bytes(id),
        )
    }
}

/// Marks the end of the poll when dropped.
pub(crate) struct Watched<'a>(&'a PollWatch);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.began.store(0, Ordering::Release);
    }
}
