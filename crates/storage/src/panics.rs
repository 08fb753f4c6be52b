//! A guard around code that may panic on a thread of the engine.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `run`. The error is the panic message.
///
/// State that `run` shares with others must be consistent wherever it can panic, as for every lock of this crate.
pub(crate) fn guard<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        // Its own destructor might panic again; a leak is the lesser evil.
        std::mem::forget(panic);
        text.unwrap_or_else(|| "no message".to_owned())
    })
}
