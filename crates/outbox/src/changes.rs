//! Listeners to changed rows, and the changes that they have not received yet.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use super::Record;

/// Receives changed messages, and the ids of those that are gone.
type Tell = Rc<dyn Fn(&[Record], &[i64])>;

/// A listener.
#[derive(Clone)]
struct Listener {
    /// Whether the listener currently wants changes.
    wants: Rc<dyn Fn() -> bool>,
    tell: Tell,
}

type Warned = Rc<dyn Fn()>;

type Lost = Rc<dyn Fn()>;

/// Rows that have changed since the listeners were last called.
#[derive(Default)]
pub(super) struct Changes {
    listeners: RefCell<Vec<Listener>>,
    warned: RefCell<Vec<Warned>>,
    lost: RefCell<Vec<Lost>>,
    ids: RefCell<BTreeSet<i64>>,
}

impl Changes {
    /// Registers a listener, which is called while `wants` returns true.
    pub(super) fn listen(&self, wants: Rc<dyn Fn() -> bool>, tell: Tell) {
        self.listeners.borrow_mut().push(Listener { wants, tell });
    }

    /// Drops all functions that are called.
    pub(super) fn forget_listeners(&self) {
        drop((self.listeners.take(), self.warned.take(), self.lost.take()));
    }

    fn are_wanted(&self) -> bool {
        let listeners = self.listeners.borrow();
        listeners.iter().any(|listener| (listener.wants)())
    }

    /// Calls a function when there are changes for the first time since the last report: they are reported later, or
    /// never if the object is reset.
    #[cfg(feature = "server")]
    pub(super) fn warn(&self, warned: Warned) {
        self.warned.borrow_mut().push(warned);
    }

    /// Calls a function when many messages are deleted, without a note of each. The transaction may be rolled back.
    #[cfg(feature = "server")]
    pub(super) fn on_loss(&self, lost: Lost) {
        self.lost.borrow_mut().push(lost);
    }

    /// Many messages were deleted.
    pub(super) fn are_lost(&self) {
        let lost = self.lost.borrow().clone();
        for lost in lost {
            lost();
        }
    }

    /// Notes that a message has changed, or is gone.
    pub(super) fn add(&self, message: i64) {
        let first = !self.are_there();
        // `wants` is not called again for each of many changes.
        if first && !self.are_wanted() {
            return;
        }
        self.ids.borrow_mut().insert(message);
        if first {
            let warned = self.warned.borrow().clone();
            for warned in warned {
                warned();
            }
        }
    }

    /// True if there are changes to report.
    pub(super) fn are_there(&self) -> bool {
        !self.ids.borrow().is_empty()
    }

    /// At most this many of the messages that have changed.
    pub(super) fn take(&self, limit: usize) -> BTreeSet<i64> {
        let mut ids = self.ids.borrow_mut();
        match ids.iter().nth(limit).copied() {
            None => std::mem::take(&mut ids),
            Some(first) => {
                let rest = ids.split_off(&first);
                std::mem::replace(&mut ids, rest)
            }
        }
    }

    pub(super) fn tell(&self, records: &[Record], gone: &[i64]) {
        // A listener may add another.
        let listeners = self.listeners.borrow().clone();
        for listener in listeners {
            // A listener must not stop what it observes.
            let told = catch_unwind(AssertUnwindSafe(|| (listener.tell)(records, gone)));
            if told.is_err() {
                tracing::error!("a listener of the outbox panicked and missed a change");
            }
        }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("ids", &self.ids.borrow().len())
            .finish_non_exhaustive()
    }
}
