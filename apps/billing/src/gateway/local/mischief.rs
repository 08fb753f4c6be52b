//! The faults that the local gateway injects.

use std::time::Duration;

use abide::random::SplitMix64;

/// How often it misbehaves, in percent each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mischief {
    /// The same seed and the same requests give the same faults.
    pub seed: u64,
    /// Requests that get 429, with a `Retry-After` of one second.
    pub throttled: u32,
    /// Requests that get 503 and are not processed.
    pub unavailable: u32,
    /// Requests whose connection is closed before they are processed.
    pub dropped: u32,
    /// Requests that are processed, but get 500.
    pub broken: u32,
    /// Requests that are processed, but whose response is lost.
    pub lost: u32,
    /// Requests that are processed, but take up to [`longest`](Self::longest).
    pub slow: u32,
    /// Maximum duration of a slow request.
    pub longest: Duration,
    /// Webhooks that are sent twice.
    pub doubled: u32,
    /// Webhooks that are never sent.
    pub forgotten: u32,
    /// Webhooks that are sent late, and therefore out of order.
    pub late: u32,
    /// Maximum delay.
    pub latest: Duration,
}

impl Mischief {
    /// No faults and no delays.
    pub const fn none(seed: u64) -> Self {
        Self {
            seed,
            throttled: 0,
            unavailable: 0,
            dropped: 0,
            broken: 0,
            lost: 0,
            slow: 0,
            longest: Duration::ZERO,
            doubled: 0,
            forgotten: 0,
            late: 0,
            latest: Duration::ZERO,
        }
    }

    /// Many faults: about every fourth request fails, and most webhooks are duplicated, late or lost.
    pub const fn lively(seed: u64) -> Self {
        Self {
            seed,
            throttled: 5,
            unavailable: 5,
            dropped: 5,
            broken: 5,
            lost: 5,
            slow: 10,
            longest: Duration::from_secs(3),
            doubled: 50,
            forgotten: 10,
            late: 20,
            latest: Duration::from_secs(20),
        }
    }
}

/// The fault injected into a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    /// The request is not processed and gets this status, with a `Retry-After` in seconds.
    pub(super) before: Option<(u16, Option<u64>)>,
    pub(super) dropped: bool,
    pub(super) broken: bool,
    pub(super) lost: bool,
    pub(super) delay: Duration,
}

/// The source of faults: what a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn roll(&mut self, mischief: &Mischief) -> Fate {
        let mut fate = Fate::default();
        let mut left = self.0.below(100);
        let mut falls = |share: u32| {
            let hit = left < u64::from(share);
            left = left.wrapping_sub(u64::from(share));
            hit && share > 0
        };
        if falls(mischief.throttled) {
            fate.before = Some((429, Some(1)));
        } else if falls(mischief.unavailable) {
            fate.before = Some((503, None));
        } else if falls(mischief.dropped) {
            fate.dropped = true;
        } else if falls(mischief.broken) {
            fate.broken = true;
        } else if falls(mischief.lost) {
            fate.lost = true;
        } else if falls(mischief.slow) {
            let longest = u64::try_from(mischief.longest.as_millis()).unwrap_or(u64::MAX - 1);
            fate.delay = Duration::from_millis(self.0.below(longest + 1));
        }
        fate
    }

    /// The number of times a webhook is sent.
    pub(super) fn copies(&mut self, mischief: &Mischief) -> usize {
        let roll = self.0.below(100);
        let (forgotten, doubled) = (mischief.forgotten.into(), u64::from(mischief.doubled));
        match roll {
            _ if roll < forgotten => 0,
            _ if roll < forgotten + doubled => 2,
            _ => 1,
        }
    }
}

impl Mischief {
    /// The delay of a webhook's copy in milliseconds. Depends on its name, not on the order of payments.
    pub(super) fn lateness(&self, event: &str, copy: usize) -> u64 {
        if u32::from(percent_of(self.seed, &format!("{event} late {copy}"))) >= self.late {
            return 0;
        }
        let latest = u64::try_from(self.latest.as_millis()).unwrap_or(u64::MAX);
        let share = percent_of(self.seed, &format!("{event} by {copy}"));
        latest.saturating_mul(u64::from(share) + 1) / 100
    }
}

/// A number below 100 that depends only on a seed and a text.
pub(super) fn percent_of(seed: u64, text: &str) -> u8 {
    let hash = text.bytes().fold(SplitMix64::mix(seed), |hash, byte| {
        SplitMix64::mix(hash ^ u64::from(byte))
    });
    u8::try_from(hash % 100).unwrap_or_default()
}
