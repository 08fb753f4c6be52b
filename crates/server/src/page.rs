//! HTML pages with the headers that every page needs.

use std::borrow::Cow;

use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, header};

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
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy);
        for (name, value) in [
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
