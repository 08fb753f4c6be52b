//! The opening handshake (RFC 6455, section 4.2): checks the request and builds the response.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tungstenite::handshake::derive_accept_key;

use crate::ApiError;

/// The only supported version of the protocol.
pub(super) const VERSION: &str = "13";

/// A key is 16 bytes in base64.
const KEY_LENGTH: usize = 24;

/// The accept key for a WebSocket request, or why it is rejected.
pub(super) fn accept_key(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    if !upgrades(headers) {
        return Err(upgrade_required(
            "This is a WebSocket endpoint: connect with the WebSocket protocol over HTTP/1.1.",
        ));
    }
    if method != Method::GET {
        return Err(ApiError::bad_request(
            "bad_websocket_request",
            "A WebSocket request must use GET.",
        ));
    }
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != VERSION) {
        return Err(upgrade_required(
            "The WebSocket protocol's version must be 13.",
        ));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let Some(key) = key.filter(|key| key.len() == KEY_LENGTH) else {
        return Err(ApiError::bad_request(
            "bad_websocket_request",
            "The header Sec-WebSocket-Key must hold 16 bytes in base64.",
        ));
    };
    HeaderValue::try_from(derive_accept_key(key.as_bytes()))
        .map_err(|_| ApiError::bad_request("bad_websocket_request", "The key is not valid."))
}

/// Puts the protocol's headers on a 101.
pub(super) fn put_headers(headers: &mut HeaderMap, accept: HeaderValue) {
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
}

/// An error as a response; 426 names the protocol to upgrade to (RFC 9110, section 15.5.22; RFC 6455, section 4.4).
pub(super) fn refusal(error: ApiError) -> Response {
    let mut response = error.into_response();
    if response.status() == StatusCode::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static(VERSION),
        );
    }
    response
}

fn upgrade_required(message: &str) -> ApiError {
    ApiError::new(StatusCode::UPGRADE_REQUIRED, "websocket_required", message)
}

/// Returns whether the headers request, or grant, the upgrade to a WebSocket.
pub(super) fn upgrades(headers: &HeaderMap) -> bool {
    has_token(headers, &header::UPGRADE, "websocket")
        && has_token(headers, &header::CONNECTION, "upgrade")
}

/// Returns whether one of the header's comma-separated words is this one.
pub(super) fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request's headers, with one of them changed.
    fn headers(name: &'static str, value: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("upgrade", "websocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.remove(name);
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_answer_to_the_specification_s_key_is_the_specification_s() {
        let accept = accept_key(&Method::GET, &headers("none", None)).unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_request_that_lacks_something_is_told_what() {
        for (name, value, status) in [
            ("upgrade", None, 426),
            ("upgrade", Some("h2c"), 426),
            ("connection", Some("close"), 426),
            ("sec-websocket-version", None, 426),
            ("sec-websocket-version", Some("8"), 426),
            ("sec-websocket-key", None, 400),
            ("sec-websocket-key", Some("short"), 400),
        ] {
            let error = accept_key(&Method::GET, &headers(name, value)).unwrap_err();
            assert_eq!(error.status(), status, "{name}: {value:?}");
            let refusal = refusal(error);
            assert_eq!(
                refusal.headers().contains_key("sec-websocket-version"),
                status == 426
            );
        }
        let error = accept_key(&Method::POST, &headers("none", None)).unwrap_err();
        assert_eq!(error.status(), 400);
    }
}
