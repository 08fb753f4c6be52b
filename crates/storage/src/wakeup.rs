//! Wakes and stops a thread that works from time to time.

use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// Shared between a thread and those who request its work.
#[derive(Default)]
pub(crate) struct Wakeup {
    requests: Mutex<Requests>,
    changed: Condvar,
}

#[derive(Default)]
struct Requests {
    work: bool,
    stop: bool,
}

impl Wakeup {
    /// Asks the thread to check for work now.
    pub(crate) fn request(&self) {
        let mut requests = self.requests.lock();
        if !requests.work {
            requests.work = true;
            drop(requests);
            self.changed.notify_all();
        }
    }

    /// Stops the thread.
    pub(crate) fn stop(&self) {
        self.requests.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits for work, at most this long. Returns false to stop.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut requests = self.requests.lock();
        if !requests.work && !requests.stop {
            requests = self.changed.wait_timeout(requests, timeout);
        }
        requests.work = false;
        !requests.stop
    }
}
