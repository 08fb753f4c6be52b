//! What the components of `abide` share, and what a component of one's own needs.
//!
//! - [`WakeUp`]: when a component wants its object to be woken.
//! - [`RetryPolicy`]: when what has failed is tried again.
//! - [`operating`]: an operator's request to a component.
//! - [`tables`]: the tables that a component makes in its object's database.
//! - [`answer`], [`address`]: an HTTP request to elsewhere, and what comes back.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

// Users see what components are built on, with the components, as the crate `abide`.
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
