//! Building blocks that the components of `abide` share, also for custom components: the guide "Your own component" shows one.
//!
//! - [`WakeUp`]: when a component wants its object to be woken.
//! - [`worker`]: the background task that does a component's work.
//! - [`RetryPolicy`]: what follows a failure. [`doubled`], [`throttle`]: the waits of retries, and of receivers that ask for
//!   patience.
//! - [`suspects`]: work that may have ended the process.
//! - [`steps_back`]: a clock that was set back.
//! - [`operating`]: an operator's request to a component.
//! - [`tables`]: a component's tables in its object's database.
//! - [`Failure`]: why an attempt failed, and what that means for the next one.
//! - [`error_kinds`]: from a component's own error to the errors of all.
//! - [`answer`], [`address`]: outgoing HTTP requests and their responses.
//!
//! With the feature `server` alone: `operating`, `answer` and `address`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

// Examples name the core as users do: as the crate `abide`.
extern crate abide_core as abide;

#[cfg(feature = "server")]
pub mod address;
#[cfg(feature = "server")]
pub mod answer;
mod error_kinds;
mod failure;
// Users find them in `abide::limits`.
#[doc(hidden)]
pub mod limits;
pub mod numbers;
#[cfg(feature = "server")]
pub mod operating;
mod retry;
pub mod steps_back;
pub mod suspects;
pub mod tables;
pub mod texts;
pub mod throttle;
pub mod waits;
mod wake_up;
pub mod worker;

pub use failure::{Failure, FailureKind};
pub use retry::{Decision, RetryPolicy, Tried, doubled, jittered};
pub use wake_up::WakeUp;
