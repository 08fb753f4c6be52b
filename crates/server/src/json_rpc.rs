//! RPC over HTTP and JSON, for callers in any language.
//!
//! Contract: `POST /{class}/{name}/{method}` with a JSON array calls the method of the object with this name. Its
//! return value is the response, 200, as serialized by `serde_json`. The `Err` of a method's `Result` is 422
//! `method_error` with the error in `details`, so the status distinguishes the two. A transport error has its usual
//! status and code; among them, 500 `no_result` means that the call was applied. With a header `Idempotency-Key`
//! (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>) the call is applied once: its result
//! is stored with the object's data and returned again. Another call with the same key is 422 `idempotency_key_reused`,
//! and a repetition while the first is still running is 409 `in_progress`.
//!
//! Anyone who may call these addresses (see [`access`](crate::access)) may call every method, so they are disabled
//! unless the program or `rpc.enabled` enables them. The body must have a JSON content type: a web page of another site
//! cannot make a browser send that without a preflight request.

use std::collections::HashMap;

use abide_runtime::{Env, ErrorKind, JsonResult};
use axum::{
    Router,
    extract::Request,
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

/// A router for calls of every registered class, to nest in a program's own router:
///
/// ```
/// # fn router(env: abide_runtime::Env) -> axum::Router {
/// axum::Router::new().nest("/rpc", abide_server::rpc_router(&env))
/// # }
/// ```
pub fn rpc_router(env: &Env) -> Router {
    Router::new()
        .route("/{class}/{name}/{method}", post(call))
        .with_state(env.clone())
}

/// A method whose `/rpc` calls are changes by an operator, recorded in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedCall {
    /// Records the arguments, which must not contain secrets; a call with more than 4 KiB of them is rejected.
    WithArguments(&'static str),
    /// Records no arguments.
    NameOnly(&'static str),
}

impl AuditedCall {
    /// The permissions that a call of this method requires; `None` for other methods.
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

/// The audited calls of each class, by its name.
pub(crate) type AuditedCalls = HashMap<String, Vec<AuditedCall>>;

/// The same router, for callers with the role to operate on the object, identified by its class.
pub(crate) fn protected_router(env: &Env, access: &Access, audited: AuditedCalls) -> Router {
    let classes = env.clone();
    access.protect(rpc_router(env), move |route| {
        let class = route.param("class");
        let known = classes.any_namespace(class);
        // No object of a class that is not registered can be reached.
        let (key, name) = match &known {
            Ok(known) => (known.unique_key(), known.class()),
            Err(_) => (class, class),
        };
        let need = Need::role(Role::Operate).object(key, route.param("name"));
        let calls = audited.get(name).into_iter().flatten();
        let mut found = calls.filter_map(|call| call.need(&need, route.param("method")));
        found.next().unwrap_or(need)
    })
}

#[derive(Deserialize)]
struct Target {
    class: String,
    name: String,
    method: String,
}

async fn call(
    env: Env,
    UrlPath(target): UrlPath<Target>,
    IdempotencyKey(key): IdempotencyKey,
    request: Request,
) -> Result<Response, ApiError> {
    let args = json_text(request).await?;
    let namespace = env
        .any_namespace(&target.class)
        .map_err(|error| ApiError::not_found("unknown_class", error.message()))?;
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
                    message: "The method returned an error; see `details`.",
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
