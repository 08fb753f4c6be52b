//! The memory budget of a node, in bytes, and the accounts that charge it.
//!
//! Contract: everything that grows with load charges its bytes to the budget, by use, for as long as it exists. A
//! charge never fails and never waits: admission checks [`MemoryBudget::is_over`] first and rejects new work, and work
//! that has begun continues. The budget is therefore exceeded at most by the work that was admitted before it was used
//! up.
//!
//! Each worker, and each other part of the node, has its own [account](MemoryAccount). A charge is one addition to a
//! counter of that account; the shared total is updated only when an account crosses a multiple of a grain. The total
//! is therefore exact to one grain for each account and use, and threads do not contend for its cache line on each
//! event.

use crate::sync::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// Objects in memory: connections, page caches, prepared statements, instances.
    Objects,
    /// Unanswered events: request heads, bodies, arguments of calls.
    Events,
    /// Answers that wait at an output gate, or that their client has not received yet.
    Replies,
    /// WebSockets, messages that their objects have not handled, and messages that their peers have not received.
    Sockets,
    /// Bodies of HTTP requests that are being received, and of responses that are streamed.
    Bodies,
    /// Client connections and their buffers.
    Connections,
    /// Committed pages that are not in object files yet.
    Overlay,
    /// Log that waits for the disk.
    Log,
}

impl MemoryUse {
    /// All uses.
    pub const ALL: [Self; 8] = [
        Self::Objects,
        Self::Events,
        Self::Replies,
        Self::Sockets,
        Self::Bodies,
        Self::Connections,
        Self::Overlay,
        Self::Log,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Events => "events",
            Self::Replies => "replies",
            Self::Sockets => "sockets",
            Self::Bodies => "bodies",
            Self::Connections => "connections",
            Self::Overlay => "overlay",
            Self::Log => "log",
        }
    }
}

const USES: usize = MemoryUse::ALL.len();

/// The largest grain, and that of a budget without a limit: with eight uses on each of 64 workers, the total is off by
/// at most 32 MiB.
const MAX_GRAIN_BITS: u32 = 16;

/// The smallest grain.
const MIN_GRAIN_BITS: u32 = 8;

/// A grain is at most this part of the limit.
const GRAINS: u64 = 1 << 12;

/// From this many eighths of the budget on, idle objects are evicted.
const TIGHT_EIGHTHS: u64 = 7;

/// See the module's documentation. Clones are the same budget.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Inner>);

struct Inner {
    limit: u64,
    grain_bits: u32,
    total: Total,
    refused: [AtomicU64; USES],
    accounts: Mutex<Vec<Weak<MemoryAccount>>>,
}

/// Read by all threads: on its own cache line.
#[repr(align(64))]
struct Total(AtomicI64);

