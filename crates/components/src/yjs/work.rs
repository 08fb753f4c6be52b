//! The work that a document may take: measured, bounded, and away from the worker's thread if it may take long.

use std::{sync::OnceLock, time::Duration};

use abide::{Error, Result};
use rustix::time::{ClockId, clock_gettime};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::limits::TIME_PER_KIB;

/// Processor time that a piece of work may take on its thread. Processor time, because the machine may be busy with other things.
pub(super) struct Budget {
    begin: Duration,
    allowance: Duration,
}

impl Budget {
    /// Begins to count, on this thread: this time, and more for each KiB.
    pub(super) fn begin(fixed: Duration, bytes: u64) -> Self {
        Self {
            begin: processor_time(),
            allowance: allowance(fixed, bytes),
        }
    }

    pub(super) fn spent(&self) -> Duration {
        processor_time().saturating_sub(self.begin)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent() > self.allowance
    }
}

/// This time, and more for each KiB.
pub(super) fn allowance(fixed: Duration, bytes: u64) -> Duration {
    let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
    fixed + TIME_PER_KIB.saturating_mul(kib)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// Runs work on another thread. At most half of the machine's cores do such work; further work waits.
pub(super) async fn elsewhere<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R> {
    static TURNS: OnceLock<Semaphore> = OnceLock::new();
    let turns = TURNS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Semaphore::new((cores / 2).max(1))
    });
    let turn = turns.acquire().await.map_err(Error::from_std)?;
    // The turn ends with the work, even if the object no longer waits for it.
    spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    })
    .await
    .map_err(Error::from_std)
}
