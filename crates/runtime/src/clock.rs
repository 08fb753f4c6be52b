//! The clock interface: everything timed in the runtime uses a [`Clock`].
//!
//! [`SystemClock`] is the real one and needs tokio's timer on the waiting thread. [`TestClock`] stands still until a
//! test moves it. A sleep whose deadline has already passed completes immediately, so a test need not know whether a
//! task is already waiting.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::waits::{Wait, WaitFor, unobserved};

pub use crate::waits::{OwnWaits, own_waits};

/// A future that ends when a clock reaches a moment.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Reads the time and waits.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time since some fixed moment.
    fn now(&self) -> Duration;
    /// Wall-clock time in milliseconds since 1970.
    fn unix_millis(&self) -> u64;
    /// Completes when `now()` is at least `deadline`.
    fn sleep_until(&self, deadline: Duration) -> Sleep;
    /// True if time passes only when a test moves it.
    fn stands_still(&self) -> bool {
        false
    }
}

/// A sleep that limits the time of another future, awaited together with it.
///
/// [`Node::settle`](crate::Node::settle) does not take a task under a limit for one that waits for the clock: it awaits the
/// other future.
pub fn time_limit(clock: &dyn Clock, limit: Duration) -> Sleep {
    Box::pin(TimeLimit(clock.sleep_until(clock.now() + limit)))
}

struct TimeLimit(Sleep);

impl Future for TimeLimit {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        unobserved(|| self.0.as_mut().poll(cx))
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

#[allow(clippy::disallowed_methods, reason = "it is the machine's clock")]
impl SystemClock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::disallowed_methods, reason = "it is the machine's clock")]
impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn unix_millis(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            })
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        Box::pin(tokio::time::sleep_until((self.start + deadline).into()))
    }
}

/// A clock that a test controls. Clones share the same clock.
#[derive(Clone, Default)]
pub struct TestClock(Arc<Mutex<TestTime>>);

#[derive(Default)]
struct TestTime {
    now: Duration,
    /// Milliseconds by which the wall clock was set forward.
    set: i64,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

impl TestClock {
    /// The wall-clock time at which a new test clock starts: 2026-01-01T00:00:00Z.
    pub const START_UNIX_MILLIS: u64 = 1_767_225_600_000;

    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves time forward and wakes all waiters whose deadline has passed, earliest first.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut time = self.lock();
            time.now += by;
            let after = (time.now + Duration::from_nanos(1), 0);
            let later = time.sleepers.split_off(&after);
            std::mem::replace(&mut time.sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Sets the wall clock forward, or back, by this many milliseconds. [`now`](Clock::now) is not affected.
    pub fn set_wall(&self, by_millis: i64) {
        let mut time = self.lock();
        time.set = time.set.saturating_add(by_millis);
    }

    fn lock(&self) -> MutexGuard<'_, TestTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestClock").field(&self.lock().now).finish()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.lock().now
    }

    fn unix_millis(&self) -> u64 {
        let time = self.lock();
        let since = u64::try_from(time.now.as_millis()).unwrap_or(u64::MAX);
        Self::START_UNIX_MILLIS
            .saturating_add(since)
            .saturating_add_signed(time.set)
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        Box::pin(TestSleep {
            clock: self.clone(),
            deadline,
            key: None,
            wait: None,
        })
    }

    fn stands_still(&self) -> bool {
        true
    }
}

struct TestSleep {
    clock: TestClock,
    deadline: Duration,
    key: Option<(Duration, u64)>,
    wait: Option<Wait>,
}

impl Future for TestSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut time = clock.lock();
        if time.now >= self.deadline {
            self.wait = None;
            return Poll::Ready(());
        }
        let deadline = self.deadline;
        let key = *self.key.get_or_insert_with(|| {
            time.next += 1;
            (deadline, time.next)
        });
        time.sleepers.insert(key, cx.waker().clone());
        drop(time);
        Wait::note(&mut self.wait, WaitFor::Clock);
        Poll::Pending
    }
}

impl Drop for TestSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.clock.lock().sleepers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(sleep: &mut Sleep) -> Poll<()> {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_test_clock_moves_only_when_told() {
        let clock = TestClock::new();
        let mut sleep = clock.sleep_until(Duration::from_secs(2));
        assert!(poll(&mut sleep).is_pending());
        clock.advance(Duration::from_secs(1));
        assert!(poll(&mut sleep).is_pending());
        clock.advance(Duration::from_secs(1));
        assert!(poll(&mut sleep).is_ready());
        assert_eq!(clock.unix_millis(), TestClock::START_UNIX_MILLIS + 2_000);
    }

    #[test]
    fn a_wall_clock_that_is_set_leaves_time_alone() {
        let clock = TestClock::new();
        clock.advance(Duration::from_secs(2));
        clock.set_wall(-3_000);
        assert_eq!(clock.unix_millis(), TestClock::START_UNIX_MILLIS - 1_000);
        assert_eq!(clock.now(), Duration::from_secs(2));
        clock.set_wall(i64::MIN + 3_000);
        assert_eq!(clock.unix_millis(), 0);
    }

    #[test]
    fn a_dropped_sleep_is_forgotten() {
        let clock = TestClock::new();
        let mut sleep = clock.sleep_until(Duration::from_secs(2));
        assert!(poll(&mut sleep).is_pending());
        drop(sleep);
        assert!(clock.lock().sleepers.is_empty());
    }
}
