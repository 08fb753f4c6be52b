//! What the operations of components have in common: how an operator's request is read and answered.

use abide::{
    Request,
    server::{ApiError, JsonBody},
};
use axum::{
    Json,
    extract::{FromRequest, Query},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

/// Entries of a page if the operator does not say.
const DEFAULT_PAGE: usize = 100;

/// The answer to an operator, or why there is none.
pub type Answer = Result<Response, ApiError>;

/// A value as an answer.
pub fn json(value: &impl Serialize) -> Response {
    Json(value).into_response()
}

/// The query of a request.
pub fn query<T: DeserializeOwned>(request: &Request) -> Result<T, ApiError> {
    let Query(query) = Query::try_from_uri(request.uri()).map_err(|rejection| {
        ApiError::bad_request(
            "invalid_query",
            format!("The query cannot be read: {}.", rejection.body_text()),
        )
    })?;
    Ok(query)
}

/// How many entries a page has: so many as the operator wants, 100 if that is not said.
pub fn page(limit: Option<usize>, max: usize) -> Result<usize, ApiError> {
    match limit.unwrap_or(DEFAULT_PAGE.min(max)) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        _ => Err(ApiError::bad_request(
            "invalid_query",
            format!("limit is from 1 to {max}."),
        )),
    }
}

/// The JSON body of a request.
pub async fn body<T: DeserializeOwned>(request: Request) -> Result<T, ApiError> {
    let JsonBody(body) = JsonBody::from_request(request, &()).await?;
    Ok(body)
}

/// The component, such as "An outbox", has no such operation.
pub fn no_operation(component: &str) -> ApiError {
    ApiError::not_found(
        "not_found",
        format!("{component} has no operation of this method and path."),
    )
}
