//! The clock of a lease.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was started, which also counts while the process or the machine sleeps (`CLOCK_BOOTTIME`). Not while a
/// hypervisor suspends the whole machine.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(time.tv_sec.cast_unsigned(), nanos)
}
