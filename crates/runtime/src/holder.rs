//! Who owns a handle, and whose code a thread runs between the polls of objects: [`crate::context`] says why that matters.

use std::cell::Cell;

thread_local! {
    /// Code that runs here between polls was started by objects.
    static OF_OBJECTS: Cell<bool> = const { Cell::new(false) };
}

/// Who owns an environment and the handles created from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Program,
    Object,
}

/// Returns whether code that runs here between polls was started by objects.
pub(crate) fn is_of_objects() -> bool {
    OF_OBJECTS.get()
}

/// Marks this thread as one that runs objects, or code that they have started.
pub(crate) fn runs_objects() {
    OF_OBJECTS.set(true);
}

/// Runs code of the program that belongs to no object, between polls.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    struct OutsideGuard(bool);
    impl Drop for OutsideGuard {
        fn drop(&mut self) {
            OF_OBJECTS.set(self.0);
        }
    }
    let _outside = OutsideGuard(OF_OBJECTS.replace(false));
    f()
}
