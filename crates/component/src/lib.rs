//! Building blocks that the components of `abide` share, also for custom components.
//!
//! - [`WakeUp`]: when a component wants its object to be woken.
//! - [`RetryPolicy`]: the back-off of retries.
//! - [`operating`]: an operator's request to a component.
//! - [`tables`]: a component's tables in its object's database.
//! - [`answer`], [`address`]: outgoing HTTP requests and their responses.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

// Examples name the core as users do: as the crate `abide`.
extern crate abide_core as abide;

pub mod address;
pub mod answer;
pub mod limits;
pub mod numbers;
pub mod operating;
mod retry;
pub mod seen;
pub mod tables;
pub mod texts;
pub mod waits;
mod wake_up;

pub use retry::{RetryPolicy, jittered};
pub use wake_up::WakeUp;
