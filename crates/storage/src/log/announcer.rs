//! Notifies listeners of the log's progress.
//!
//! - One thread at a time notifies, so positions never move backwards, nothing follows a failure, and each listener is
//!   notified of a failure once. A thread with news leaves it to the one that is notifying.
//! - A listener is foreign code: its panic is counted and logged, and the next one is notified.

use super::{Counter, Listener, Progress};
use crate::ident::Lsn;
use crate::panics::guard;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, RwLock};
use crate::timing;
use std::time::{Duration, Instant};

pub(super) struct Announcer {
    listeners: RwLock<Vec<Listener>>,
    /// Everything before this position is durable on this machine.
    durable: AtomicU64,
    /// Everything before this position is copied; the highest number if that is not awaited.
    copied: AtomicU64,
    failed: AtomicBool,
    notified: Mutex<Notified>,
    /// The thread of [`Self::run`] waits here.
    wake: Condvar,
    /// When a thread began to notify, if one does now.
    busy_since: Mutex<Option<Instant>>,
    /// Time spent in listeners, on any thread.
    nanos: Counter,
    panics: Counter,
}

struct Notified {
    released: Lsn,
    failed: bool,
    /// A thread is notifying.
    busy: bool,
    thread: Thread,
    stopped: bool,
}

/// The thread of [`Announcer::run`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// There is none, or it is about to end.
    Absent,
    /// It waits, or is notifying and will check for more.
    Idle,
    /// It was asked to notify.
    Asked,
}

impl Announcer {
    pub(super) fn new(durable: Lsn) -> Self {
        Self {
            listeners: RwLock::default(),
            durable: AtomicU64::new(durable.0),
            copied: AtomicU64::new(u64::MAX),
            failed: AtomicBool::new(false),
            notified: Mutex::new(Notified {
                released: durable,
                failed: false,
                busy: false,
                thread: Thread::Absent,
                stopped: false,
            }),
            wake: Condvar::default(),
            busy_since: Mutex::default(),
            nanos: Counter::default(),
            panics: Counter::default(),
        }
    }

    pub(super) fn subscribe(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    /// The number of listener panics, and the time spent in listeners.
    pub(super) fn stats(&self) -> (u64, Duration) {
        (self.panics.get(), Duration::from_nanos(self.nanos.get()))
    }

    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Everything before this position is durable and, if that is awaited, copied. It never falls.
    pub(super) fn released(&self) -> Lsn {
        self.durable().min(Lsn(self.copied.load(Ordering::Acquire)))
    }

    /// From now on nothing is released before it is copied, not even what was recovered.
    pub(super) fn await_copies(&mut self) {
        self.copied = AtomicU64::new(0);
        self.notified.lock().released = Lsn::ZERO;
    }

    /// Records that everything before this position is copied. Returns false if that is known, or not awaited. Called under
    /// the log's lock, as [`Self::note`].
    pub(super) fn note_copied(&self, lsn: Lsn) -> bool {
        self.copied.fetch_max(lsn.0, Ordering::AcqRel) < lsn.0
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Records progress. Called under the log's lock, so that the position does not move after a failure.
    pub(super) fn note(&self, progress: Progress) {
        match progress {
            Progress::Durable(lsn) => self.durable.store(lsn.0, Ordering::Release),
            Progress::Failed => self.failed.store(true, Ordering::Release),
        }
    }

    /// Notifies listeners of new progress, unless another thread is doing so.
    pub(super) fn notify(&self) {
        let mut notified = self.notified.lock();
        if notified.busy {
            return;
        }
        notified.busy = true;
        let begun = timing::now();
        *self.busy_since.lock() = Some(begun);
        while let Some(news) = self.next(&mut notified) {
            drop(notified);
            for listener in self.listeners.read().iter() {
                if let Err(why) = guard(|| listener(news)) {
                    self.panics.add(1);
                    tracing::error!(
                        why,
                        ?news,
                        "a listener of the log panicked; the log continues"
                    );
                }
            }
            notified = self.notified.lock();
        }
        *self.busy_since.lock() = None;
        notified.busy = false;
        drop(notified);
        self.nanos.add_time(begun.elapsed());
    }

    /// Progress made before a failure is announced first.
    fn next(&self, notified: &mut Notified) -> Option<Progress> {
        let failed = self.failed();
        let released = self.released();
        if released > notified.released {
            notified.released = released;
            return Some(Progress::Durable(released));
        }
        if failed && !notified.failed {
            notified.failed = true;
            return Some(Progress::Failed);
        }
        None
    }

    /// How long a thread has been notifying listeners.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.busy_since.lock().map(|since| since.elapsed())
    }

    /// Wakes the thread of [`Self::run`]. False if there is none.
    pub(super) fn hand_over(&self) -> bool {
        let mut notified = self.notified.lock();
        let before = notified.thread;
        if before == Thread::Idle {
            notified.thread = Thread::Asked;
        }
        drop(notified);
        if before == Thread::Idle {
            self.wake.notify_all();
        }
        before != Thread::Absent
    }

    /// The body of the thread that notifies listeners, until [`Self::stop`].
    pub(super) fn run(&self) {
        let mut notified = self.notified.lock();
        notified.thread = Thread::Idle;
        while !notified.stopped {
            if notified.thread == Thread::Asked {
                notified.thread = Thread::Idle;
                drop(notified);
                self.notify();
                notified = self.notified.lock();
            } else {
                notified = self.wake.wait(notified);
            }
        }
        notified.thread = Thread::Absent;
        drop(notified);
        self.notify();
    }

    /// Stops the thread after all notifications.
    pub(super) fn stop(&self) {
        self.notified.lock().stopped = true;
        self.wake.notify_all();
    }
}
