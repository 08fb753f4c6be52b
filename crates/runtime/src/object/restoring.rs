//! Holds an object while its database is being restored or forked to, or its file written.
//!
//! A restore reads files, so it runs on its own thread, if the store has threads; so does the hydration of an object whose directory was restored
//! lazily. In the meantime the object is *held*: it has no database and no
//! instance; events wait in its queue, in order, and alarms in their own queue. Other objects of the worker
//! continue to run.
//!
//! A restore that the object has requested is found when the object is opened for its first event, before any code of
//! the object runs. An object that restarts to be restored is due in the alarm index until then, so it needs no event.

use std::rc::Rc;

use abide_storage::{Bookmark, ObjectDb, Store};

use super::{Arrival, Confirmation, Object};
use crate::{
    Error, ErrorKind, Result,
    alarms::Cause,
    blocking::for_store,
    envelope::{Purpose, Ticket},
    limits::EVENT_BYTES,
};

/// What must be done with the file of an object before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preparation {
    Hydrate,
    RestoreAsRequested,
}

impl Object {
    /// Requests a restore at the object's next start. Returns the bookmark that undoes it.
    pub(crate) fn request_restore(&self, to: &Bookmark) -> Result<Bookmark> {
        self.write(Confirmation::Confirmed, |db| db.request_restore(to))
    }

    /// Requests a restore, and restarts the object for it once the current turn has committed. The alarm index has the
    /// object as due until then, so it is restored without waiting for an event, also if the process ends first.
    pub(crate) fn restore_after_turn(&self, to: &Bookmark) -> Result<Bookmark> {
        let undo = self.write(Confirmation::Confirmed, |db| {
            let undo = db.request_restore(to)?;
            db.restore_at_once()?;
            Ok(undo)
        })?;
        self.restart_after_turn("the object was restarted, to be restored to an earlier state");
        Ok(undo)
    }

    /// Restarts the object once the current turn has committed. Unlike a reset, this undoes nothing, and the turn's
    /// answers are sent.
    pub(crate) fn restart_after_turn(&self, why: &'static str) {
        self.restart_after_turn.set(Some(why));
    }

    /// Restarts the object after a turn. Returns the reason for callers that are interrupted.
    pub(super) fn restart(self: &Rc<Self>, why: &'static str) -> Error {
        let error = Error::with_kind(ErrorKind::Reset, why).into_reset();
        self.kill(error.clone());
        error
    }

    /// Aborts the turn and undoes all its writes. A request for a restore, made in this turn or before, is kept, and the
    /// object is due for it.
    pub(super) fn keep_restore_request(&self) {
        let db = self.db.borrow();
        let Some(db) = &*db else {
            return;
        };
        let Ok(Some(to)) = db.requested_restore() else {
            return;
        };
        db.rollback();
        let kept = db
            .request_restore(&to)
            .and_then(|_| db.restore_at_once())
            .and_then(|()| db.commit());
        match kept {
            Ok(lsn) => {
                let lsn = lsn.unwrap_or_else(|| db.newest());
                self.commit_lsn.set(lsn);
                self.gate_lsn.set(lsn);
            }
            Err(error) => {
                tracing::error!(class = self.binding.class_name.as_str(), id = %self.id, %error, "cannot keep a restore that an object requested");
            }
        }
    }

    /// Prepares the object's file, if that must be done before the object starts. Returns true if it is under way: events wait,
    /// and if it fails, they are answered with an error and may be resent. An error of opening is reported when the instance is
    /// created.
    pub(super) fn prepare(self: &Rc<Self>) -> bool {
        let Some(preparation) = self.preparation() else {
            return false;
        };
        let key = self.key();
        match preparation {
            Preparation::Hydrate => {
                // Afterwards the store still says that it may need it.
                self.hydrated.set(true);
                self.hold(move |store| store.hydrate(key), |()| ());
            }
            Preparation::RestoreAsRequested => {
                self.close();
                self.hold(move |store| store.restore_requested(key), |()| ());
            }
        }
        true
    }

