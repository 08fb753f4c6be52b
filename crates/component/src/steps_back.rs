//! Steps back of the wall clock: how much later than meant the waits in a component's tables end.
//!
//! A component that stores waits as times stores the sum of the clock's steps back with them, in the column `set_back`
//! of its table with one row ([`tables::prepare_waits`](crate::tables::prepare_waits)). Before it reads or writes waits,
//! it asks whether the clock [was set back](noticed), and shifts them.

use abide::{Ctx, Storage};

use crate::{limits, numbers::millis};

/// A step back of the wall clock that the stored waits do not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepBack {
    /// How much later than meant the waits end, in milliseconds. 0 if the tables come from a machine whose clock was set
    /// back more than this one's.
    pub by: i64,
    /// The sum of all steps, to be stored with the shifted waits.
    pub sum: i64,
}

/// The step back of the wall clock since waits were stored with this sum, if there was one. `now` is the time from which
/// the caller counts new waits. If the clock was set back after `now` was read, there was no step yet: the next call
/// returns it, and shifts the waits that are counted from this `now` as well.
pub fn since(storage: &Storage, sum: i64, now: i64) -> Option<StepBack> {
    let time = storage.clock_time();
    let is_past = time
        .unix_millis
        .saturating_add(millis(limits::CLOCK_TOLERANCE))
        < now;
    (time.set_back != sum && !is_past).then(|| StepBack {
        by: time.set_back.saturating_sub(sum).max(0),
        sum: time.set_back,
    })
}

/// The same for a component of this name that now shifts its waits and stores the sum. A line in the log says so.
pub fn noticed(ctx: &Ctx, component: &str, sum: i64, now: i64) -> Option<StepBack> {
    let step = since(ctx.storage(), sum, now)?;
    if step.by > 0 {
        tracing::warn!(
            by_millis = step.by, component, class = ctx.class(), object = %ctx.id(),
            "the wall clock was set back: waits are counted from the new time"
        );
    }
    Some(step)
}
