//! The gateway's webhooks.

use abide::{Env, server::ApiError};
use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode},
};

use crate::{
    Time,
    gateway::{EventError, EventSecrets, Told},
    payment,
};

/// Handles a webhook of the gateway. Responds with 204 when its effect is on disk; a duplicate or late one changes
/// nothing.
pub(super) async fn hear(
    env: Env,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let Some(secrets) = env.get::<EventSecrets>() else {
        return Err(ApiError::not_found(
            "no_secret",
            "The program has no secret for the gateway's webhooks, and therefore trusts none: see --gateway-events-secret.",
        ));
    };
    let event = secrets
        .read(&headers, &body, Time::now(&**env.clock()))
        .map_err(|error| match error {
            EventError::NotVerified(error) => ApiError::new(
                StatusCode::UNAUTHORIZED,
                "not_verified",
                sentence(&error.to_string()),
            ),
            EventError::Invalid(text) => ApiError::bad_request("invalid", text),
        })?;
    match &event {
        Told::Payment(event) => payment::handle_event(&env, event).await?,
        Told::Refund(event) => payment::handle_refund_event(&env, event).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

fn sentence(text: &str) -> String {
    format!("The webhook is not trusted: {text}.")
}
