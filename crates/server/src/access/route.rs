//! Protected routes: what each requires is asked before its handler runs.

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::{Method, request::Parts};

use super::{Access, Need};
use crate::ApiError;

/// The route of a request: its method, its path pattern, and the path parameters.
#[derive(Debug)]
pub struct Route<'a> {
    /// The method.
    pub method: &'a Method,
    /// The router's path pattern, such as `/kv/{object}/{*key}`.
    pub path: &'a str,
    params: Option<&'a RawPathParams>,
}

impl Route<'_> {
    /// A decoded path parameter; empty if there is none.
    pub fn param(&self, name: &str) -> &str {
        let found = self.params.iter().flat_map(|params| params.iter());
        found
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value)
            .next()
            .unwrap_or_default()
    }
}

struct Guard<A, N> {
    access: A,
    need: N,
}

/// Protects every route that the router has now, once `access` is set.
pub(crate) fn protect(
    router: Router,
    access: impl Fn() -> Result<Access, ApiError> + Send + Sync + 'static,
    need: impl Fn(&Route<'_>) -> Need + Send + Sync + 'static,
) -> Router {
    let guard = Arc::new(Guard { access, need });
    router.route_layer(middleware::from_fn_with_state(guard, guarded))
}

async fn guarded<A, N>(
    State(guard): State<Arc<Guard<A, N>>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError>
where
    A: Fn() -> Result<Access, ApiError>,
    N: Fn(&Route<'_>) -> Need,
{
    let access = (guard.access)()?;
    let (mut parts, body) = request.into_parts();
    let params = params(&mut parts).await?;
    let path = parts.extensions.get::<MatchedPath>();
    let need = (guard.need)(&Route {
        method: &parts.method,
        path: path.map_or("", MatchedPath::as_str),
        params: params.as_ref(),
    });
    let request = Request::from_parts(parts, body);
    Ok(access.answer(need, request, next).await)
}

/// The path parameters, if there are any.
async fn params(parts: &mut Parts) -> Result<Option<RawPathParams>, ApiError> {
    use axum::extract::rejection::RawPathParamsRejection::MissingPathParams;
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(params) => Ok(Some(params)),
        Err(MissingPathParams(_)) => Ok(None),
        Err(_) => Err(ApiError::bad_request(
            "invalid_path",
            "The path is not UTF-8.",
        )),
    }
}
