//! The alarm of a component.

use abide::{Alarm, Ctx, Result, ScheduledTime, Storage, Timestamp};

/// The last millisecond of the year 9999. Later alarms are clamped to it.
const MAX_TIME: i64 = crate::limits::MAX_TIME;

/// When a component wants its object to be woken: an [`Alarm`] that is never given up. Set its handler with
/// [`Ctx::on_alarm`]. Clones refer to the same alarm.
#[derive(Clone, Debug)]
pub struct WakeUp(Timer);

#[derive(Clone, Debug)]
enum Timer {
    Named(Alarm),
    /// The object's own alarm.
    Own(Storage),
}

impl WakeUp {
    /// The alarm of the component with this name.
    pub fn new(ctx: &Ctx, component: &str) -> Self {
        Self(Timer::Named(ctx.alarm(component).never_given_up()))
    }

    /// The object's own alarm, for a class that is one component. Its handler is the class's.
    pub fn own(ctx: &Ctx) -> Self {
        Self(Timer::Own(ctx.storage().clone()))
    }

    /// Sets the time, in milliseconds since 1970, or removes it. A time that has passed wakes the object at once.
    /// Writes nothing if the same time is already set.
    pub fn set(&self, at: Option<i64>) -> Result<()> {
        // No alarm is set for 1970 itself.
        let at = at.map(|at| at.clamp(1, MAX_TIME));
        if self.get()? == at {
            return Ok(());
        }
        match (&self.0, at.map(ScheduledTime::wait_until)) {
            (Timer::Named(alarm), Some(at)) => alarm.set(at),
            (Timer::Named(alarm), None) => alarm.delete(),
            (Timer::Own(storage), Some(at)) => storage.set_alarm(at),
            (Timer::Own(storage), None) => storage.delete_alarm(),
        }
    }

    /// Sets the time, unless an earlier one is set.
    pub fn not_later_than(&self, at: i64) -> Result<()> {
        match self.get()? {
            Some(set) if set <= at => Ok(()),
            _ => self.set(Some(at)),
        }
    }

    /// The time that is set. While the alarm is being handled, that of the next alarm.
    pub fn get(&self) -> Result<Option<i64>> {
        let at = match &self.0 {
            Timer::Named(alarm) => alarm.get()?,
            Timer::Own(storage) => storage.alarm()?,
        };
        Ok(at.map(Timestamp::unix_millis))
    }
}
