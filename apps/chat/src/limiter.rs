//! The write rate of one address: a token bucket, one object for each address.
//!
//! Contract: [`Pace::burst`] messages at once, then one per [`Pace::refill`]. The bucket is in memory only: by the time
//! the object is evicted it is full again, unless it refills more slowly than idle objects are evicted.

use std::{cell::Cell, sync::Arc, time::Duration};

use abide::prelude::*;
use serde::{Deserialize, Serialize};

/// The write rate of one address, in all rooms together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Messages at once.
    pub burst: u32,
    /// The time after which one more may be written.
    pub refill: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            burst: 10,
            refill: Duration::from_millis(500),
        }
    }
}

/// Whether an address may write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It may.
    Go,
    /// It may after this many milliseconds.
    Wait(u64),
}

/// The bucket of one address.
#[durable_object]
pub struct RateLimiter {
    env: Env,
    pace: Arc<Pace>,
    /// When the bucket will be full again, in milliseconds since 1970: this number determines the tokens in it.
    full_at: Cell<u64>,
}

impl DurableObject for RateLimiter {
    fn new(_ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            pace: env.require()?,
            env,
            full_at: Cell::new(0),
        })
    }
}

#[rpc]
impl RateLimiter {
    /// Takes a token, if there is one.
    pub async fn take(&self) -> Verdict {
        let now = self.env.clock().unix_millis();
        let (verdict, full_at) = self.pace.take(now, self.full_at.get());
        self.full_at.set(full_at);
        verdict
    }
}

impl Pace {
    /// The generic cell rate algorithm (ITU-T I.371): the bucket's state is the time at which it will be full.
    fn take(self, now: u64, full_at: u64) -> (Verdict, u64) {
        let refill = u64::try_from(self.refill.as_millis()).unwrap_or(u64::MAX);
        let then = full_at.max(now).saturating_add(refill);
        let capacity = refill.saturating_mul(u64::from(self.burst));
        match then.checked_sub(now.saturating_add(capacity)) {
            None | Some(0) => (Verdict::Go, then),
            Some(wait) => (Verdict::Wait(wait), full_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_write_a_burst_and_then_one_message_each_interval() {
        let pace = Pace::default();
        let mut full_at = 0;
        let mut ask = |now| {
            let (verdict, then) = pace.take(now, full_at);
            full_at = then;
            verdict
        };
        for _ in 0..pace.burst {
            assert_eq!(ask(1_000), Verdict::Go);
        }
        assert_eq!(ask(1_000), Verdict::Wait(500));
        assert_eq!(ask(1_400), Verdict::Wait(100));
        assert_eq!(ask(1_500), Verdict::Go);
        assert_eq!(ask(1_500), Verdict::Wait(500));
    }
}
