//! The machine of the tasks that copy: the plan's clock, seeded numbers, and no threads.

use std::{
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::random::Random;
use abide::{
    clock::{Clock as _, TestClock},
    history::{Error, Machine, Sleep},
};

/// See the module.
pub(super) struct SimMachine {
    clock: TestClock,
    random: Mutex<Random>,
}

/// The moment at which every plan's clock starts: only differences count.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl SimMachine {
    pub(super) fn new(seed: u64, clock: &TestClock) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            random: Mutex::new(Random::new(seed)),
        })
    }
}

impl Machine for SimMachine {
    fn wall_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.clock.unix_millis())
    }

    fn now(&self) -> Instant {
        *START + self.clock.now()
    }

    fn sleep_until(&self, time: Instant) -> Sleep {
        self.clock.sleep_until(time.duration_since(*START))
    }

    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        for bytes in bytes.chunks_mut(8) {
            let drawn = random.draw().to_le_bytes();
            bytes.copy_from_slice(&drawn[..bytes.len()]);
        }
        Ok(())
    }
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated machine")
    }
}
