//! A clock that is set back.
//!
//! Contract: times are those of the wall clock, so whatever happens to it, a timer that goes off once does so when it shows
//! the time. If it is found to be behind what was seen before, waits are not made longer by that: retries come nearer, and
//! so do intervals that are counted from nowhere in particular. Times of a rhythm that went off already do not come again;
//! only if the clock was far ahead, by more than three hours, it counts as wrong before, and rhythms follow the new time at
//! once. Forward, a clock that is set and a node that did not run are the same: what was missed is missed.

use abide::Result;

use super::{Timing, inner::Inner, limits};
use abide_component::numbers::millis;

impl Inner {
    /// Notes the time, and makes good that the clock was set back, if it was.
    pub(super) fn mind_clock(&self, now: i64) -> Result<()> {
        let seen = self.seen.take_or(self.rows.last_seen()?);
        if now.saturating_sub(seen) >= millis(limits::CLOCK_STEP) {
            return self.rows.see(now);
        }
        let back = seen.saturating_sub(now);
        if back <= millis(limits::CLOCK_TOLERANCE) {
            return Ok(());
        }
        self.rows.see(now)?;
        self.rows.pull_retries(back, now)?;
        let was_wrong = back > millis(limits::CLOCK_CORRECTION);
        for set in self.rows.repeating()? {
            let timing = &set.spec.0.timing;
            let (anchor, next) = match timing {
                Timing::Interval { start: None, .. } => {
                    let anchor = timing.anchor(now);
                    (anchor, Some(anchor))
                }
                _ if was_wrong => match timing.after(set.anchor, now) {
                    Ok(next) => (set.anchor, next),
                    // It is found again, and seen, when the timer goes off.
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
