//! A batching object: posts are stored, and ten seconds after the first one all of them are sent upstream in one
//! request.
//!
//! The object ([`Batcher`]) stores a post and sets its alarm in one transaction, so a post that was answered with 202
//! is delivered, whatever happens to the process or the upstream. The content of a batch is fixed before it is first
//! sent, and the batch has a key: every attempt sends the same posts under the same `Idempotency-Key`, so the upstream
//! can detect repeats. The next batch begins when the upstream has accepted the previous one, so posts arrive in order.
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

/// The longest time between two attempts to send a batch.
pub const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The options of batchers: they never give a batch up, and wait this long before the first retry.
pub fn options(first_retry: Duration) -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(LONGEST_WAIT).base(first_retry))
}
