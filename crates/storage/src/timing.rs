//! The machine's clock, for measurements and for waiting threads.
//!
//! A store without threads (`manual`) makes no decisions based on it, so simulations are repeatable.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "see the module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
