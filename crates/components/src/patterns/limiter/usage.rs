//! What a key has used: the arithmetic of both kinds of limits.
//!
//! Contract: whatever the clock does, no more is counted than one full window, or one full bucket.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Limit, Verdict};
use crate::patterns::limits::{MAX_WINDOW_SLOTS, WINDOW_SLOTS};
use abide_component::numbers::{micros, millis};

/// What a key has used lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Usage {
    /// Of a window, in milliseconds.
    Window {
        /// The window that was last asked for.
        window: i64,
        /// Until when each part of the window lasts, and how many were admitted in it; oldest first.
        slots: VecDeque<(i64, u32)>,
    },
    /// Of a bucket (the generic cell rate algorithm, ITU-T I.371): one number says how many tokens are in it.
    Bucket {
        /// When it will be full again, in microseconds since 1970.
        full_at: i64,
    },
}

impl Usage {
    /// Nothing.
    pub(super) fn none(limit: &Limit) -> Self {
        match *limit {
            Limit::Window { window, .. } => Self::Window {
                window: millis(window),
                slots: VecDeque::new(),
            },
            Limit::Bucket { .. } => Self::Bucket { full_at: 0 },
        }
    }

    /// When it no longer counts, in milliseconds since 1970.
    pub(super) fn ends_at(&self) -> i64 {
        match self {
            Self::Window { window, slots } => slots
                .back()
                .map_or(0, |(until, _)| until.saturating_add(*window)),
            Self::Bucket { full_at } => full_at.saturating_add(999) / 1_000,
        }
    }

    /// Admits `count` requests, or says when they can be. The limit has been checked. A limit of the other kind than
    /// before starts afresh.
    pub(super) fn take(&mut self, limit: &Limit, count: u32, now: i64) -> Verdict {
        match (self, *limit) {
            (
                Self::Window {
                    window: last,
                    slots,
                },
                Limit::Window { limit, window },
            ) => {
                *last = millis(window);
                take_from_window(slots, limit, *last, count, now)
            }
            (Self::Bucket { full_at }, Limit::Bucket { burst, every }) => {
                take_from_bucket(full_at, burst, micros(every), count, now)
            }
            (usage, limit) => {
                *usage = Self::none(&limit);
                usage.take(&limit, count, now)
            }
        }
    }
}

fn take_from_window(
    slots: &mut VecDeque<(i64, u32)>,
    limit: u32,
    window: i64,
    count: u32,
    now: i64,
) -> Verdict {
    let width = (window / WINDOW_SLOTS).max(1);
    // The last millisecond of the present part: what is counted never leaves the window too early.
    let begin = now - now.rem_euclid(width);
    let present = begin + width - 1;
    while slots
        .front()
        .is_some_and(|(until, _)| until + window <= now)
    {
        slots.pop_front();
    }
    // A clock that was set back.
    for (until, _) in slots.iter_mut() {
        *until = (*until).min(present);
    }
    let used: u64 = slots.iter().map(|(_, count)| u64::from(*count)).sum();
    let wanted = used + u64::from(count);
    let most = u64::from(limit);
    if wanted <= most {
        match slots.back_mut() {
            Some((until, admitted)) if *until == present => *admitted += count,
            _ => slots.push_back((present, count)),
        }
        if slots.len() > MAX_WINDOW_SLOTS
            && let Some((_, oldest)) = slots.pop_front()
            && let Some((_, admitted)) = slots.front_mut()
        {
            *admitted += oldest;
        }
        let left = u32::try_from(most - wanted).unwrap_or(u32::MAX);
        return Verdict::Admitted { left };
    }
    let mut over = wanted - most;
    let frees = slots.iter().find(|(_, admitted)| {
        over = over.saturating_sub(u64::from(*admitted));
        over == 0
    });
    let until = frees.map_or(now, |(until, _)| *until);
    let wait = u64::try_from(until + window - now).unwrap_or(0);
    Verdict::Refused {
        retry_after: Duration::from_millis(wait),
    }
}

fn take_from_bucket(full_at: &mut i64, burst: u32, every: i64, count: u32, now: i64) -> Verdict {
    let now = now.saturating_mul(1_000);
    let capacity = every * i64::from(burst);
    // Empty at most, also if the clock was set back or the bucket was larger.
    *full_at = (*full_at).clamp(now, now + capacity);
    let then = *full_at + every * i64::from(count);
    let room = now + capacity - then;
    if room >= 0 {
        *full_at = then;
        return Verdict::Admitted {
            left: u32::try_from(room / every).unwrap_or(u32::MAX),
        };
    }
    let wait = room.unsigned_abs().div_ceil(1_000);
    Verdict::Refused {
        retry_after: Duration::from_millis(wait),
    }
}
