//! How long tests wait, all of them.

use std::{future::Future, time::Duration};

/// What has not come after this time never will: far longer than any test takes, on a machine with much else to do, too.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// The environment variable with another patience, in seconds: for variants that are broken so that a test hangs.
pub const PATIENCE_VARIABLE: &str = "ABIDE_TEST_PATIENCE";

/// [`PATIENCE`], or what [`PATIENCE_VARIABLE`] says.
fn patience() -> Duration {
    let seconds = std::env::var(PATIENCE_VARIABLE).ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(PATIENCE, Duration::from_secs)
}

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a test to its end, on two threads. What it leaves behind is not waited for.
///
/// # Panics
/// If the test hangs.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for a test");
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await });
    runtime.shutdown_background();
    ended.expect("the test hangs")
}

/// Asks again and again until there is an answer. Call it inside a tokio runtime.
///
/// # Panics
/// If there never is one; the text says what was waited for.
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

/// Waits for something that comes by itself. Call it inside a tokio runtime.
///
/// # Panics
/// If it never comes; the text says what was waited for.
pub async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> T {
    tokio::time::timeout(patience(), comes)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
