//! Named alarms.

use std::{fmt, rc::Rc};

use super::ScheduledTime;
use crate::{Error, ErrorKind, Result, Timestamp, limits, object::Object};

/// A named alarm of the object, from [`Ctx::alarm`](crate::Ctx::alarm). An object has up to 1,000 of them, besides
/// its [unnamed alarm](crate::Storage::set_alarm). Each has its own time, attempts, retries and outcome, and is a row
/// in the object's database. They fire one at a time, the one that has been due longest first.
///
/// It calls the class's [`alarm`](crate::DurableObject::alarm) with its [name](crate::AlarmInfo::name), unless it has
/// [its own handler](crate::Ctx::on_alarm).
#[derive(Clone)]
pub struct Alarm {
    object: Rc<Object>,
    name: Rc<str>,
    never_given_up: bool,
}

impl Alarm {
    pub(crate) fn new(object: Rc<Object>, name: &str) -> Self {
        Self {
            object,
            name: name.into(),
            never_given_up: false,
        }
    }

    /// The next time it is set, it is retried until it succeeds, at most a minute apart, whatever
    /// [`ClassOptions::alarm_retry`](crate::ClassOptions::alarm_retry) says. This is for components, whose work must
    /// not end because of a transient fault.
    #[must_use]
    pub fn never_given_up(self) -> Self {
        Self {
            never_given_up: true,
            ..self
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the alarm, replacing its current time. Otherwise as [`Storage::set_alarm`](crate::Storage::set_alarm).
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the name is empty or longer than 256 bytes, or the object has 1,000 such alarms.
    pub fn set(&self, at: impl Into<ScheduledTime>) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "an alarm name must not be empty; use `Storage::set_alarm` for the unnamed alarm",
            ));
        }
        self.object
            .set_alarm(&self.name, at.into(), self.max_backoff())
    }

    /// The time it is set to, as [`Storage::alarm`](crate::Storage::alarm) returns it for the unnamed alarm.
    pub fn get(&self) -> Result<Option<Timestamp>> {
        self.object.get_alarm(&self.name)
    }

    /// Removes the alarm, if it is set. In its own handler this cancels the next one; the alarm being handled is
    /// removed when the handler succeeds, and retried if it does not.
    pub fn delete(&self) -> Result<()> {
        self.object.delete_alarm(&self.name)
    }
}

impl Alarm {
    /// The longest wait before a retry, in milliseconds, if the class does not determine it.
    fn max_backoff(&self) -> Option<u32> {
        let millis = limits::COMPONENT_ALARM_MAX_BACKOFF.as_millis() as u32;
        self.never_given_up.then_some(millis)
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
