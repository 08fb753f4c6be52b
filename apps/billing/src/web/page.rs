//! A page as an answer.

use abide::server::ApiError;
use axum::{
    http::{HeaderValue, header},
    response::{Html, IntoResponse, Response},
};
use maud::Markup;

use crate::pages;

/// The pages load their own style and nothing else.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// An error as a page.
pub(super) struct Failed(ApiError);

impl<E: Into<ApiError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let page = pages::error(status, self.0.message());
        (status, html(page)).into_response()
    }
}

pub(super) fn html(page: Markup) -> Html<String> {
    Html(page.into_string())
}

/// No browser guesses what a response is, be it a page or JSON.
pub(super) async fn not_sniffed(mut response: Response) -> Response {
    let nosniff = HeaderValue::from_static("nosniff");
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
