//! A batching object: what is posted is stored, and ten seconds after the first post all of it goes upstream in one
//! request.
//!
//! The object ([`Batcher`]) stores a post and sets its alarm in one transaction, so a post that was answered 202 is
//! delivered, whatever happens to the process or to the upstream. A batch is fixed before it is first sent and has a
//! key: every attempt sends the same posts under the same `Idempotency-Key`, so the upstream can tell a repeat. The
//! next batch begins when the upstream has taken the one before: posts arrive in the order in which they were taken.
#![forbid(unsafe_code)]

mod batcher;
mod http;
mod upstream;

pub use batcher::{
    Accepted, Batch, Batcher, BatcherError, MAX_BATCH, MAX_POST, MAX_WAITING, Queue,
};
pub use http::router;
pub use upstream::Upstream;

use std::time::Duration;

use abide::prelude::{AlarmRetry, ClassOptions};

/// The name under which the class is registered.
pub const BINDING: &str = "BATCHER";

/// The longest time between two attempts to send a batch.
pub const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How batchers are run: they never give a batch up, and wait so long before they first send one again.
pub fn options(first_retry: Duration) -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(LONGEST_WAIT).base(first_retry))
}
