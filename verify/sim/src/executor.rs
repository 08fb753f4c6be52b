//! One thread that runs every future of a life, in an order that depends only on them.
//!
//! A tokio runtime with one thread, without timers and without an I/O driver: its queue is first in, first out. It runs
//! for a number of rounds, or until nothing can run any more, which it signals when it is about to park.

use std::{
    future::{Future, poll_fn},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

use tokio::{
    runtime::{Builder, LocalOptions, LocalRuntime},
    task::JoinHandle,
};

/// Runs local futures.
pub(crate) struct Executor {
    runtime: LocalRuntime,
    parking: Arc<Parking>,
}

#[derive(Default)]
struct Parking {
    idle: AtomicBool,
    waiter: Mutex<Option<Waker>>,
}

impl Executor {
    pub(crate) fn new() -> io::Result<Self> {
        let parking = Arc::new(Parking::default());
        let parks = Arc::clone(&parking);
        let runtime = Builder::new_current_thread()
            .on_thread_park(move || parks.park())
            .build_local(LocalOptions::default())?;
        Ok(Self { runtime, parking })
    }

    pub(crate) fn spawn<F: Future<Output: 'static> + 'static>(
        &self,
        future: F,
    ) -> JoinHandle<F::Output> {
        self.runtime.spawn_local(future)
    }

    /// Runs code that spawns futures itself.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _guard = self.runtime.enter();
        work()
    }

    /// Runs everything that is ready this many times.
    pub(crate) fn rounds(&self, count: u32) {
        self.runtime.block_on(async {
            for _ in 0..count {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Runs until nothing can run.
    pub(crate) fn until_idle(&self) {
        self.parking.idle.store(false, Ordering::Relaxed);
        self.runtime.block_on(poll_fn(|cx| {
            if self.parking.idle.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            *self.parking.waiter() = Some(cx.waker().clone());
            Poll::Pending
        }));
    }
}

impl Parking {
    fn park(&self) {
        if let Some(waiter) = self.waiter().take() {
            self.idle.store(true, Ordering::Relaxed);
            waiter.wake();
        }
    }

    fn waiter(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.waiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
