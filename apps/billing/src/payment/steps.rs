//! Common parts of the steps of payments and refunds.

use std::time::Duration;

use abide::workflow::{Attempt, Context, Failure, RetryPolicy};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::hook::EVENT;
use crate::{
    BillingError,
    gateway::{self, GatewayError},
};

/// Pause between the first two status queries of money in transit; doubles each time.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// The longest pause: some payments take days.
pub(super) const MAX_PAUSE: Duration = Duration::from_hours(1);

/// Wakes a waiting workflow. A webhook only means that it is time to poll: it may be old, and others lost.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Wake {
    /// Whether the customer wants to pay otherwise.
    #[serde(default)]
    pub(super) replaced: bool,
}

/// A step that is retried until its result is known: money may be in transit.
pub(super) async fn step<T: Serialize + DeserializeOwned>(
    ctx: &Context,
    name: &str,
    function: impl AsyncFn(Attempt) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let policy = RetryPolicy::for_ever().timeout(gateway::PATIENCE * 2);
    ctx.step(name, policy, function).await
}

/// Waits for a wake-up, at most this long.
pub(super) async fn listen(ctx: &Context, time: Duration) -> Result<Wake, Failure> {
    match ctx.wait_for_event::<Wake>(EVENT, time).await {
        Err(failure) if failure.is_timeout() => Ok(Wake::default()),
        heard => heard,
    }
}

/// What a gateway's error means for a step.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(super) fn failure(error: GatewayError) -> Failure {
    let text = error.to_string();
    match error.after() {
        _ if !error.is_retryable() => Failure::permanent(text),
        Some(after) => Failure::temporary(text).retry_after(after),
        None => Failure::temporary(text),
    }
}

/// A resource that has rejected a call will reject it again.
pub(super) fn refused(error: BillingError) -> Failure {
    match error {
        BillingError::Object(error) => error.into(),
        refused => Failure::permanent(refused.to_string()),
    }
}
