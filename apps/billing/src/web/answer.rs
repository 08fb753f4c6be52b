//! Shared parts of the routes: finding an object by its id, and responses.

use abide::outcomes::OutcomesError;
use abide::server::ApiError;
use axum::{Json, http::StatusCode};
use serde::Deserialize;

use crate::{BillingError, resource::View};

#[derive(Deserialize)]
pub(super) struct ById {
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub(super) price: String,
    pub(super) quantity: Option<u32>,
}

/// The object with an id, after validating the id; its calls are applied once if the request has a key.
macro_rules! object {
    ($env:expr, $class:ty, $prefix:literal, $id:expr, $key:expr) => {{
        id::check($prefix, $id)?;
        let object = $env.object::<$class>().get_by_name($id);
        match &$key {
            Some(key) => object.with_idempotency_key(key.clone()),
            None => object,
        }
    }};
    ($env:expr, $class:ty, $prefix:literal, $id:expr) => {{
        id::check($prefix, $id)?;
        $env.object::<$class>().get_by_name($id)
    }};
}

pub(super) use object;

/// The error response of a client.
pub(super) fn told(error: BillingError) -> ApiError {
    match error {
        BillingError::NotFound { .. } => ApiError::not_found("not_found", error.to_string()),
        BillingError::Refused(refusal) => ApiError::bad_request("invalid", refusal.to_string()),
        BillingError::Outcome(
            refused @ (OutcomesError::Refused { .. } | OutcomesError::Rejected { .. }),
        ) => ApiError::conflict("not_allowed", refused.to_string()),
        BillingError::Object(error) => error.into(),
        BillingError::Outcome(error) => ApiError::bad_request("invalid", error.to_string()),
    }
}

pub(super) fn refused(refusal: crate::states::Refusal) -> ApiError {
    told(refusal.into())
}

pub(super) type Created = Result<(StatusCode, Json<View>), ApiError>;

pub(super) fn created(view: View) -> (StatusCode, Json<View>) {
    (StatusCode::CREATED, Json(view))
}
