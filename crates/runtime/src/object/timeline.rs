//! The object's timeline: telling its code of a new one, and dormancy.
//!
//! The code is told in a turn before any other event of the object. Its writes and the mark that it was told are one
//! commit. If it fails, the object is reset and is told again with the next event.

use std::{
    rc::Rc,
    task::{Context, Poll, Waker},
};

use abide_storage::{ObjectDb, TimelineRow};

use super::{Arrival, Confirmation, Object, Turn, known};
use crate::{Activation, Error, ErrorKind, Event, Result, Timeline, envelope::Known};

/// Called on a new timeline.
pub(crate) type TimelineHook = Rc<dyn Fn(&Timeline) -> Result<()>>;

/// Called when the object is activated.
pub(crate) type ActivationHook = Rc<dyn Fn(Activation) -> Result<()>>;

impl Object {
    pub(crate) fn timeline(&self) -> Timeline {
        Timeline::new(&self.timeline.get())
    }

    /// Adds a hook, for the lifetime of this incarnation.
    pub(crate) fn on_timeline(&self, hook: TimelineHook) {
        self.timeline_hooks.borrow_mut().push(hook);
    }

    /// Adds a hook, for the lifetime of this incarnation.
    pub(crate) fn on_activation(&self, hook: ActivationHook) {
        self.activation_hooks.borrow_mut().push(hook);
    }

    pub(crate) fn is_dormant(&self) -> bool {
        self.timeline.get().dormant
    }

    /// Its timeline and name, if its database is open.
    pub(crate) fn open_timeline(&self) -> Result<Option<Known>> {
        let db = self.db.borrow();
        Ok(db.as_ref().map(known::read).transpose()?)
    }

    /// Reads the timeline again, which the turn has changed.
    pub(super) fn read_timeline(&self, db: &ObjectDb) -> Result<()> {
        self.timeline.set(db.timeline()?);
        Ok(())
    }

    /// The object's timeline, if its code has not been told of it.
    pub(super) fn untold_timeline(&self) -> Option<TimelineRow> {
        let row = self.timeline.get();
        row.untold.is_some().then_some(row)
    }

    /// Tells the object's code of a new timeline before an event. Returns the event, unless it has to wait or fails.
    pub(super) fn tell_timeline(self: &Rc<Self>, arrival: Arrival) -> Option<Arrival> {
        if self.untold_timeline().is_none() {
            return Some(arrival);
        }
        self.act_for(None, true);
        let turn = self.turn(self.worker.next_token(), || {
            if self.instance.borrow().is_none() {
                self.construct()?;
            }
            if self.gate.borrow().is_open() {
                self.tell()?;
            }
            Ok(Poll::Ready(()))
        });
        match turn {
            Turn::Broken(error) => {
                // The event has not begun.
                self.fail(arrival, &error.into_retryable());
                None
            }
            // The constructor has closed the gate.
            _ if self.untold_timeline().is_some() => {
                self.queue.borrow_mut().push_front(arrival);
                None
            }
            _ => Some(arrival),
        }
    }

    fn tell(self: &Rc<Self>) -> Result<()> {
        self.run_timeline_hooks()?;
        self.write(Confirmation::Confirmed, ObjectDb::timeline_told)?;
        let row = self.timeline.get();
        self.timeline.set(TimelineRow {
            untold: None,
            ..row
        });
        Ok(())
    }

    fn run_timeline_hooks(&self) -> Result<()> {
        let timeline = self.timeline();
        let hooks = self.timeline_hooks.borrow().clone();
        for hook in hooks {
            hook(&timeline)?;
        }
        self.deliver_at_once(Event::Timeline(timeline))
    }

    /// Ends the object's dormancy, and restarts it after the turn. An error resets the object.
    pub(crate) fn activate(self: &Rc<Self>, how: Activation) -> Result<()> {
        if !self.is_dormant() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "the object {} is not dormant: there is nothing to activate",
                    self.id
                ),
            ));
        }
        let activated = self.activate_now(how);
        if let Err(error) = &activated {
            self.reset_after_turn(error.clone());
        }
        activated
    }

    fn activate_now(self: &Rc<Self>, how: Activation) -> Result<()> {
        let fresh = how == Activation::Fresh;
        self.write(Confirmation::Confirmed, |db| db.activate(fresh))?;
        let row = self.timeline.get();
        self.timeline.set(TimelineRow {
            dormant: false,
            ..row
        });
        self.timeline_changed.set(true);
        let hooks = self.activation_hooks.borrow().clone();
        for hook in hooks {
            hook(how)?;
        }
        self.deliver_at_once(Event::Activation(how))?;
        // Its components begin anew, with what the activation has left.
        self.restart_after_turn("the object was activated");
        tracing::info!(class = self.binding.class_name.as_str(), id = %self.id, inherited_work = %how, "a dormant object was activated");
        Ok(())
    }

    /// Passes an event to the instance whose handler does not wait.
    pub(super) fn deliver_at_once(&self, event: Event) -> Result<()> {
        let Some(mut handled) = self
            .instance
            .borrow()
            .as_ref()
            .map(|instance| instance.deliver(event))
        else {
            return Ok(());
        };
        match handled
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(result) => result.map(drop),
            Poll::Pending => Err(Error::with_kind(
                ErrorKind::Input,
                "a handler that is told what happens to its object must not wait",
            )),
        }
    }
}
