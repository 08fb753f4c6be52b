//! Detects whether a run has been woken.
//!
//! Contract: a run is idle when it was polled and nothing has woken it since. Only then are its requests complete.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// A run's waker, and its waiter.
#[derive(Debug, Default)]
pub(super) struct Signal {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Signal {
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Clears the signal.
    pub(super) fn take(&self) {
        self.woken.store(false, Ordering::Release);
    }

    /// True if it was woken since the signal was last cleared.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Completes when it is woken, without clearing the signal.
    pub(super) async fn woken(&self) {
        poll_fn(|cx| {
            self.task.register(cx.waker());
            if self.is_woken() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}
