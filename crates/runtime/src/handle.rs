//! A handle on a node's router: messages sent through it pass the output gate of the object whose code sends them.

use std::{ops::Deref, rc::Rc, sync::Arc};

use crate::{
    Error, Result, context,
    envelope::{Envelope, Mailbox},
    gate::Departure,
    holder::Holder,
    object::Object,
    router::{Phase, Router},
};

/// A router handle held by the program or by an object.
#[derive(Clone)]
pub(crate) struct RouterHandle {
    router: Arc<Router>,
    holder: Holder,
}

impl RouterHandle {
    pub(crate) fn new(router: &Arc<Router>, holder: Holder) -> Self {
        Self {
            router: Arc::clone(router),
            holder,
        }
    }

    /// Returns whether both are of one node.
    pub(crate) fn is_of_same_node(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.router, &other.router)
    }

    /// Sends an event: immediately from outside, through the output gate from inside an object. In both cases an
    /// overloaded worker is reported immediately, so that the gate cannot hold more than workers may.
    pub(crate) fn send(
        &self,
        sender: Option<Rc<Object>>,
        worker: &Mailbox,
        envelope: Envelope,
    ) -> Result<()> {
        if self.router.store.failed() {
            return Err(Error::log_failed());
        }
        match sender {
            Some(object) => {
                worker.admit()?;
                object.push(Departure::Call(envelope));
                Ok(())
            }
            None if self.router.phase() != Phase::Running => Err(Error::stopping()),
            None => {
                worker.admit_from_outside()?;
                worker.post(envelope).map_err(|refusal| refusal.error)
            }
        }
    }

    /// The object whose output gate a message sent here and now passes, as in [`context::sender`].
    pub(crate) fn sender(&self) -> Result<Option<Rc<Object>>> {
        context::sender(self.holder)
    }
}

impl Deref for RouterHandle {
    type Target = Arc<Router>;

    fn deref(&self) -> &Arc<Router> {
        &self.router
    }
}
