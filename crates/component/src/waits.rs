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

/// Completes at a time of the wall clock, which shows `now`; never if there is none.
pub fn until(clock: &dyn Clock, at: Option<i64>, now: i64) -> impl Future<Output = ()> + use<> {
    let sleep = at.map(|at| {
        let left = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
        clock.sleep_until(clock.now() + Duration::from_millis(left))
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
