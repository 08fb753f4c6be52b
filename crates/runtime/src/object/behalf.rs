//! The creator on whose behalf a turn runs, and its consequences: whether it may create an object, and whether its
//! writes may use the reserve beyond the storage limits.

use std::{rc::Rc, sync::Arc};

use abide_storage::ObjectDb;

use super::{Arrival, Kind, Object};
use crate::{Error, Event, Result, creator::Creator, gate::Token, worker::Worker};

impl Object {
    /// The creator of the current turn.
    pub(crate) fn creator(&self) -> Option<Creator> {
        self.creator.get()
    }

    /// Sets the creator of the next turn. `is_alone`: the object does its own work, which must not fail for lack of
    /// space.
    pub(super) fn act_for(&self, creator: Option<Creator>, is_alone: bool) {
        self.creator.set(creator);
        self.uses_reserve.set(is_alone);
    }

    /// Prepares the next turn, of a task that was suspended.
    pub(crate) fn prepare_turn(&self, token: Token) {
        let creator = self.creators.borrow().get(&token).copied();
        let is_handler = || {
            let running = self.running.borrow();
            let kind = running.get(&token).map(|running| running.kind);
            kind == Some(Kind::Handler)
        };
        let is_alone = self.alarm_task.get() == Some(token) || !is_handler();
        self.act_for(creator, is_alone);
    }

    /// Records the waiters and the creator of a task that begins with an event, until [`Self::forget_task`].
    pub(super) fn note_task(&self, token: Token, arrival: &Arrival) {
        if let Some(chain) = &arrival.chain {
            self.chains.borrow_mut().insert(token, Arc::clone(chain));
        }
        if let Some(creator) = arrival.creator {
            self.creators.borrow_mut().insert(token, creator);
        }
        if matches!(arrival.event, Event::Alarm(_)) {
            self.alarm_task.set(Some(token));
        }
    }

    /// A task created by the current one has the same creator.
    pub(super) fn inherit_creator(&self, token: Token) {
        if let Some(creator) = self.creator.get() {
            self.creators.borrow_mut().insert(token, creator);
        }
    }

    /// Called when the task has ended, or was never suspended.
    pub(super) fn forget_task(&self, token: Token) {
        self.chains.borrow_mut().remove(&token);
        self.callers.borrow_mut().remove(&token);
        self.creators.borrow_mut().remove(&token);
        if self.alarm_task.get() == Some(token) {
            self.alarm_task.set(None);
        }
    }

    /// Rejects a commit that would create the object, if its creator has reached the limit.
    pub(super) fn may_create(&self, db: &ObjectDb) -> Result<()> {
        if !db.in_transaction() || db.is_stored() {
            return Ok(());
        }
        self.worker.may_create(self.creator.get())
    }

    /// Lets the turn's writes use the reserve until the guard is dropped.
    pub(crate) fn reserve(self: &Rc<Self>) -> ReserveGuard {
        let before = self.uses_reserve.replace(true);
        self.set_reserve(true);
        ReserveGuard {
            object: Rc::clone(self),
            before,
        }
    }

    /// Sets whether the database may use the reserve.
    pub(super) fn set_reserve(&self, uses: bool) {
        if let Some(db) = &*self.db.borrow() {
            db.use_reserve(uses);
        }
    }
}

impl Worker {
    /// Counts an object that is about to be created, unless its creator has reached the limit.
    pub(crate) fn may_create(&self, creator: Option<Creator>) -> Result<()> {
        let (Some(creator), Some(limit)) = (creator, self.router.creation.as_deref()) else {
            return Ok(());
        };
        limit
            .admit(&creator)
            .map_err(|(why, wait)| Error::too_many_created(why, wait))
    }
}

/// See [`Object::reserve`].
pub(crate) struct ReserveGuard {
    object: Rc<Object>,
    before: bool,
}

impl Drop for ReserveGuard {
    fn drop(&mut self) {
        self.object.uses_reserve.set(self.before);
        self.object.set_reserve(self.before);
    }
}
