//! Options of a queue: shards, batches, retries, limits.

use std::time::Duration;

use abide_macros::Setters;

use super::{QueueError, limits};
use abide_component::RetryPolicy;

/// Options of a queue. Limits apply to each shard.
#[derive(Clone, Debug, PartialEq, Setters)]
#[non_exhaustive]
pub struct QueueOptions {
    /// The number of shards. Default 1. After a reduction, the remaining messages of removed shards are consumed when
    /// they wake, but handles no longer see them; so let them run empty first.
    pub shards: u32,
    /// Messages of a batch. Default 100.
    pub max_batch: usize,
    /// Bytes of the bodies of a batch; one message always fits. Default 1 MiB.
    pub max_batch_bytes: usize,
    /// How long messages wait for others to fill a batch. Default: not at all; messages that arrive while the maximum
    /// of batches is in flight are delivered together in the next.
    pub max_wait: Duration,
    /// Batches in flight. Default 4.
    pub concurrency: u32,
    /// The timeout of a batch; then its unacknowledged messages have failed. Default 30 s.
    pub timeout: Duration,
    /// When failed messages are retried, and how often. A message's last attempt is made alone, so none is given up
    /// because of another. Default: 12 attempts, the second 2 s after the first, doubling up to an hour.
    pub retry: RetryPolicy,
    /// Whether waits have random jitter, up to 25 % if they double, 10 % if they are of a schedule. Default true.
    pub jitter: bool,
    /// What to do with messages that are given up.
    pub dead_letters: DeadLetters,
    /// Messages and dead letters together; then sending is refused as overload. Default 100,000.
    pub max_messages: i64,
    /// Bytes of their bodies; then sending is refused as overload. Default 1 GiB.
    pub max_bytes: i64,
    /// How long dedup keys are remembered. Default 24 h; beyond 100,000, the oldest are forgotten earlier.
    pub keep_keys: Duration,
    /// How soon the shard continues after its process or object has stopped with pending work. Default 5 s.
    pub recovery: Duration,
}

/// What to do with messages that are given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeadLetters {
    /// They wait in their shard until an operator redrives or discards them.
    #[default]
    Keep,
    /// They are sent to another queue of the program, with their body and key, once each.
    Queue(String),
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            max_batch: 100,
            max_batch_bytes: 1 << 20,
            max_wait: Duration::ZERO,
            concurrency: 4,
            timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            jitter: true,
            dead_letters: DeadLetters::Keep,
            max_messages: 100_000,
            max_bytes: 1 << 30,
            keep_keys: Duration::from_hours(24),
            recovery: Duration::from_secs(5),
        }
    }
}

impl QueueOptions {
    /// Refuses invalid options.
    pub(super) fn check(&self) -> Result<(), QueueError> {
        let wrong = if !(1..=limits::MAX_SHARDS).contains(&self.shards) {
            format!("a queue has 1 to {} shards", limits::MAX_SHARDS)
        } else if !(1..=limits::MAX_BATCH).contains(&self.max_batch) {
            format!("a batch has 1 to {} messages", limits::MAX_BATCH)
        } else if self.max_batch_bytes > limits::MAX_BATCH_BYTES {
            format!("a batch has at most {} bytes", limits::MAX_BATCH_BYTES)
        } else if self.max_wait > limits::MAX_WAIT {
            format!("a batch waits at most {} s", limits::MAX_WAIT.as_secs())
        } else if !(1..=limits::MAX_CONCURRENCY).contains(&self.concurrency) {
            format!(
                "a shard has 1 to {} batches in flight",
                limits::MAX_CONCURRENCY
            )
        } else if self.timeout.is_zero() || self.timeout > limits::MAX_TIMEOUT {
            format!(
                "the timeout of a batch is more than 0 and at most {} s",
                limits::MAX_TIMEOUT.as_secs()
            )
        } else if self.retry.max_attempts() == 0 {
            "messages have no attempts".to_owned()
        } else if self.max_messages < 1 || self.max_bytes < 1 {
            "a shard accepts no message".to_owned()
        } else if self.recovery.is_zero() {
            "the recovery time is 0".to_owned()
        } else {
            return Ok(());
        };
        Err(QueueError::Invalid(wrong))
    }
}
