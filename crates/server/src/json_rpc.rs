//! RPC over HTTP and JSON, for callers in any language.
//!
//! Contract: `POST /{binding}/{name}/{method}` with a JSON array calls the method of the object with this name. What
//! it returns is the answer, 200, as `serde_json` writes it; the `Err` of a method's `Result` is 422 `method_error`
//! with the error in `details`, so that a status says which it was. An error of the way has the status and the code
//! that it has everywhere; of these, 500 `no_result` says that the call was applied. With a header `Idempotency-Key`
//! (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>) the call is applied once: its result
//! is remembered with the object's data and returned again; another call with the key is 422
//! `idempotency_key_reused`, and one that comes while the first still runs 409 `in_progress`.
//!
//! Whoever may call these addresses (see [`access`](crate::access)) may call every method, so they are off unless the
//! program or `rpc.enabled` turns them on. The body must say that it is JSON: a web page elsewhere cannot make a browser send that unasked.

use std::collections::HashMap;

use abide_runtime::{Env, ErrorKind, JsonResult};
use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ApiError, IdempotencyKey, UrlPath,
    access::{Access, Need, Role},
    extract::json_text,
};

/// A router that takes calls of every registered class, to be nested in a program's own:
///
/// ```
/// # fn router(env: abide_runtime::Env) -> axum::Router {
/// axum::Router::new().nest("/rpc", abide_server::rpc_router(&env))
/// # }
/// ```
pub fn rpc_router(env: &Env) -> Router {
    Router::new()
        .route("/{binding}/{name}/{method}", post(call))
        .with_state(env.clone())
}

/// A method whose calls over `/rpc` are changes by an operator, and so rows of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedCall {
    /// With the arguments, which hold no secret; with more than 4 KiB of them the call is refused.
    WithArguments(&'static str),
    /// Without the arguments.
    NameOnly(&'static str),
}

impl AuditedCall {
    /// What a call of this method needs; `None` if it is of another.
    fn need(self, need: &Need, method: &str) -> Option<Need> {
        match self {
            Self::WithArguments(name) if name == method => {
                Some(need.clone().audited(name).with_body())
            }
            Self::NameOnly(name) if name == method => Some(need.clone().audited(name)),
            _ => None,
        }
    }
}

/// The audited calls of each binding.
pub(crate) type AuditedCalls = HashMap<String, Vec<AuditedCall>>;

/// The same, for those who may call the object: with the role that operates, named by its class.
pub(crate) fn protected_router(env: &Env, access: &Access, audited: AuditedCalls) -> Router {
    let classes = env.clone();
    access.protect(rpc_router(env), move |route| {
        let binding = route.param("binding");
        let class = classes.any_namespace(binding);
        // Of a binding that does not exist no object can be reached.
        let class = class.map_or_else(
            |_| binding.to_owned(),
            |known| known.unique_key().to_owned(),
        );
        let need = Need::role(Role::Operate).object(&class, route.param("name"));
        let calls = audited.get(binding).into_iter().flatten();
        let mut found = calls.filter_map(|call| call.need(&need, route.param("method")));
        found.next().unwrap_or(need)
    })
}

#[derive(Deserialize)]
struct Target {
    binding: String,
    name: String,
    method: String,
}

async fn call(
    State(env): State<Env>,
    UrlPath(target): UrlPath<Target>,
    IdempotencyKey(key): IdempotencyKey,
    request: Request,
) -> Result<Response, ApiError> {
    let args = json_text(request).await?;
    let namespace = env
        .any_namespace(&target.binding)
        .map_err(|error| ApiError::not_found("unknown_binding", error.message()))?;
    let mut stub = namespace.get_by_name(&target.name);
    if let Some(key) = key {
        stub = stub.with_idempotency_key(key);
    }
    let result = stub.call_json(target.method, args.into()).await;
    answer(result.map_err(|error| match error.kind() {
        ErrorKind::Decode if !error.remote() => {
            ApiError::bad_request("bad_arguments", error.message())
        }
        ErrorKind::NotFound if !error.remote() => {
            ApiError::not_found("unknown_method", error.message())
        }
        _ => error.into(),
    })?)
}

#[derive(Serialize)]
struct Failure<'a> {
    error: MethodError<'a>,
}

#[derive(Serialize)]
struct MethodError<'a> {
    code: &'a str,
    message: &'a str,
    details: &'a RawValue,
}

fn answer(result: Vec<u8>) -> Result<Response, ApiError> {
    let (status, body) = match JsonResult::read(&result) {
        Some(JsonResult::Ok(value)) => (StatusCode::OK, value.get().to_owned().into_bytes()),
        Some(JsonResult::Err(details)) => {
            let failure = Failure {
                error: MethodError {
                    code: "method_error",
                    message: "The method returned an error; `details` has it.",
                    details,
                },
            };
            let body = serde_json::to_vec(&failure).map_err(|_| ApiError::panicked())?;
            (StatusCode::UNPROCESSABLE_ENTITY, body)
        }
        // Any other value is the result.
        None => (StatusCode::OK, result),
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((status, json, Bytes::from(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_no_result_type_is_the_answer_itself() {
        let told = |json: &str| answer(json.as_bytes().to_vec()).unwrap().status().as_u16();
        for plain in [
            "7",
            "null",
            "\"Ok\"",
            "{\"Err\":1,\"more\":2}",
            "[{\"Err\":1}]",
            "[1]",
        ] {
            assert_eq!(told(plain), 200, "{plain}");
        }
        assert_eq!(told("{\"Ok\":null}"), 200);
        assert_eq!(told("{\"Err\":\"Taken\"}"), 422);
    }
}
