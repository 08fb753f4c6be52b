//! The header `Idempotency-Key`
//! (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>).

use abide_storage::limits::MAX_IDEMPOTENCY_KEY_BYTES;
use axum::extract::FromRequestParts;
use http::{HeaderMap, request::Parts};

use crate::ApiError;

/// The key in the header `Idempotency-Key`, if the request has one. The draft specifies a quoted structured-field
/// string (RFC 8941); many clients send it without quotes. Rejects with 400 `invalid_idempotency_key`.
#[derive(Clone, Debug, Default)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        idempotency_key(&parts.headers).map(Self)
    }
}

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
                    "Idempotency-Key must be a single text of 1 to {MAX_IDEMPOTENCY_KEY_BYTES} ASCII characters, preferably in quotes."
                ),
            )
        })
}

/// The rest of a quoted string, in which a backslash escapes quotes and backslashes.
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
}
