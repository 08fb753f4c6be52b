//! Tells whether a run has been woken.
//!
//! Contract: a run is at rest when it was polled and nothing has woken it since. Only then is what it has asked for complete.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// A run's waker, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Signal {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Signal {
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Forgets that it was woken.
    pub(super) fn take(&self) {
        self.woken.store(false, Ordering::Release);
    }

    /// True if it was woken since that was last forgotten.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Ends when it is woken, and does not forget that.
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
