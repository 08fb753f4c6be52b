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
        .map(|text| text.trim_matches(' '))
        .filter(|text| !text.contains('\t'))
        .and_then(|text| match text.strip_prefix('"') {
            Some(quoted) => item(quoted),
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

/// The key of a structured field whose text begins with a quote: a string, and parameters, which mean nothing here
/// (RFC 8941, section 3.3).
fn item(quoted: &str) -> Option<String> {
    let (key, mut rest) = string(quoted)?;
    while let Some(parameter) = rest.strip_prefix(';') {
        let parameter = parameter.trim_start_matches(' ');
        let name = parameter.strip_prefix(|c: char| c.is_ascii_lowercase() || c == '*')?;
        rest = name.trim_start_matches(|c: char| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c)
        });
        if let Some(value) = rest.strip_prefix('=') {
            rest = match value.strip_prefix('"') {
                Some(quoted) => string(quoted)?.1,
                None => bare(value)?,
            };
        }
    }
    rest.is_empty().then_some(key)
}

/// A quoted string without its first quote, and what follows it. A backslash escapes quotes and backslashes.
fn string(quoted: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some((key, characters.as_str())),
            '\\' => key.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            other => key.push(other),
        }
    }
}

/// What follows a number, a token, a boolean or bytes.
fn bare(value: &str) -> Option<&str> {
    let end = value.find([';', ' ', '"']).unwrap_or(value.len());
    (end > 0).then(|| &value[end..])
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
        for parameters in [";p", ";p=1", "; p=?1;q=tok*", r#";p="x;\"y";q=:aGk=:"#] {
            let given = format!("\"a\"{parameters}");
            assert_eq!(key(&given), Ok(Some("a".to_owned())), "{given}");
        }
        let refused = Err("invalid_idempotency_key".to_owned());
        for parameters in [
            ";", ";P", ";p=", ";p=1 x", " ;p", r#";p="x"#, ";p=1\"", ",b",
        ] {
            let given = format!("\"a\"{parameters}");
            assert_eq!(key(&given), refused, "{given}");
        }
        for bad in [
            "",
            "\"",
            "\"\"",
            "\"a\"b",
            r#""a\b""#,
            "a\tb",
            &"x".repeat(256),
        ] {
            assert_eq!(key(bad), refused, "{bad}");
        }
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }
}
