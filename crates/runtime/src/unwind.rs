//! Unwind guards around code of the program that the runtime runs outside of objects' turns.
//!
//! Such code is the HTTP client, the wakers of callers, the metrics recorder, and the destructors of requests and
//! responses. It runs on threads that serve others, so a panic is caught by its guard: it is logged and counted, and
//! only the guarded work is lost.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::stats::Counter;

/// Runs code of the program. The error is the panic message.
pub(crate) fn guarded<R>(panics: &Counter, what: &str, f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        panics.add();
        let text = message(&*panic).to_owned();
        tracing::error!(panic = text, "{what} panicked outside of every handler");
        // Its own destructor might panic again; a leak is the lesser evil.
        std::mem::forget(panic);
        text
    })
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{} more", 1);
        }
    }

    #[test]
    fn a_panic_ends_at_its_guard_with_its_message_and_is_counted() {
        let panics = Counter::default();
        assert_eq!(guarded(&panics, "nothing", || 7), Ok(7));
        let panicked = guarded(&panics, "a destructor", || drop(Bomb));
        assert_eq!(panicked, Err("1 more".to_owned()));
        let payload = guarded(&panics, "a payload", || std::panic::panic_any(Bomb));
        assert_eq!(payload, Err("no message".to_owned()));
        assert_eq!(panics.get(), 2);
    }
}
