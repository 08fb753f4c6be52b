//! RPC over HTTP and JSON, for callers in any language.
//!
//! Contract: `POST /{binding}/{name}/{method}` with a JSON array calls the method of the object with this name. What
//! it returns is the answer, 200, as `serde_json` writes it; the `Err` of a method's `Result` is 422 `method_error`
//! with the error in `details`, so that a status says which it was. An error of the way has the status and the code
//! that it has everywhere. With a header `Idempotency-Key`
//! (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>) the call is applied once: its result
//! is remembered with the object's data and returned again; another call with the key is 422
//! `idempotency_key_reused`, and one that comes while the first still runs 409 `in_progress`.
//!
//! Whoever reaches these addresses may call every method, so they are off unless the program or `rpc.enabled` turns
//! them on. The body must say that it is JSON: a web page elsewhere cannot make a browser send that unasked.

use abide_runtime::{Env, ErrorKind};
use abide_storage::limits::MAX_IDEMPOTENCY_KEY_BYTES;
use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ApiError, UrlPath, extract::whole_body};

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

#[derive(Deserialize)]
struct Target {
    binding: String,
    name: String,
    method: String,
}

async fn call(
    State(env): State<Env>,
    UrlPath(target): UrlPath<Target>,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    check_type(request.headers())?;
    let args = whole_body(request).await?;
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

/// A method's `Result`, as serde writes it.
#[derive(Deserialize)]
enum Outcome<'a> {
    #[serde(borrow)]
    Ok(&'a RawValue),
    #[serde(borrow)]
    Err(&'a RawValue),
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
    let (status, body) = match serde_json::from_slice(&result) {
        Ok(Outcome::Ok(value)) => (StatusCode::OK, value.get().to_owned().into_bytes()),
        Ok(Outcome::Err(details)) => {
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
        Err(_) => (StatusCode::OK, result),
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((status, json, Bytes::from(body)).into_response())
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let told = headers.get(header::CONTENT_TYPE);
    let essence = told
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "The arguments are a JSON array, and the request says so: Content-Type: application/json.",
    ))
}

/// The key of `Idempotency-Key`. The draft has a string of structured fields (RFC 8941), in quotes; many clients send
/// it bare.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let key = value
        .to_str()
        .ok()
        .map(str::trim)
        .and_then(|text| match text.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => Some(text.to_owned()),
        });
    key.filter(|key| (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()))
        .filter(|_| values.next().is_none())
        .map(Some)
        .ok_or_else(|| {
            ApiError::bad_request(
                "invalid_idempotency_key",
                format!(
                    "Idempotency-Key is one text of 1 to {MAX_IDEMPOTENCY_KEY_BYTES} ASCII characters, best in quotes."
                ),
            )
        })
}

/// The rest of a quoted string, in which a backslash stands before quotes and backslashes.
fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => key.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            other => key.push(other),
        }
    }
    characters.next().is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_key_may_be_quoted_and_need_not_be() {
        let key = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.append("idempotency-key", HeaderValue::from_str(text).unwrap());
            idempotency_key(&headers).map_err(|error| error.code().to_owned())
        };
        assert_eq!(key("abc"), Ok(Some("abc".to_owned())));
        assert_eq!(key("\"abc\""), Ok(Some("abc".to_owned())));
        assert_eq!(key(r#""a\"b\\c""#), Ok(Some(r#"a"b\c"#.to_owned())));
        assert_eq!(key(&"x".repeat(255)), Ok(Some("x".repeat(255))));
        let refused = Err("invalid_idempotency_key".to_owned());
        for bad in ["", "\"", "\"\"", "\"a\"b", r#""a\b""#, &"x".repeat(256)] {
            assert_eq!(key(bad), refused, "{bad}");
        }
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_result_that_is_no_result_type_is_the_answer_itself() {
        let told = |json: &str| answer(json.as_bytes().to_vec()).unwrap().status().as_u16();
        for plain in [
            "7",
            "null",
            "\"Ok\"",
            "{\"Err\":1,\"more\":2}",
            "[{\"Err\":1}]",
        ] {
            assert_eq!(told(plain), 200, "{plain}");
        }
        assert_eq!(told("{\"Ok\":null}"), 200);
        assert_eq!(told("{\"Err\":\"Taken\"}"), 422);
    }
}
