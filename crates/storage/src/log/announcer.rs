//! Tells listeners how far the log is.
//!
//! - One thread at a time tells, so what listeners hear never goes back, nothing follows a failure, and each is told of a
//!   failure once. Whoever has news while another tells leaves it to that one.
//! - A listener is code of others: its panic is counted and logged, and the next one is told.

use super::{Counter, Listener, Progress};
use crate::ident::Lsn;
use crate::panics::guard;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};

pub(super) struct Announcer {
    listeners: RwLock<Vec<Listener>>,
    /// Everything before this position is durable.
    durable: AtomicU64,
    failed: AtomicBool,
    told: Mutex<Told>,
    /// The thread of [`Self::run`] waits here.
    wake: Condvar,
    /// Time spent on telling, by whoever did it.
    nanos: Counter,
    panics: Counter,
}

struct Told {
    durable: Lsn,
    failed: bool,
    /// Somebody is telling.
    busy: bool,
    thread: Thread,
    stopped: bool,
}

/// The thread of [`Announcer::run`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// There is none, or it is about to end.
    Absent,
    /// It waits, or is telling and will look again.
    Idle,
    /// It is to tell.
    Asked,
}

impl Announcer {
    pub(super) fn new(durable: Lsn) -> Self {
        Self {
            listeners: RwLock::default(),
            durable: AtomicU64::new(durable.0),
            failed: AtomicBool::new(false),
            told: Mutex::new(Told {
                durable,
                failed: false,
                busy: false,
                thread: Thread::Absent,
                stopped: false,
            }),
            wake: Condvar::default(),
            nanos: Counter::default(),
            panics: Counter::default(),
        }
    }

    pub(super) fn subscribe(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    /// Panics of listeners, and the time that telling them took.
    pub(super) fn stats(&self) -> (u64, Duration) {
        (self.panics.get(), Duration::from_nanos(self.nanos.get()))
    }

    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Notes the news. Under the log's lock, so that the position does not move after a failure.
    pub(super) fn note(&self, progress: Progress) {
        match progress {
            Progress::Durable(lsn) => self.durable.store(lsn.0, Ordering::Release),
            Progress::Failed => self.failed.store(true, Ordering::Release),
        }
    }

    /// Tells what is not told yet, unless another thread is just doing it.
    pub(super) fn tell(&self) {
        let mut told = self.told.lock();
        if told.busy {
            return;
        }
        told.busy = true;
        let begun = Instant::now();
        while let Some(news) = self.next(&mut told) {
            drop(told);
            for listener in self.listeners.read().iter() {
                if let Err(why) = guard(|| listener(news)) {
                    self.panics.add(1);
                    tracing::error!(
                        why,
                        ?news,
                        "a listener of the log panicked; the log goes on"
                    );
                }
            }
            told = self.told.lock();
        }
        told.busy = false;
        drop(told);
        self.nanos.add_time(begun.elapsed());
    }

    /// What became durable before a failure did so: it is told first.
    fn next(&self, told: &mut Told) -> Option<Progress> {
        let failed = self.failed();
        let durable = self.durable();
        if durable > told.durable {
            told.durable = durable;
            return Some(Progress::Durable(durable));
        }
        if failed && !told.failed {
            told.failed = true;
            return Some(Progress::Failed);
        }
        None
    }

    /// Has the thread of [`Self::run`] tell. False if there is none.
    pub(super) fn hand_over(&self) -> bool {
        let mut told = self.told.lock();
        let before = told.thread;
        if before == Thread::Idle {
            told.thread = Thread::Asked;
        }
        drop(told);
        if before == Thread::Idle {
            self.wake.notify_all();
        }
        before != Thread::Absent
    }

    /// A thread that tells what it is asked to, until [`Self::stop`].
    pub(super) fn run(&self) {
        let mut told = self.told.lock();
        told.thread = Thread::Idle;
        while !told.stopped {
            if told.thread == Thread::Asked {
                told.thread = Thread::Idle;
                drop(told);
                self.tell();
                told = self.told.lock();
            } else {
                told = self.wake.wait(told);
            }
        }
        told.thread = Thread::Absent;
        drop(told);
        self.tell();
    }

    /// Ends the thread when all is told.
    pub(super) fn stop(&self) {
        self.told.lock().stopped = true;
        self.wake.notify_all();
    }
}
