//! The machine's clock, for what is measured and for threads that wait.
//!
//! A store without threads (`manual`) decides nothing by it, so that a simulation can repeat what it does.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "see the module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
