//! How a thread with work from time to time is woken and ended.

use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// Shared between a thread and those who want it to look for work.
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
    /// Asks the thread to look for work now.
    pub(crate) fn request(&self) {
        let mut requests = self.requests.lock();
        if !requests.work {
            requests.work = true;
            drop(requests);
            self.changed.notify_all();
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.requests.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits for work, but not longer than this. False: stop.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut requests = self.requests.lock();
        if !requests.work && !requests.stop {
            requests = self.changed.wait_timeout(requests, timeout);
        }
        requests.work = false;
        !requests.stop
    }
}
