//! Redaction: views of a message leave out the values of secret headers.
//!
//! Contract: a view shows [`REDACTED`] in place of the values of [`SECRET_HEADERS`] in the object `headers` of a
//! payload, and everything else as written. An edit that contains [`REDACTED`] there keeps the stored value.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The replacement of a value, as JSON.
const REDACTED: &str = "\"[redacted]\"";

/// Headers with credentials.
const SECRET_HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-amz-security-token",
];

/// A secret header of a payload: its name in lower case, and its value as written.
type SecretHeader<'a> = (String, &'a RawValue);

/// The payload without secrets.
pub(crate) fn redacted(payload: String) -> String {
    replaced(&payload, |_, _| Some(REDACTED)).unwrap_or(payload)
}

/// An edited payload, with stored values in place of redacted ones.
pub(super) fn restored(edited: &str, stored: &str) -> Option<String> {
    let known = secret_headers(stored);
    replaced(edited, |name, value| {
        let known = known.iter().find(|(known, _)| known == name);
        known
            .filter(|_| value == REDACTED)
            .map(|(_, value)| value.get())
    })
}

/// The payload with other values of secret headers; `None` if none is replaced.
fn replaced<'a>(payload: &str, replace: impl Fn(&str, &str) -> Option<&'a str>) -> Option<String> {
    let mut text = String::new();
    let mut copied = 0;
    for (name, value) in secret_headers(payload) {
        let Some(other) = replace(&name, value.get()) else {
            continue;
        };
        // It was borrowed from the payload.
        let start = value.get().as_ptr() as usize - payload.as_ptr() as usize;
        text.push_str(&payload[copied..start]);
        text.push_str(other);
        copied = start + value.get().len();
    }
    (copied > 0).then(|| text + &payload[copied..])
}

/// In the order of the payload.
fn secret_headers(payload: &str) -> Vec<SecretHeader<'_>> {
    serde_json::from_str(payload).map_or_else(|_| Vec::new(), |Payload(found)| found)
}

/// The secret headers of a payload that is an object.
struct Payload<'a>(Vec<SecretHeader<'a>>);

/// Those of its object of headers.
struct Headers<'a>(Vec<SecretHeader<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Payload<'a> {
    fn deserialize<D: Deserializer<'de>>(payload: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Payload<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    if name == "headers" {
                        // Anything but an object has no headers.
                        let headers: &'de RawValue = map.next_value()?;
                        let headers = serde_json::from_str(headers.get());
                        found.extend(headers.map_or_else(|_| Vec::new(), |Headers(found)| found));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Payload(found))
            }
        }

        payload.deserialize_map(Fields)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(headers: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Headers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<_, &'de RawValue>()? {
                    let name = name.to_ascii_lowercase();
                    if SECRET_HEADERS.contains(&&*name) {
                        found.push((name, value));
                    }
                }
                Ok(Headers(found))
            }
        }

        headers.deserialize_map(Pairs)
    }
}

/// A key, which may have escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_shows_no_credentials() {
        for (payload, shown) in [
            (
                r#"{"url":"http://a/","headers":{"Authorization":"Bearer hunter2","x":"y"},"n":1.50}"#,
                r#"{"url":"http://a/","headers":{"Authorization":"[redacted]","x":"y"},"n":1.50}"#,
            ),
            (
                r#"{"headers" : { "COOKIE" :"a=\"1" , "authori\u007aation": "b"}, "body":{"headers":{"cookie":"c"}}}"#,
                r#"{"headers" : { "COOKIE" :"[redacted]" , "authori\u007aation": "[redacted]"}, "body":{"headers":{"cookie":"c"}}}"#,
            ),
            // Of several, the last is sent; none is shown.
            (
                r#"{"headers":{"cookie":"a","cookie":"b"},"headers":{"x-api-key":["c"]}}"#,
                r#"{"headers":{"cookie":"[redacted]","cookie":"[redacted]"},"headers":{"x-api-key":"[redacted]"}}"#,
            ),
            (r#"{"headers":"cookie"}"#, r#"{"headers":"cookie"}"#),
            (
                r#"[{"headers":{"cookie":"a"}}]"#,
                r#"[{"headers":{"cookie":"a"}}]"#,
            ),
            ("7", "7"),
        ] {
            assert_eq!(redacted(payload.to_owned()), shown);
        }
    }

    #[test]
    fn an_edit_keeps_what_it_was_not_shown() {
        let stored = r#"{"headers":{"Authorization":"Bearer hunter2"},"n":1}"#;
        let edited = r#"{"headers":{"authorization":"[redacted]","cookie":"[redacted]"},"n":2}"#;
        assert_eq!(
            restored(edited, stored).unwrap(),
            r#"{"headers":{"authorization":"Bearer hunter2","cookie":"[redacted]"},"n":2}"#
        );
        let other = r#"{"headers":{"authorization":"Bearer other"}}"#;
        assert_eq!(restored(other, stored), None);
    }
}
