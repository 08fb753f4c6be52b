//! Maintenance: what has to be done from time to time so that commits have room.
//!
//! Segments are prepared ahead of the log, and a checkpoint is taken when it is due. A thread does it when somebody
//! asks and once a second; a store without threads does it when its caller asks.

use crate::engine::Engine;
use crate::error::Result;
use crate::limits::PREPARED_SEGMENTS;
use crate::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The thread looks for work at least so often.
const RETRY: Duration = Duration::from_secs(1);

/// Who asks for maintenance, and the thread that waits for it.
#[derive(Default)]
pub(crate) struct Maintenance {
    requests: Mutex<Requests>,
    wake: Condvar,
}

#[derive(Default)]
struct Requests {
    work: bool,
    stop: bool,
}

impl Maintenance {
    /// Asks the thread to look for work now.
    pub(crate) fn request(&self) {
        let mut requests = self.requests.lock();
        if !requests.work {
            requests.work = true;
            drop(requests);
            self.wake.notify_all();
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.requests.lock().stop = true;
        self.wake.notify_all();
    }

    /// Waits for work or a timeout. False: stop.
    fn wait(&self, timeout: Duration) -> bool {
        let mut requests = self.requests.lock();
        if !requests.work && !requests.stop {
            requests = self.wake.wait_timeout(requests, timeout);
        }
        requests.work = false;
        !requests.stop
    }
}

impl Engine {
    /// Prepares segments, and takes a checkpoint if one is due. Without threads it tidies the archive, too.
    pub(crate) fn run_maintenance(&self) -> Result<()> {
        self.prepare_segments()?;
        if !self.shared.threads {
            while self.compactor.compact()? {}
        }
        if self.checkpointer.is_due() || self.shared.log_is_full() || self.shared.no_space() {
            self.checkpointer.checkpoint()?;
        }
        Ok(())
    }

    fn prepare_segments(&self) -> Result<()> {
        let shared = &self.shared;
        while shared.log.wants_segment(PREPARED_SEGMENTS) && !shared.log_is_full() {
            match self.segments.prepare() {
                Ok(()) => {
                    shared.log.add_segment();
                    shared.set_no_space(false);
                }
                Err(error) => {
                    shared.judge(&error);
                    // One segment is enough to go on with, and a checkpoint may free others.
                    if shared.log.segments_ready() > 0 || shared.log_tail() > 0 {
                        shared.log.notify_progress();
                        break;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The maintenance thread.
    pub(crate) fn run_maintenance_thread(&self) {
        let shared = &self.shared;
        let interval = shared.options.checkpoint_interval;
        let mut last = Instant::now();
        while self.maintenance.wait(RETRY.min(interval)) {
            if shared.log.failed() {
                return;
            }
            if let Err(error) = self.run_maintenance() {
                tracing::warn!(%error, "maintenance goes on later");
            }
            if last.elapsed() >= interval {
                if shared.log_tail() > 0
                    && let Err(error) = self.checkpointer.checkpoint()
                {
                    tracing::warn!(%error, "the checkpoint goes on later");
                }
                last = Instant::now();
            }
        }
    }
}
