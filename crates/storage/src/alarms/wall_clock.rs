//! The wall clock and its steps back.
//!
//! A wait must not get longer when the wall clock is set back, so waits are measured in *steady time*: the wall clock
//! plus the sum of all steps back so far ([`ClockTime`]). Rows and the index hold steady times, which a step does not
//! change. Only the sum changes, and the manifest has it.
//!
//! A process that sees its clock set back calls [`Store::clock_set_back`](crate::Store::clock_set_back), which saves the
//! new sum before anything is written with the new time. Whatever time is stored, with a wait, a commit or a checkpoint,
//! the process has seen the clock at that time ([`Store::watch_clock`](crate::Store::watch_clock)).
//!
//! So a step that no process saw has happened since the newest stored time. It shows when a process begins to look at the
//! clock: the clock is behind that time ([`Store::catch_up_with_clock`](crate::Store::catch_up_with_clock)). The derived
//! step is at most the real one, since time has passed in between.

/// A time of the wall clock, with the sum of its steps back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockTime {
    /// Milliseconds since 1970.
    pub unix_millis: i64,
    /// The sum of all steps back before this time, in milliseconds.
    pub set_back: i64,
}

impl ClockTime {
    /// The same time in milliseconds of steady time.
    pub fn steady(self) -> i64 {
        self.unix_millis.saturating_add(self.set_back)
    }
}
