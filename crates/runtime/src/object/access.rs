//! What the object's own code can access through its [`Ctx`](crate::Ctx): the storage, and the input gate.
//!
//! All of it works only in a turn of the object. Outside a turn, no transaction would be committed and no gate
//! respected.

use std::{rc::Rc, sync::Arc, task::Waker};

use abide_storage::{Lsn, ObjectDb};
use tokio::sync::oneshot;

use super::{Confirmation, Object};
use crate::{
    Error, ErrorKind, LocalFuture, Result,
    chain::Link,
    context,
    envelope::Ticket,
    gate::{Departure, Released, Token},
    limits::{BLOCK_CONCURRENCY_LIMIT, EVENT_BYTES},
    task::Work,
};

impl Object {
    /// Closes the gate for all but a new task that runs `future`.
    pub(crate) fn block(self: &Rc<Self>, future: LocalFuture<Result<()>>) -> Result<()> {
        self.may_spawn()?;
        let token = self.worker.next_token();
        self.gate.borrow_mut().close(token, self.turn_of.get());
        self.inherit_chain(token);
        self.inherit_creator(token);
        let work = Work::Block {
            future,
            until: self.worker.now() + BLOCK_CONCURRENCY_LIMIT,
            _ticket: Ticket::new(&self.worker.mailbox, EVENT_BYTES),
        };
        self.spawned.borrow_mut().push((token, work));
        Ok(())
    }

    /// The current task, if a closed gate waits for its calls.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        let task = self.turn_of.get();
        let before = self.chains.borrow().get(&task).map(Arc::clone);
        if before.is_none() && !self.gate.borrow().is_held_by(task) {
            return None;
        }
        Link::new(self.binding.key(self.id), task, before)
    }

    /// The new task inherits the waiters of the current task that creates it.
    fn inherit_chain(&self, token: Token) {
        let mut chains = self.chains.borrow_mut();
        if let Some(chain) = chains.get(&self.turn_of.get()).map(Arc::clone) {
            chains.insert(token, chain);
        }
    }

    pub(crate) fn may_run(&self, token: Token) -> bool {
        self.gate.borrow().may_run(token)
    }

    pub(crate) fn park(&self, token: Token, waker: &Waker) {
        self.gate.borrow_mut().park(token, waker);
    }

    /// The task no longer needs the gate, if it ever did.
    pub(crate) fn open_gate(&self, token: Token) {
        if !self.gate.borrow().is_open() {
            let woken = self.gate.borrow_mut().open(token);
            woken.into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) fn read<R>(
        &self,
        f: impl FnOnce(&ObjectDb) -> abide_storage::Result<R>,
    ) -> Result<R> {
        self.with_db(Confirmation::Unconfirmed, f)?
            .map_err(Error::from)
    }

    pub(crate) fn write<R>(
        &self,
        confirmation: Confirmation,
        f: impl FnOnce(&ObjectDb) -> abide_storage::Result<R>,
    ) -> Result<R> {
        self.with_db(confirmation, f)?.map_err(Error::from)
    }

    /// Uses the database. A confirmed use that leaves a transaction open makes the output gate wait for it.
    pub(crate) fn with_db<R>(
        &self,
        confirmation: Confirmation,
        f: impl FnOnce(&ObjectDb) -> R,
    ) -> Result<R> {
        self.must_be_current()?;
        let db = self.db.borrow();
        let Some(db) = &*db else {
            return Err(self.absent());
        };
        let result = f(db);
        if confirmation == Confirmation::Confirmed && db.in_transaction() {
            self.confirmed.set(true);
        }
        Ok(result)
    }

    /// Resolves when everything committed up to now, and in the current turn, is durable.
    pub(crate) async fn synced(self: &Rc<Self>) -> Result<()> {
        self.when_durable()?
            .await
            .map(Released::into_inner)
            .map_err(|_| Error::log_failed())
    }

    /// Receives a value when everything committed up to now, and in the current turn, is durable.
    pub(crate) fn when_durable(self: &Rc<Self>) -> Result<oneshot::Receiver<Released<()>>> {
        self.must_be_current()?;
        // It leaves after the turn has committed.
        let (durable, wait) = oneshot::channel();
        self.push(Departure::Synced(durable));
        Ok(wait)
    }

    /// The object has read other objects' commits that may not be durable: its messages from here on wait for them.
    pub(crate) fn has_seen(&self, lsn: Lsn) {
        self.gate_lsn.set(self.gate_lsn.get().max(lsn));
        self.commit_lsn.set(self.commit_lsn.get().max(lsn));
    }

    pub(crate) fn must_be_current(&self) -> Result<()> {
        if context::is_current(self) && self.is_alive() && !self.discarding.get() {
            Ok(())
        } else {
            Err(self.absent())
        }
    }

    pub(super) fn absent(&self) -> Error {
        self.fate.borrow().clone().unwrap_or_else(|| {
            Error::with_kind(
                ErrorKind::Input,
                "an object's `Ctx` and storage can be used only inside its own handlers: start background work with \
                 `ctx.spawn(…)` instead of your own task or thread",
            )
        })
    }
}
