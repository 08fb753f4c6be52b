//! HTML pages with the headers that every page needs.

use std::{
    borrow::Cow,
    future::{Ready, ready},
};

use axum::response::{Html, IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};

/// An HTML page, as a response of a handler: with its content security policy, `X-Content-Type-Options: nosniff` and
/// `Referrer-Policy: same-origin`.
///
/// ```
/// use abide_server::Page;
///
/// async fn page() -> Page {
///     Page::new("<!doctype html><title>Seats</title>", "default-src 'none'; style-src 'self'")
/// }
/// # axum::Router::<()>::new().route("/", axum::routing::get(page));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    html: Cow<'static, str>,
    policy: HeaderValue,
}

impl Page {
    /// A page with this content and content security policy. A policy that is not a header's value allows nothing.
    pub fn new(html: impl Into<Cow<'static, str>>, policy: &str) -> Self {
        let nothing = HeaderValue::from_static("default-src 'none'");
        Self {
            html: html.into(),
            policy: HeaderValue::from_str(policy).unwrap_or(nothing),
        }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = Html(self.html).into_response();
        protect(response.headers_mut(), self.policy);
        response
    }
}

/// Adds the headers of a [`Page`] to all responses of a router of pages, and `Cache-Control: no-store` to those without
/// `Cache-Control`:
///
/// ```
/// use abide_server::page_headers;
/// use axum::{middleware::map_response, response::Html, routing::get};
///
/// let pages = axum::Router::<()>::new()
///     .route("/", get(async || Html("<!doctype html><title>Seats</title>")))
///     .layer(map_response(page_headers("default-src 'none'; style-src 'self'")));
/// ```
///
/// # Panics
/// When a response is made, if the policy has characters that a header's value cannot have.
pub fn page_headers(
    policy: &'static str,
) -> impl Fn(Response) -> Ready<Response> + Clone + Send + Sync + 'static {
    move |mut response| {
        let headers = response.headers_mut();
        protect(headers, HeaderValue::from_static(policy));
        let uncached = HeaderValue::from_static("no-store");
        headers.entry(header::CACHE_CONTROL).or_insert(uncached);
        ready(response)
    }
}

fn protect(headers: &mut HeaderMap, policy: HeaderValue) {
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "default-src 'none'";

    async fn headers_of(response: Response) -> HeaderMap {
        page_headers(POLICY)(response).await.headers().clone()
    }

    #[tokio::test]
    async fn a_page_is_protected_and_not_cached_unless_it_says_otherwise() {
        let headers = headers_of("a page".into_response()).await;
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], POLICY);
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::REFERRER_POLICY], "same-origin");
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
        let cached = ([(header::CACHE_CONTROL, "no-cache")], "a picture");
        let headers = headers_of(cached.into_response()).await;
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
    }
}
