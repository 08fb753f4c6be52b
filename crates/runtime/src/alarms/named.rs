//! Alarms that have names.

use std::{fmt, rc::Rc};

use super::{AlarmTime, ScheduledTime};
use crate::{Error, ErrorKind, Result, object::Object};

/// An alarm of the object that has a name, from [`State::alarm`](crate::State::alarm). An object has up to 1,000, beside its
/// [own](crate::Storage::set_alarm); each has its own time, attempts, retries and end, and is a row of the object's
/// database. They go off one after another, the one that is due for longest first.
///
/// The class's [`alarm`](crate::DurableObject::alarm) is called with its [name](crate::AlarmInfo::name), unless the alarm has
/// [a handler of its own](crate::State::on_alarm).
#[derive(Clone)]
pub struct Alarm {
    object: Rc<Object>,
    name: Rc<str>,
}

impl Alarm {
    pub(crate) fn new(object: Rc<Object>, name: &str) -> Self {
        Self {
            object,
            name: name.into(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the alarm, in place of the time that it has. The rest is as for [`Storage::set_alarm`](crate::Storage::set_alarm).
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the name is empty or longer than 256 bytes, or the object has 1,000 such alarms.
    pub fn set(&self, at: impl Into<ScheduledTime>) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the name of an alarm is not empty; the object's own is set with `Storage::set_alarm`",
            ));
        }
        self.object.set_alarm(&self.name, at.into())
    }

    /// The time that it is set to, as [`Storage::get_alarm`](crate::Storage::get_alarm) tells of the object's own.
    pub fn get(&self) -> Result<Option<AlarmTime>> {
        self.object.get_alarm(&self.name)
    }

    /// Removes it, if it is set. In its own handler it takes back the next one; the one that is being handled goes when the
    /// handler succeeds, and is tried again if it does not.
    pub fn delete(&self) -> Result<()> {
        self.object.delete_alarm(&self.name)
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
