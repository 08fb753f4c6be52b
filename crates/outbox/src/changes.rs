//! Who is told of changed rows, and which rows they have not been told of.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use super::Record;

type Tell = Rc<dyn Fn(&[Record])>;

/// Who is told.
#[derive(Clone)]
struct Listener {
    /// Whether there is anybody who wants to be told.
    wants: Rc<dyn Fn() -> bool>,
    tell: Tell,
}

type Warned = Rc<dyn Fn()>;

/// Rows that have changed since the listeners were last told.
#[derive(Default)]
pub(super) struct Changes {
    listeners: RefCell<Vec<Listener>>,
    warned: RefCell<Vec<Warned>>,
    ids: RefCell<BTreeSet<i64>>,
}

impl Changes {
    /// Has a function told of what changes while `wants` says that somebody wants to be told.
    pub(super) fn listen(&self, wants: Rc<dyn Fn() -> bool>, tell: Tell) {
        self.listeners.borrow_mut().push(Listener { wants, tell });
    }

    fn are_wanted(&self) -> bool {
        let listeners = self.listeners.borrow();
        listeners.iter().any(|listener| (listener.wants)())
    }

    /// Calls a function when there is something to tell of, and was not before: it is told later, or never, if the object is
    /// reset.
    pub(super) fn warn(&self, warned: Warned) {
        self.warned.borrow_mut().push(warned);
    }

    /// Notes that a message has changed.
    pub(super) fn add(&self, message: i64) {
        let first = !self.are_there();
        // Nobody is asked again for each of many.
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

    /// True if the listeners are to be told of something.
    pub(super) fn are_there(&self) -> bool {
        !self.ids.borrow().is_empty()
    }

    /// At most so many of the messages that have changed.
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

    pub(super) fn tell(&self, records: &[Record]) {
        // A listener may add another.
        let listeners = self.listeners.borrow().clone();
        for listener in listeners {
            // Whoever looks on must not stop what is looked at.
            let told = catch_unwind(AssertUnwindSafe(|| (listener.tell)(records)));
            if told.is_err() {
                tracing::error!("a listener of the outbox panicked, and was not told of a change");
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
