//! How an outbox delivers: pace, retries, polling, circuit breaker, what is kept.

use derive_setters::Setters;
use std::time::Duration;

use abide::{Error, ErrorKind, Result};

use super::{RetryPolicy, limits};

/// How an outbox delivers.
#[derive(Clone, Debug, PartialEq, Setters)]
#[non_exhaustive]
pub struct Options {
    /// How fast.
    pub pace: Pace,
    /// When failed attempts are repeated, unless the handler or the message says.
    pub retry: RetryPolicy,
    /// Whether waits of policies are longer by chance, so that messages that failed together are not repeated together: up
    /// to 25 % if they double, 10 % if they are of a schedule. A message's own schedule is exact. Default true.
    pub jitter: bool,
    /// How operations are polled, unless the handler says.
    pub polling: Polling,
    /// How long an attempt or a poll may take, unless the handler says. Default 30 s, at most 5 min.
    pub timeout: Duration,
    /// When a destination that keeps failing is left alone.
    pub breaker: Breaker,
    /// How long a message is tried that its destination only throttles, since it was enqueued, due or redriven: being
    /// throttled uses no attempt up. Default 7 days.
    pub patience: Duration,
    /// What becomes of a message whose attempts have run out, or that will never be taken.
    pub give_up: GiveUp,
    /// What happens to the messages behind a dead letter with the same ordering key.
    pub behind_dead_letter: BehindDeadLetter,
    /// How long messages are kept, and with them their dedup keys, after they were sent, canceled or discarded. Default 7
    /// days. Dead letters are kept until somebody decides.
    pub keep_finished: Duration,
    /// Messages that may be queued; then enqueuing is refused as overload. Default 1,000,000.
    pub max_queued: i64,
    /// Bytes of a payload. Default and most: 1 MiB.
    pub max_payload_bytes: usize,
    /// If the process or the object ends while attempts are on their way, how long until the outbox goes on. Default 5 s.
    pub recovery: Duration,
}

impl Default for Options {
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

impl Options {
    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = match self.pace {
            Pace::Ticks { every, .. } if every.is_zero() => "the time between ticks is 0",
            Pace::Ticks { sends: 0, .. } | Pace::Ticks { polls: 0, .. } => {
                "a tick has no attempts or no polls"
            }
            _ if self.recovery.is_zero() => "the time of recovery is 0",
            _ if self.timeout.is_zero() => "attempts have no time",
            _ => return Ok(()),
        };
        Err(Error::with_kind(
            ErrorKind::Input,
            format!("an outbox cannot be run like this: {wrong}"),
        ))
    }
}

/// How fast an outbox delivers.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// Each message as soon as it is due and the limits allow it.
    AtOnce {
        /// Of the whole outbox. Default: 1,000 a second, 1,000 at once, 64 on their way.
        outbox: Limit,
        /// Of each destination. Default: 100 a second, 100 at once, 16 on their way.
        destination: Limit,
    },
    /// Only at ticks: so many attempts and so many polls each time.
    Ticks {
        /// The time between ticks.
        every: Duration,
        /// Attempts at a tick.
        sends: u32,
        /// Polls at a tick.
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

    /// As many attempts, and as many polls, at a time as this, in all and for each destination, as fast as they go.
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

/// How much goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// A token bucket for attempts; polls take no tokens.
    pub rate: Option<Rate>,
    /// Attempts on their way at a time, and as many polls beside them; from 1 to 1,024.
    pub concurrency: u32,
}

/// A token bucket: attempts in a time, and how many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The time in which one more attempt is allowed.
    pub interval: Duration,
    /// Attempts at once; at least 1.
    pub burst: u32,
}

impl Rate {
    /// So many a second.
    ///
    /// # Panics
    /// If `rate` is 0.
    pub const fn per_second(rate: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_nanos(1_000_000_000 / rate as u64),
            burst,
        }
    }

    /// So many a minute.
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

/// How operations that a receiver has accepted are polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct Polling {
    /// Between two polls, unless the receiver says. Default 10 s.
    pub interval: Duration,
    /// An operation that has not ended after this time is given up. Default 24 h.
    pub deadline: Duration,
    /// Polls in a row that may fail; then the operation is given up. Default 30.
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

/// When a destination that keeps failing is left alone. While its circuit is open nothing is sent to it and no attempts
/// are used up; then one message probes whether it is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct Breaker {
    /// Failures in a row that open the circuit. Default 10; 0 never opens it.
    pub failures: u32,
    /// The time until the first probe; it doubles with each probe that fails. Default 30 s.
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

/// What becomes of a message whose attempts have run out, or that will never be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GiveUp {
    /// It becomes a dead letter, and waits for somebody to decide.
    #[default]
    DeadLetter,
    /// It stays queued, listed as failing ([`Outbox::failing`](super::Outbox::failing)), and is tried again and again: with the last
    /// of the waits between its attempts. An operation is asked about for as long. Only a message's own deadline ends it, or
    /// whoever cancels it.
    Never,
}

/// What happens to the messages behind a dead letter with the same ordering key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BehindDeadLetter {
    /// They wait until it was delivered or discarded: the order is kept whatever happens.
    #[default]
    Wait,
    /// They go on.
    GoOn,
}
