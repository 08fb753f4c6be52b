//! Time limits for waiting, shared by all tests.

use std::{future::Future, time::Duration};

/// The time limit for any wait: far longer than it takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// The time limit for a test: longer than one wait, whose message says what it was for.
const TEST: Duration = Duration::from_mins(10);

/// The environment variable that overrides the limit, in seconds: for mutants that make a test hang.
pub const PATIENCE_VARIABLE: &str = "ABIDE_TEST_PATIENCE";

/// [`PATIENCE`], or the value of [`PATIENCE_VARIABLE`].
pub(crate) fn patience() -> Duration {
    let seconds = std::env::var(PATIENCE_VARIABLE).ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(PATIENCE, Duration::from_secs)
}

/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a test to completion, on two threads. Tasks that it leaves behind are not awaited.
///
/// # Panics
/// If the test hangs.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for a test");
    let ended = runtime.block_on(async { tokio::time::timeout(TEST, test).await });
    runtime.shutdown_background();
    ended.expect("the test hangs")
}

/// Polls until there is a result. Call it inside a tokio runtime.
///
/// # Panics
/// If there never is one; the message names what was waited for.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asks = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time(what, asks).await
}

/// Waits for a future, within the time limit. Call it inside a tokio runtime.
///
/// # Panics
/// If it never completes; the message names what was waited for.
pub async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> T {
    tokio::time::timeout(patience(), comes)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}
