//! Which object this thread is running, if any.
//!
//! Set for the length of one poll of an object's code. It is how a stub knows that its call must pass the
//! object's output gate, and how storage refuses to be used by code that the gates do not watch.

use std::{cell::RefCell, rc::Rc};

use crate::object::Object;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Object>>> = const { RefCell::new(None) };
}

/// The object whose code runs now.
pub(crate) fn current() -> Option<Rc<Object>> {
    CURRENT.with_borrow(Option::clone)
}

/// True if this object's code runs now.
pub(crate) fn is_current(object: &Object) -> bool {
    CURRENT.with_borrow(|current| {
        current
            .as_ref()
            .is_some_and(|current| std::ptr::eq(&raw const **current, object))
    })
}

/// The object is current until the guard is dropped.
pub(crate) fn enter(object: &Rc<Object>) -> Entered {
    Entered(CURRENT.replace(Some(Rc::clone(object))))
}

pub(crate) struct Entered(Option<Rc<Object>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}
