//! Errors of serde and axum in the terms of JSON: clients know nothing of Rust's types.

/// The reason why a body, a path or a query does not have the expected form.
pub(crate) fn plain(text: &str) -> String {
    if let Some((what, wanted)) = text.rsplit_once(", expected ") {
        let (wanted, place) = match wanted.find(" at line ") {
            Some(at) => wanted.split_at(at),
            None => (wanted, ""),
        };
        return format!("{}, expected {}{place}", found(what), expected(wanted));
    }
    // Of a path.
    if let Some((what, wanted)) = text.rsplit_once(" to a `") {
        let wanted = expected(wanted.trim_end_matches('`'));
        return format!("{what}: it must be {wanted}");
    }
    if let Some((before, after)) =
        text.split_once("data did not match any variant of untagged enum ")
    {
        let after = after.find(" at line ").map_or("", |at| &after[at..]);
        return format!("{before}it has none of the documented forms{after}");
    }
    // Of a number in a query.
    let numbers = [
        ("invalid digit found in string", "it must be an integer"),
        (
            "cannot parse integer from empty string",
            "it must be an integer",
        ),
        (
            "number too large to fit in target type",
            "the integer is too large",
        ),
        (
            "number too small to fit in target type",
            "the integer is too small",
        ),
        ("invalid float literal", "it must be a number"),
    ];
    for (rust, words) in numbers {
        if let Some(place) = text.strip_suffix(rust) {
            return format!("{place}{words}");
        }
    }
    text.to_owned()
}

/// What was found: `invalid type: map`.
fn found(what: &str) -> String {
    let names = [
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: array"),
        ("invalid type: unit value", "invalid type: null"),
    ];
    for (rust, words) in names {
        if what.ends_with(rust) {
            return what.replace(rust, words);
        }
    }
    what.replace("floating point `", "number `")
}

/// What was expected.
fn expected(wanted: &str) -> String {
    let words = match wanted {
        "i8" => return integer(i8::MIN, i8::MAX),
        "i16" => return integer(i16::MIN, i16::MAX),
        "i32" => return integer(i32::MIN, i32::MAX),
        "i64" | "isize" => return integer(i64::MIN, i64::MAX),
        "i128" => return integer(i128::MIN, i128::MAX),
        "u8" => return integer(0, u8::MAX),
        "u16" => return integer(0, u16::MAX),
        "u32" => return integer(0, u32::MAX),
        "u64" | "usize" => return integer(0, u64::MAX),
        "u128" => return integer(0, u128::MAX),
        "f32" | "f64" => "a number",
        "bool" => "a boolean",
        "a borrowed string" | "variant identifier" | "field identifier" | "string or map"
        | "String" | "str" => "a string",
        "a sequence" => "an array",
        "a map" => "an object",
        "unit" => "null",
        _ if wanted.starts_with("struct ") => "an object",
        _ if wanted.starts_with("tuple struct ") || wanted.starts_with("a tuple") => "an array",
        _ if wanted.contains("enum ") => "one of the documented forms",
        _ if wanted.starts_with("unit struct ") => "null",
        _ => wanted,
    };
    words.to_owned()
}

fn integer(least: impl std::fmt::Display, most: impl std::fmt::Display) -> String {
    format!("an integer from {least} to {most}")
}

#[cfg(test)]
mod tests {
    use axum::extract::{FromRequestParts, Path, Query};
    use serde::{Deserialize, de::DeserializeOwned};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read from text")]
    struct Order {
        #[serde(default)]
        amount: i64,
        #[serde(default)]
        count: u8,
        #[serde(default)]
        price: f64,
        #[serde(default)]
        lines: Vec<Kind>,
        #[serde(default)]
        pair: (u8, u8),
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Book,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "only read from text")]
    enum Either {
        Number(u8),
        Text(String),
    }

    fn told<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
        let refused = crate::strict_json::from_slice::<T>(json.as_bytes());
        plain(&refused.unwrap_err().to_string())
    }

    #[test]
    fn a_body_is_refused_in_the_terms_of_json() {
        for (json, expected) in [
            (
                "[]",
                "invalid type: array, expected an object at line 1 column 0",
            ),
            (
                "7",
                "invalid type: integer `7`, expected an object at line 1 column 1",
            ),
            (
                r#"{"amount":"7"}"#,
                "invalid type: string \"7\", expected an integer from -9223372036854775808 to 9223372036854775807 at line 1 column 13",
            ),
            (
                r#"{"count":-1}"#,
                "invalid value: integer `-1`, expected an integer from 0 to 255 at line 1 column 11",
            ),
            (
                r#"{"amount":1.5}"#,
                "invalid type: number `1.5`, expected an integer from -9223372036854775808 to 9223372036854775807 at line 1 column 13",
            ),
            (
                r#"{"price":{}}"#,
                "invalid type: object, expected a number at line 1 column 9",
            ),
            (
                r#"{"lines":{}}"#,
                "invalid type: object, expected an array at line 1 column 9",
            ),
            (
                r#"{"lines":["pen"]}"#,
                "unknown variant `pen`, expected `book` at line 1 column 15",
            ),
            (
                r#"{"pair":1}"#,
                "invalid type: integer `1`, expected an array at line 1 column 9",
            ),
        ] {
            let told = told::<Order>(json);
            assert!(told.starts_with(expected), "{json}: {told}");
        }
        assert_eq!(told::<Either>("[]"), "it has none of the documented forms");
    }

    #[tokio::test]
    async fn a_path_and_a_query_are_refused_in_the_terms_of_json() {
        let (mut parts, ()) = http::Request::builder()
            .uri("/?count=300")
            .body(())
            .unwrap()
            .into_parts();
        let refused = Query::<Order>::from_request_parts(&mut parts, &())
            .await
            .unwrap_err();
        let told = plain(&refused.body_text());
        assert!(told.ends_with("count: the integer is too large"), "{told}");
        let router = axum::Router::new().route(
            "/{id}",
            axum::routing::get(|path: Result<Path<i64>, _>| async move {
                let refused: axum::extract::rejection::PathRejection = path.unwrap_err();
                plain(&refused.body_text())
            }),
        );
        let request = http::Request::get("/abc")
            .body(axum::body::Body::empty())
            .unwrap();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        let text = http_body_util::BodyExt::collect(answer.into_body())
            .await
            .unwrap()
            .to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(
            text.ends_with(
                "it must be an integer from -9223372036854775808 to 9223372036854775807"
            ),
            "{text}"
        );
    }
}
