//! What the components of an object are asked and told: whether they have work, and that everything was deleted.

use std::rc::Rc;

use super::Object;
use crate::Result;

/// One component's answers.
#[derive(Clone)]
pub(crate) struct Duties {
    /// Its name, which is also that of its alarm.
    pub(crate) component: Rc<str>,
    pub(crate) has_work: Rc<dyn Fn() -> Result<bool>>,
}

/// Called when everything was deleted.
pub(crate) type DeleteHook = Rc<dyn Fn()>;

impl Object {
    pub(crate) fn has_duties(&self, duties: Duties) {
        self.duties.borrow_mut().push(duties);
    }

    pub(crate) fn on_delete_all(&self, hook: DeleteHook) {
        self.delete_hooks.borrow_mut().push(hook);
    }

    /// True if a component says that it has work, or an alarm is set that is of no such component.
    pub(crate) fn has_work(&self) -> Result<bool> {
        let duties = self.duties.borrow().clone();
        for component in &duties {
            if (component.has_work)()? {
                return Ok(true);
            }
        }
        let is_told = |alarm: &str| duties.iter().any(|of| &*of.component == alarm);
        let alarms = self.named_alarms()?;
        Ok(self.get_alarm("")?.is_some() || alarms.iter().any(|(name, _)| !is_told(name)))
    }

    /// Tells the components that everything was deleted.
    pub(super) fn tell_deleted(&self) {
        let hooks = self.delete_hooks.borrow().clone();
        for deleted in hooks {
            deleted();
        }
    }
}