/// The memory charged for one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// The use.
    pub used_for: MemoryUse,
    /// Bytes charged now.
    pub bytes: u64,
    /// Rejected requests for this use.
    pub refused: u64,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(limit: u64) -> Self {
        let grain_bits = (limit / GRAINS).max(1).ilog2();
        Self(Arc::new(Inner {
            limit,
            grain_bits: grain_bits.clamp(MIN_GRAIN_BITS, MAX_GRAIN_BITS),
            total: Total(AtomicI64::new(0)),
            refused: Default::default(),
            accounts: Mutex::default(),
        }))
    }

    /// A budget without a limit; usage is still counted.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes charged by all accounts, exact to one grain for each account and use.
    pub fn used(&self) -> u64 {
        self.0
            .total
            .0
            .load(Ordering::Relaxed)
            .max(0)
            .cast_unsigned()
    }

    /// Returns whether the budget is used up: new work is rejected.
    pub fn is_over(&self) -> bool {
        self.used() > self.0.limit
    }

    /// Returns whether little is left: idle objects are evicted.
    pub fn is_tight(&self) -> bool {
        self.used() > self.0.limit / 8 * TIGHT_EIGHTHS
    }

    /// An account for a part of the node.
    pub fn account(&self) -> Arc<MemoryAccount> {
        let account = Arc::new(MemoryAccount {
            budget: self.clone(),
            used: Default::default(),
        });
        let mut accounts = self.0.accounts.lock();
        accounts.retain(|account| account.strong_count() > 0);
        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Counts a request rejected for lack of memory.
    pub fn count_refusal(&self, used_for: MemoryUse) {
        self.0.refused[used_for as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Current usage, by use.
    pub fn usage(&self) -> [MemoryUsage; USES] {
        let accounts = self.0.accounts.lock();
        MemoryUse::ALL.map(|used_for| {
            let accounts = accounts.iter().filter_map(Weak::upgrade);
            let bytes: i64 = accounts
                .map(|account| account.used[used_for as usize].load(Ordering::Relaxed))
                .sum();
            MemoryUsage {
                used_for,
                bytes: bytes.max(0).cast_unsigned(),
                refused: self.0.refused[used_for as usize].load(Ordering::Relaxed),
            }
        })
    }
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("limit", &self.0.limit)
            .field("used", &self.used())
            .finish()
    }
}

/// The memory that one part of a node has charged to the budget.
pub struct MemoryAccount {
    budget: MemoryBudget,
    /// May briefly be negative, when another thread releases bytes before they are counted.
    used: [AtomicI64; USES],
}

impl MemoryAccount {
    /// The budget that the account charges.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Bytes charged for one use.
    pub fn used(&self, used_for: MemoryUse) -> u64 {
        let used = self.used[used_for as usize].load(Ordering::Relaxed);
        used.max(0).cast_unsigned()
    }

    /// Charges bytes; [`Self::give`] releases them.
    pub fn take(&self, used_for: MemoryUse, bytes: u64) {
        self.change(used_for, bytes.cast_signed());
    }

    /// Releases charged bytes.
    pub fn give(&self, used_for: MemoryUse, bytes: u64) {
        self.change(used_for, -bytes.cast_signed());
    }

    /// Charges bytes until the returned guard is dropped.
    pub fn charge(self: &Arc<Self>, used_for: MemoryUse, bytes: u64) -> MemoryCharge {
        self.take(used_for, bytes);
        MemoryCharge {
            account: Arc::clone(self),
            used_for,
            bytes,
        }
    }

    fn change(&self, used_for: MemoryUse, by: i64) {
        let before = self.used[used_for as usize].fetch_add(by, Ordering::Relaxed);
        let grain = self.budget.0.grain_bits;
        let crossed = ((before + by) >> grain) - (before >> grain);
        if crossed != 0 {
            let total = &self.budget.0.total.0;
            total.fetch_add(crossed << grain, Ordering::Relaxed);
        }
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        for used_for in MemoryUse::ALL {
            let left = *self.used[used_for as usize].get_mut();
            self.change(used_for, -left);
        }
    }
}

impl fmt::Debug for MemoryAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryAccount")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// Bytes charged to an account while this exists.
#[derive(Debug)]
pub struct MemoryCharge {
    account: Arc<MemoryAccount>,
    used_for: MemoryUse,
    bytes: u64,
}

impl MemoryCharge {
    /// Changes the number of charged bytes.
    pub fn resize(&mut self, bytes: u64) {
        let by = bytes.cast_signed() - self.bytes.cast_signed();
        self.account.change(self.used_for, by);
        self.bytes = bytes;
    }

    /// The number of charged bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.account.give(self.used_for, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_is_taken_is_counted_by_use_and_given_back() {
        let budget = MemoryBudget::new(1 << 20);
        let (one, other) = (budget.account(), budget.account());
        one.take(MemoryUse::Objects, 600 << 10);
        let mut charge = other.charge(MemoryUse::Events, 200 << 10);
        assert!(!budget.is_over() && !budget.is_tight());
        charge.resize(500 << 10);
        assert!(budget.is_over() && budget.is_tight());
        budget.count_refusal(MemoryUse::Events);
        let used: Vec<_> = budget.usage()[..2]
            .iter()
            .map(|usage| (usage.used_for.name(), usage.bytes >> 10, usage.refused))
            .collect();
        assert_eq!(used, [("objects", 600, 0), ("events", 500, 1)]);
        drop(charge);
        assert!(!budget.is_over());
        drop(one);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_total_is_exact_to_a_grain_however_threads_interleave() {
        let budget = MemoryBudget::new(1 << 20);
        let account = budget.account();
        thread::scope(|scope| {
            for thread in 1..=4_u64 {
                let account = &account;
                scope.spawn(move || {
                    for round in 0..10_000 {
                        let bytes = thread * 100 + round % 7;
                        account.take(MemoryUse::Replies, bytes);
                        account.give(MemoryUse::Replies, bytes);
                    }
                    account.take(MemoryUse::Replies, 1_000 * thread);
                });
            }
        });
        assert_eq!(account.used(MemoryUse::Replies), 10_000);
        assert!(budget.used().abs_diff(10_000) <= 1 << MIN_GRAIN_BITS);
    }

    #[test]
    fn small_takings_do_not_touch_the_total() {
        let budget = MemoryBudget::unlimited();
        let account = budget.account();
        for _ in 0..100 {
            account.take(MemoryUse::Events, 500);
        }
        assert_eq!(budget.used(), 0);
        assert_eq!(budget.usage()[1].bytes, 50_000);
        account.take(MemoryUse::Events, 1 << MAX_GRAIN_BITS);
        assert_eq!(budget.used(), 1 << MAX_GRAIN_BITS);
    }
}
