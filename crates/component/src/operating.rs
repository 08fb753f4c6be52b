//! Common code of component operations: reading an operator's request and answering it.

use abide::{
    Ctx, Request,
    http::Method,
    server::{ApiError, JsonBody},
};
use axum::{
    Json,
    extract::{FromRequest, Query},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

/// Default number of entries in a page.
const DEFAULT_PAGE: usize = 100;

/// The response to an operator, or an error.
pub type Answer = Result<Response, ApiError>;

/// What a request is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `GET` and `HEAD`: to read.
    Read,
    /// `POST`: to change something.
    Change,
    /// Any other method.
    Other,
}

/// Answers the operator requests to the component of this name: [`Ctx::serve_operations`].
///
/// # Errors
/// [`ErrorKind::Input`](abide::ErrorKind::Input) if the object already has a component of this name.
pub fn serve<F>(
    ctx: &Ctx,
    component: &str,
    answer: impl Fn(Request) -> F + 'static,
) -> abide::Result<()>
where
    F: Future<Output = Answer> + 'static,
{
    ctx.serve_operations(component, move |request| {
        let answer = answer(request);
        async move { Ok(answer.await.unwrap_or_else(IntoResponse::into_response)) }
    })
}

/// What a request is to do, and its path without slashes at both ends.
pub fn asked(request: &Request) -> (Verb, String) {
    let verb = match *request.method() {
        Method::GET | Method::HEAD => Verb::Read,
        Method::POST => Verb::Change,
        _ => Verb::Other,
    };
    (verb, request.uri().path().trim_matches('/').to_owned())
}

/// A value as a JSON response.
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

/// The number of entries in a page: as requested, by default 100.
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

/// An error: the component, such as "An outbox", has no such operation.
pub fn no_operation(component: &str) -> ApiError {
    ApiError::not_found(
        "not_found",
        format!("{component} has no operation of this method and path."),
    )
}
