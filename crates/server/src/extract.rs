//! Extractors for handlers of a user's router, like axum's own, but with [`ApiError`]s.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::BytesRejection},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{ApiError, plain_words::plain, site, strict_json};

/// The request's body as JSON. Rejects with 400 `malformed_json` or `invalid_body`, 413 `body_too_large`, or 415
/// `unsupported_media_type`.
///
/// A request from a browser must have the `Content-Type` `application/json`, or a type that ends with `+json`: a web page
/// can make a browser send text to any server without a preflight request, but only with the content types of a form.
/// A browser adds `Origin` or `Sec-Fetch-Site`; the content type of a request without either does not matter, so
/// `curl -d` works.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let bytes = json_text(request).await?;
        strict_json::from_slice(&bytes).map(Self).map_err(|error| {
            // Serde takes some values of a wrong type for a fault of the syntax.
            let is_json = || serde_json::from_slice::<IgnoredAny>(&bytes).is_ok();
            let code = if error.is_data() || is_json() {
                "invalid_body"
            } else {
                "malformed_json"
            };
            ApiError::bad_request(
                code,
                format!(
                    "The request body does not have the expected form: {}.",
                    plain(&error.to_string())
                ),
            )
        })
    }
}

/// The request's body as text, of any content type. Rejects with 400 `invalid_text` if it is not UTF-8, or 413
/// `body_too_large`.
#[derive(Clone, Debug, Default)]
pub struct TextBody(pub String);

impl<S: Send + Sync> FromRequest<S> for TextBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let bytes = whole(request).await?;
        String::from_utf8(bytes.into()).map(Self).map_err(|_| {
            ApiError::bad_request("invalid_text", "The request body must be text in UTF-8.")
        })
    }
}

/// The complete body of a request that may be JSON.
pub(crate) async fn json_text(request: Request) -> Result<Bytes, ApiError> {
    let headers = request.headers();
    if site::is_of_browser(headers) && !has_json_content_type(headers) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "A web page must send JSON with the header Content-Type: application/json.",
        ));
    }
    whole(request).await
}

async fn whole(request: Request) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, &())
        .await
        .map_err(|rejection| unreadable(&rejection))
}

/// Reads a complete body of at most this many bytes within this time.
pub(crate) async fn read_whole(
    body: Body,
    most: usize,
    patience: Duration,
) -> Result<Bytes, ApiError> {
    let read = tokio::time::timeout(patience, Limited::new(body, most).collect());
    match read.await {
        Err(_elapsed) => Err(ApiError::body_timeout()),
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::body_too_large(Some(most as u64)))
        }
        Ok(Err(_)) => Err(broken_off()),
    }
}

fn has_json_content_type(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(one), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = one.to_str().ok().and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| {
        let essence = essence.trim().to_ascii_lowercase();
        essence == "application/json"
            || essence.starts_with("application/") && essence.ends_with("+json")
    })
}

fn unreadable(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        ApiError::body_too_large(None)
    } else {
        broken_off()
    }
}

pub(crate) fn broken_off() -> ApiError {
    ApiError::bad_request(
        "unreadable_body",
        "The request body could not be read completely.",
    )
}

/// The parameters of the matched path. Rejects with 400 `invalid_path`.
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
                    plain(reason(&rejection.body_text(), "Invalid URL: "))
                ),
            )),
        }
    }
}

/// The reason for a rejection, without axum's prefix, which our own message replaces.
fn reason<'a>(text: &'a str, prefix: &str) -> &'a str {
    text.strip_prefix(prefix)
        .unwrap_or(text)
        .trim_end_matches('.')
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
                    plain(reason(
                        &rejection.body_text(),
                        "Failed to deserialize query string: "
                    ))
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_say_that_it_is_json() {
        let says = |types: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for one in types {
                headers.append(header::CONTENT_TYPE, one.parse().unwrap());
            }
            has_json_content_type(&headers)
        };
        for json in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/merge-patch+json",
        ] {
            assert!(says(&[json]), "{json}");
        }
        for other in [
            "",
            "text/plain",
            "text/plain; application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "text/json+json",
        ] {
            assert!(!says(&[other]), "{other}");
        }
        assert!(!says(&[]));
        assert!(!says(&["text/plain", "application/json"]));
    }
}
