//! Handling of a clock that is set back.
//!
//! Contract: times are wall-clock times: whatever happens to the clock, a one-shot timer goes off when the clock shows
//! its time. If the clock is behind the last-seen time, relative waits are not longer because of that: retries move
//! earlier, and so do unanchored intervals and timers that go off a time after they were set. Repeating times that have gone off do not go off again; only if the clock
//! was far ahead, by more than three hours, was it wrong before, and repeating timers follow the new time at once. A
//! clock that is set forward has the same effect as a node that did not run: missed occurrences are missed.

use abide::Result;

use super::{
    Timing,
    inner::{Inner, NAME},
    limits,
};
use abide_component::{
    numbers::millis,
    steps_back::{self, StepBack},
};

impl Inner {
    /// Corrects waits if the clock was set back. Call it before waits are read, or written from the new time.
    pub(super) fn mind_clock(&self, now: i64) -> Result<()> {
        let known = self.rows.set_back()?;
        let Some(StepBack { by: back, sum }) = steps_back::noticed(&self.ctx, NAME, known, now)
        else {
            return Ok(());
        };
        self.rows.save_set_back(sum)?;
        if back == 0 {
            return Ok(());
        }
        self.rows.pull_retries(back, now)?;
        self.rows.none_is_behind()?;
        self.suspects.clock_went_back(now);
        let was_wrong = back > millis(limits::CLOCK_CORRECTION);
        for set in self.rows.movable()? {
            let timing = &set.spec.0.timing;
            let (anchor, next) = match timing {
                Timing::After { .. } => {
                    let nearer = |at: i64| at.saturating_sub(back).max(now);
                    (set.anchor, set.due_at.map(nearer))
                }
                Timing::Interval { start: None, .. } => {
                    let anchor = timing.anchor(now);
                    (anchor, Some(anchor))
                }
                _ if was_wrong => match timing.after(set.anchor, now) {
                    Ok(next) => (set.anchor, next),
                    // The error recurs, and is reported, when the timer goes off.
                    Err(_) => continue,
                },
                _ => continue,
            };
            if next < set.due_at {
                self.rows.reset(set.id, anchor, next)?;
            }
        }
        Ok(())
    }
}
