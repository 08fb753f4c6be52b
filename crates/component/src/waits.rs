//! What background tasks wait for.

use std::{future::pending, time::Duration};

use abide::clock::Clock;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

/// Completes when a future does; never if there is none.
pub async fn if_any<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Completes at a time of the wall clock; never if there is none.
pub fn until(clock: &dyn Clock, at: Option<i64>) -> impl Future<Output = ()> + use<> {
    let sleep = at.map(|at| {
        // In this order: if the clock moves in between, the sleep is too short rather than too long.
        let now = clock.now();
        let left = at.saturating_sub(clock.unix_millis().cast_signed());
        clock.sleep_until(now + Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    });
    if_any(sleep)
}

/// The results that are ready, to write them in one transaction.
pub fn landed<F: Future>(flights: &mut FuturesUnordered<F>) -> Vec<F::Output> {
    let mut landed = Vec::new();
    while let Some(Some(next)) = flights.next().now_or_never() {
        landed.push(next);
    }
    landed
}

#[cfg(test)]
mod tests {
    use abide::clock::TestClock;

    use super::*;

    #[test]
    fn a_time_that_has_passed_since_it_was_found_is_not_waited_for() {
        let clock = TestClock::new();
        let at = clock.unix_millis().cast_signed() + 20;
        let mut early = Box::pin(until(&clock, Some(at)));
        assert!((&mut early).now_or_never().is_none());
        clock.advance(Duration::from_millis(20));
        assert!(until(&clock, Some(at)).now_or_never().is_some());
        assert!(early.now_or_never().is_some());
        assert!(until(&clock, None).now_or_never().is_none());
    }
}