    fn preparation(self: &Rc<Self>) -> Option<Preparation> {
        if self.instance.borrow().is_some() {
            return None;
        }
        let is_open = self.db.borrow().is_some();
        if !is_open && !self.hydrated.get() && self.worker.store.may_need_hydration(self.key()) {
            return Some(Preparation::Hydrate);
        }
        self.open_db().ok()?;
        let db = self.db.borrow();
        let to = db.as_ref()?.requested_restore().ok()?;
        to.map(|_| Preparation::RestoreAsRequested)
    }

    /// Closes the database of an object that has not started.
    fn close(&self) {
        if self.db.take().is_some() {
            self.worker.mailbox.counters.resident.subtract();
        }
    }

    /// Holds an object that has not started while work on its database runs on its own thread. If the work fails, so do
    /// the waiting events. `tell` gets the result when the object is no longer held: its caller may hold it again at once.
    pub(crate) fn hold<R: Send + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(&Store) -> abide_storage::Result<R> + Send + 'static,
        tell: impl FnOnce(R) + 'static,
    ) {
        self.held.set(true);
        let store = self.worker.store.clone();
        let ticket = Ticket::new(&self.worker.mailbox, EVENT_BYTES);
        let object = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let done = for_store(store, work).await;
            object.held.set(false);
            let done = match done {
                Ok(done) => done.map_err(Error::from),
                Err(panic) => {
                    tracing::error!(id = %object.id, %panic, "restoring an object panicked");
                    Err(Error::with_kind(
                        ErrorKind::Reset,
                        "restoring the object panicked; the program's log says where",
                    ))
                }
            };
            match done {
                Ok(result) => {
                    if object.is_alive() {
                        object.resume();
                    }
                    tell(result);
                }
                Err(error) if object.is_alive() => object.fail_waiting(&error.into_reset()),
                Err(_) => {}
            }
            if object.is_alive() {
                object.check_by(object.worker.now() + object.idle_timeout());
            }
            drop(ticket);
        });
    }

    /// Answers all waiting events with the error.
    fn fail_waiting(self: &Rc<Self>, error: &Error) {
        for cause in self.alarm_requests.take() {
            match cause {
                Cause::Due(replier, _) | Cause::Rerun(replier, _) | Cause::Describe(replier, _) => {
                    self.answer_broken(replier, error.clone());
                }
                // The attempt is repeated at its retry time.
                Cause::Broken { .. } => {}
            }
        }
        self.kill(error.clone());
    }

    fn resume(self: &Rc<Self>) {
        for cause in self.alarm_requests.take() {
            self.handle_alarm_request(cause);
        }
        self.pump();
    }

    /// Returns whether its database is being restored.
    pub(crate) fn is_held(&self) -> bool {
        self.held.get()
    }

    /// Takes the waiting events, for another incarnation.
    pub(crate) fn take_waiting(&self) -> Vec<Arrival> {
        self.queue.take().into()
    }

    /// Queues events that an earlier incarnation has not begun.
    pub(crate) fn give_waiting(&self, waiting: Vec<Arrival>) {
        self.queue.borrow_mut().extend(waiting);
    }

    /// Returns whether anything is stored of it, as far as it is known without its database.
    pub(crate) fn is_stored(&self) -> bool {
        self.db.borrow().as_ref().is_some_and(ObjectDb::is_stored)
    }

    /// Returns whether another object may be forked to it, as far as it is known without its database.
    pub(crate) fn is_vacant(&self) -> Result<bool> {
        let db = self.db.borrow();
        match &*db {
            Some(db) if db.is_stored() => Ok(db.is_vacant()?),
            _ => Ok(true),
        }
    }

    /// The error for callers whose handlers were running when their object was held.
    pub(crate) fn was_held(purpose: Purpose) -> Error {
        let why = match purpose {
            Purpose::Restore => {
                "the object was reset to restore an earlier state; the next call starts it from that state"
            }
            Purpose::Fork(_) => {
                "the object was reset because another one was forked to it; the next call finds the fork"
            }
            Purpose::Import => {
                "the object was reset because it was imported; the next call finds what was imported"
            }
        };
        Error::with_kind(ErrorKind::Reset, why)
    }
}
