//! The object that this thread is running, if any.
//!
//! Set during one poll of an object's code. This is how a stub knows that its call must pass the object's output gate,
//! and how storage rejects use by code outside the gates.
//!
//! Code that an object starts outside its handlers, as a task, a thread or a destructor, passes no gate: it could
//! reveal data that is not durable. Handles given to an object ([`Holder::Object`]) therefore send nothing outside
//! polls, on any thread; and on the threads that run objects no other handle does.

use std::{cell::RefCell, rc::Rc};

use crate::{
    Error, ErrorKind, Result,
    holder::{self, Holder},
    object::Object,
};

thread_local! {
    static CURRENT: RefCell<Option<Rc<Object>>> = const { RefCell::new(None) };
}

/// The object whose output gate a message sent here and now must pass; `None` if the program sends it.
///
/// # Errors
/// If an object sends it outside its polls.
pub(crate) fn sender(holder: Holder) -> Result<Option<Rc<Object>>> {
    match current() {
        None if holder == Holder::Object || holder::is_of_objects() => Err(Error::with_kind(
            ErrorKind::Input,
            "an object can call others only inside its own handlers, so that the call leaves once its writes are durable: \
             start background work with `ctx.spawn(…)` instead of your own task or thread",
        )),
        object => Ok(object),
    }
}

/// The object whose code runs now.
pub(crate) fn current() -> Option<Rc<Object>> {
    CURRENT.with_borrow(Option::clone)
}

/// Returns whether this object's code is running now.
pub(crate) fn is_current(object: &Object) -> bool {
    CURRENT.with_borrow(|current| {
        current
            .as_ref()
            .is_some_and(|current| std::ptr::eq(&raw const **current, object))
    })
}

/// Makes the object current until the guard is dropped.
pub(crate) fn enter(object: &Rc<Object>) -> ContextGuard {
    ContextGuard(CURRENT.replace(Some(Rc::clone(object))))
}

pub(crate) struct ContextGuard(Option<Rc<Object>>);

impl Drop for ContextGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}
