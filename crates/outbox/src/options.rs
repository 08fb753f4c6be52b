//! Delivery options: pace, retries, polling, circuit breaker, retention.

use std::time::Duration;

use abide_macros::Setters;

use abide::{Error, ErrorKind, Result};

use super::{RetryPolicy, limits};

/// Delivery options of an outbox.
#[derive(Clone, Debug, PartialEq, Setters)]
#[non_exhaustive]
pub struct OutboxOptions {
    /// How fast it delivers.
    pub pace: Pace,
    /// When failed attempts are retried, unless the handler or the message overrides it.
    pub retry: RetryPolicy,
    /// Whether waits of policies have random jitter, so messages that failed together are not retried together: up to
    /// 25 % if they double, 10 % if they are of a schedule. A message's own schedule is exact. Default true.
    pub jitter: bool,
    /// How operations are polled, unless the handler overrides it.
    pub polling: Polling,
    /// How long an attempt or a poll may take, unless the handler overrides it. Default 30 s, at most 5 min.
    pub timeout: Duration,
    /// When a destination that keeps failing is left alone.
    pub breaker: Breaker,
    /// How long a throttled message is retried, since it was enqueued, due or redriven: throttling uses up no attempts.
    /// Default 7 days.
    pub patience: Duration,
    /// What to do with a message whose attempts have run out, or that will never be taken.
    pub give_up: GiveUp,
    /// What happens to later messages with the ordering key of a dead letter.
    pub behind_dead_letter: BehindDeadLetter,
    /// How long messages and their dedup keys are kept after they were sent, canceled or discarded. Default 7 days.
    /// Dead letters are kept until an operator decides.
    pub keep_finished: Duration,
    /// Messages that may be queued, beside those that are being sent; then enqueuing is refused as overload. Fan-outs wait while
    /// half as many are queued. Default 1,000,000.
    pub max_queued: i64,
    /// Bytes of a payload. Default and maximum: 1 MiB.
    pub max_payload_bytes: usize,
    /// How soon the outbox continues if the process or the object stops while attempts are in flight. Default 5 s.
    pub recovery: Duration,
}

impl Default for OutboxOptions {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            retry: RetryPolicy::default(),
            jitter: true,
            polling: Polling::default(),
            timeout: Duration::from_secs(30),
            breaker: Breaker::default(),
            patience: Duration::from_hours(7 * 24),
            give_up: GiveUp::DeadLetter,
            behind_dead_letter: BehindDeadLetter::Wait,
            keep_finished: Duration::from_hours(7 * 24),
            max_queued: 1_000_000,
            max_payload_bytes: limits::MAX_PAYLOAD_BYTES,
            recovery: Duration::from_secs(5),
        }
    }
}

impl OutboxOptions {
    /// Refuses invalid options.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = match self.pace {
            Pace::Ticks { every, .. } if every.is_zero() => "the tick interval is 0",
            Pace::Ticks { sends: 0, .. } | Pace::Ticks { polls: 0, .. } => {
                "a tick allows no attempts or no polls"
            }
            _ if self.recovery.is_zero() => "the recovery time is 0",
            _ if self.timeout.is_zero() => "the timeout of attempts is 0",
            _ => return Ok(()),
        };
        Err(Error::with_kind(
            ErrorKind::Input,
            format!("invalid options of an outbox: {wrong}"),
        ))
    }
}

/// How fast an outbox delivers.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// Sends each message as soon as it is due and the limits allow it.
    AtOnce {
        /// The limit of the whole outbox. Default: 1,000 a second, 1,000 at once, 64 in flight.
        outbox: Limit,
        /// The limit of each destination. Default: 100 a second, 100 at once, 16 in flight.
        destination: Limit,
    },
    /// Sends only at ticks, and polls an operation first in the tick that has sent it, unless the receiver asks for
    /// more time.
    Ticks {
        /// The time between ticks.
        every: Duration,
        /// Attempts per tick, all when it begins.
        sends: u32,
        /// Polls per tick. Three quarters of them are first for what the tick has sent, the others for the operations
        /// that have waited longest.
        polls: u32,
    },
}

impl Default for Pace {
    fn default() -> Self {
        Self::AtOnce {
            outbox: Limit {
                rate: Some(Rate::per_second(1_000, 1_000)),
                concurrency: 64,
            },
            destination: Limit {
                rate: Some(Rate::per_second(100, 100)),
                concurrency: 16,
            },
        }
    }
}

impl Pace {
    /// The classic setting: 15 attempts and 20 polls every 10 s, ninety messages a minute.
    pub const CLASSIC: Self = Self::Ticks {
        every: Duration::from_secs(10),
        sends: 15,
        polls: 20,
    };

    /// At most this many attempts, and as many polls, at a time, in all and for each destination, without a rate limit.
    pub const fn unlimited(concurrency: u32) -> Self {
        let limit = Limit {
            rate: None,
            concurrency,
        };
        Self::AtOnce {
            outbox: limit,
            destination: limit,
        }
    }
}

/// A limit of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// A token bucket for attempts; polls take no tokens.
    pub rate: Option<Rate>,
    /// Attempts in flight, and as many polls in addition; from 1 to 1,024.
    pub concurrency: u32,
}

/// A token bucket: a rate of attempts, and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The time in which one more attempt is allowed.
    pub interval: Duration,
    /// The burst; at least 1.
    pub burst: u32,
}

impl Rate {
    /// This many a second.
    ///
    /// # Panics
    /// If `rate` is 0.
    pub const fn per_second(rate: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_nanos(1_000_000_000 / rate as u64),
            burst,
        }
    }

    /// This many a minute.
    ///
    /// # Panics
    /// If `rate` is 0.
    pub const fn per_minute(rate: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_nanos(60_000_000_000 / rate as u64),
            burst,
        }
    }
}

/// How accepted operations are polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct Polling {
    /// The interval between two polls, unless the receiver says otherwise. Default 10 s.
    pub interval: Duration,
    /// An operation that has not finished after this time is given up. Default 24 h.
    pub deadline: Duration,
    /// Consecutive polls that may fail; then the operation is given up. Default 30.
    pub max_errors: u32,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            deadline: Duration::from_hours(24),
            max_errors: 30,
        }
    }
}

/// The circuit breaker of a destination that keeps failing. While its circuit is open nothing is sent to it and no
/// attempts are used up; then one message probes whether it works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct Breaker {
    /// Consecutive failures that open the circuit. Default 10; 0 never opens it.
    pub failures: u32,
    /// The time until the first probe; it doubles with each failed probe. Default 30 s.
    pub pause: Duration,
    /// The longest time between probes. Default 10 min.
    pub max_pause: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: 10,
            pause: Duration::from_secs(30),
            max_pause: Duration::from_mins(10),
        }
    }
}

/// What to do with a message whose attempts have run out, or that will never be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GiveUp {
    /// It becomes a dead letter, and waits for an operator.
    #[default]
    DeadLetter,
    /// It stays queued, is listed as failing ([`Outbox::failing`](super::Outbox::failing)), and is retried with the
    /// last of its waits. An operation is polled for as long as it takes. Only the message's own deadline or a
    /// cancellation ends it.
    Never,
}

/// What happens to later messages with the ordering key of a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BehindDeadLetter {
    /// They wait until it was delivered or discarded: the order is always kept.
    #[default]
    Wait,
    /// They are delivered.
    GoOn,
}
