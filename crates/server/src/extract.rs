//! Extractors for handlers of a user's router, like axum's own, whose refusals are [`ApiError`]s.

use axum::extract::{
    FromRequest, FromRequestParts, Path, Query, Request, rejection::BytesRejection,
};
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use serde::de::DeserializeOwned;

use crate::ApiError;

/// The request's body, read as JSON whatever its `Content-Type` says. Refuses with 400 `malformed_json` or
/// `invalid_body`, or 413 `body_too_large`.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let bytes = whole_body(request).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            let code = if error.is_data() {
                "invalid_body"
            } else {
                "malformed_json"
            };
            ApiError::bad_request(
                code,
                format!("The request body is not the JSON that is expected here: {error}."),
            )
        })
    }
}

/// A request's body, whole.
pub(crate) async fn whole_body(request: Request) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, &())
        .await
        .map_err(|rejection| unreadable(&rejection))
}

fn unreadable(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        ApiError::body_too_large(None)
    } else {
        ApiError::bad_request(
            "unreadable_body",
            "The request body could not be read to its end.",
        )
    }
}

/// The parameters of the matched path. Refuses with 400 `invalid_path`.
#[derive(Clone, Copy, Debug, Default)]
pub struct UrlPath<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for UrlPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiError::bad_request(
                "invalid_path",
                format!(
                    "The address cannot be read: {}.",
                    rejection.body_text().trim_end_matches('.')
                ),
            )),
        }
    }
}

/// The query string. Refuses with 400 `invalid_query`.
#[derive(Clone, Copy, Debug, Default)]
pub struct UrlQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiError::bad_request(
                "invalid_query",
                format!(
                    "The query cannot be read: {}.",
                    rejection.body_text().trim_end_matches('.')
                ),
            )),
        }
    }
}
