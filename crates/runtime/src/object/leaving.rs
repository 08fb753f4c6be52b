//! Leaving memory: the object's code is told before, in its own turn.

use std::{rc::Rc, task::Poll, time::Duration};

use super::{Object, Turn};
use crate::{Error, ErrorKind, Event, Result, limits::LEAVING_PAUSE};

/// Called before the object leaves memory.
pub(crate) type LeaveHook = Rc<dyn Fn() -> Result<()>>;

/// Calls a function when it is dropped: at the object's end.
pub(super) struct EndHook(Option<Box<dyn FnOnce()>>);

impl Drop for EndHook {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended();
        }
    }
}

/// Whether the object's code knows that the object leaves memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leaving {
    #[default]
    No,
    /// It is being told.
    Telling,
    /// It was told at this time, and has had no turn since.
    Told(Duration),
}

impl Object {
    /// Adds a hook, for the lifetime of this incarnation.
    pub(crate) fn on_leave(&self, hook: LeaveHook) {
        self.leave_hooks.borrow_mut().push(hook);
    }

    /// Adds a function that is called when this incarnation has ended.
    pub(crate) fn on_end(&self, ended: Box<dyn FnOnce()>) {
        self.end_hooks.borrow_mut().push(EndHook(Some(ended)));
    }

    /// Tells an idle object's code, and evicts the object from memory: now, or when what its code wrote is durable. Returns
    /// how many bytes are then free, if that is later.
    pub(crate) fn leave(self: &Rc<Self>) -> u64 {
        let now = self.worker.now();
        if !self.is_durable() && !self.is_leaving() {
            self.check_by(now + self.idle_timeout());
            return 0;
        }
        if !self.tell_leaving() {
            return 0;
        }
        if self.is_durable() {
            self.leave_memory();
            return 0;
        }
        // Less and less often: the disk may hang.
        let waited = match self.leaving.get() {
            Leaving::Told(since) => now.saturating_sub(since),
            _ => Duration::ZERO,
        };
        self.check_by(now + waited.max(LEAVING_PAUSE));
        self.weight.get()
    }

    /// Lets an idle object leave memory. Returns what keeps it there, for people.
    pub(crate) fn evict(self: &Rc<Self>) -> Option<String> {
        if self.is_idle() {
            self.leave();
        }
        self.is_alive().then(|| {
            let busy = self.unrest();
            busy.unwrap_or_else(|| "a handler or background work waits".to_owned())
        })
    }

    /// Tells the object's code that the object leaves memory. Returns false if that has reset the object.
    pub(crate) fn tell_leaving(self: &Rc<Self>) -> bool {
        if !self.can_be_told_of_leaving() {
            return true;
        }
        let last_active = self.last_active.get();
        self.leaving.set(Leaving::Telling);
        self.act_for(None, true);
        let turn = self.turn(self.worker.next_token(), || {
            let hooks = self.leave_hooks.borrow().clone();
            for hook in hooks {
                hook()?;
            }
            self.deliver_at_once(Event::Leaving)?;
            Ok(Poll::Ready(()))
        });
        // It is as idle as before.
        self.last_active.set(last_active);
        if let Turn::Broken(error) = turn {
            tracing::error!(
                class = self.binding.class_name.as_str(), id = %self.id, %error,
                "an object failed while it was told that it leaves memory; what it wrote then is undone"
            );
            return false;
        }
        self.leaving.set(Leaving::Told(self.worker.now()));
        true
    }

    /// False if there is no code to tell, if the code knows, or if it must not run: before it was told of its timeline, while
    /// the gate is closed, in a rehearsal, and when nothing can be written any more.
    fn can_be_told_of_leaving(&self) -> bool {
        self.leaving.get() == Leaving::No
            && self.instance.borrow().is_some()
            && self.untold_timeline().is_none()
            && self.gate.borrow().is_open()
            && !self.worker.router.rehearsal
            && !self.worker.store.failed()
    }

    /// True if it has been told, and waits until what it wrote is durable.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.leaving.get(), Leaving::Told(_))
    }

    /// A turn begins: an object that was told that it leaves is told again before it does.
    pub(super) fn stays(&self) {
        if self.is_leaving() {
            self.leaving.set(Leaving::No);
        }
    }

    /// Refuses work that would outlive an object that leaves memory.
    pub(super) fn must_stay(&self) -> Result<()> {
        if self.leaving.get() == Leaving::Telling {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "an object that leaves memory cannot spawn: set an alarm for work that is left",
            ));
        }
        Ok(())
    }
}
