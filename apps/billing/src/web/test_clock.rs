//! The test clock in JSON.

use std::time::Duration;

use abide::{
    Env,
    server::{ApiError, JsonBody},
};
use axum::Json;
use serde::{Deserialize, Serialize};

use crate::{Time, test_clock::TestModeClock};

#[derive(Serialize)]
pub(super) struct Shown {
    now: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advance {
    seconds: u64,
}

fn clock(env: &Env) -> Result<std::sync::Arc<TestModeClock>, ApiError> {
    env.get::<TestModeClock>().ok_or_else(|| {
        ApiError::not_found(
            "no_test_clock",
            "The program uses the real clock: start it with --test-clock to move the clock.",
        )
    })
}

pub(super) async fn show(env: Env) -> Result<Json<Shown>, ApiError> {
    clock(&env)?;
    let now = Time::now(&**env.clock());
    Ok(Json(Shown { now }))
}

/// Moves the program's clock forward.
pub(super) async fn advance(
    env: Env,
    JsonBody(advance): JsonBody<Advance>,
) -> Result<Json<Shown>, ApiError> {
    let clock = clock(&env)?;
    let moved = clock.advance(Duration::from_secs(advance.seconds));
    moved.map_err(|error| ApiError::bad_request("not_moved", error.to_string()))?;
    let now = Time::now(&**env.clock());
    Ok(Json(Shown { now }))
}
