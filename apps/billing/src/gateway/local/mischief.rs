//! How bad a day it is.

use std::time::Duration;

/// How often it behaves badly, of a hundred times each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mischief {
    /// The same seed and the same requests give the same mischief.
    pub seed: u64,
    /// Requests that get 429, with a `Retry-After` of one second.
    pub throttled: u32,
    /// Requests that get 503 and are not heard.
    pub unavailable: u32,
    /// Requests whose connection is closed before they are heard.
    pub dropped: u32,
    /// Requests that are done, and get 500.
    pub broken: u32,
    /// Requests that are done, and whose answer is lost.
    pub lost: u32,
    /// Requests that are done, and take up to [`longest`](Self::longest).
    pub slow: u32,
    /// How long a slow one takes, at most.
    pub longest: Duration,
    /// Webhooks that are sent twice.
    pub doubled: u32,
    /// Webhooks that are never sent.
    pub forgotten: u32,
    /// Webhooks that are sent late, and so after others that happened later.
    pub late: u32,
    /// How late, at most.
    pub latest: Duration,
}

impl Mischief {
    /// It does everything right, and at once.
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

    /// A bad day: about every fourth request goes wrong, and most webhooks come twice, late or never.
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

/// What happens to a request besides what it asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    /// Instead of being heard it gets this status, with these seconds to wait.
    pub(super) before: Option<(u16, Option<u64>)>,
    pub(super) dropped: bool,
    pub(super) broken: bool,
    pub(super) lost: bool,
    pub(super) delay: Duration,
}

/// Numbers that a seed decides (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn roll(&mut self, mischief: &Mischief) -> Fate {
        let mut fate = Fate::default();
        let mut left = self.below(100);
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
            fate.delay = Duration::from_millis(self.below(longest + 1));
        }
        fate
    }

    /// How often a webhook is sent.
    pub(super) fn copies(&mut self, mischief: &Mischief) -> usize {
        let roll = self.below(100);
        let (forgotten, doubled) = (mischief.forgotten.into(), u64::from(mischief.doubled));
        match roll {
            _ if roll < forgotten => 0,
            _ if roll < forgotten + doubled => 2,
            _ => 1,
        }
    }
}

impl Mischief {
    /// How late a copy of a webhook is sent, in milliseconds. By its name, so that the order in which payments come is no
    /// matter.
    pub(super) fn lateness(&self, event: &str, copy: usize) -> u64 {
        if u32::from(percent_of(self.seed, &format!("{event} late {copy}"))) >= self.late {
            return 0;
        }
        let latest = u64::try_from(self.latest.as_millis()).unwrap_or(u64::MAX);
        let share = percent_of(self.seed, &format!("{event} by {copy}"));
        latest.saturating_mul(u64::from(share) + 1) / 100
    }
}

/// Spreads a number over all others.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// A number below 100 that a seed and a text decide, whenever they are asked.
pub(super) fn percent_of(seed: u64, text: &str) -> u8 {
    let hash = text
        .bytes()
        .fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)));
    u8::try_from(hash % 100).unwrap_or_default()
}
