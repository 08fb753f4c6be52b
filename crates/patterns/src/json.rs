//! JSON in requests.

use abide::server::{ApiError, JsonBody};
use axum::{
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use serde::de::DeserializeOwned;

/// A request's body that says that it is JSON: `application/json`, or a type that ends with `+json`. Anything else is refused with
/// 415 `unsupported_media_type`, and the rest as [`JsonBody`] refuses it.
///
/// A web page can make a browser send any text to any server, but only as one of the types of a form. What must be said to be JSON
/// it cannot send without asking the server first.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonOnly<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonOnly<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !says_json(request.headers()) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "The body is JSON, and the request must say so: Content-Type: application/json.",
            ));
        }
        let JsonBody(value) = JsonBody::from_request(request, state).await?;
        Ok(Self(value))
    }
}

fn says_json(headers: &HeaderMap) -> bool {
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
            says_json(&headers)
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
