//! What keeps web pages from changing anything here.
//!
//! The admin listener has no login. A page in a browser on the same machine can send it requests, but not with a header
//! of its own choice unless the listener allows it, which it never does. So whatever is not a mere question must carry
//! `x-abide-admin: 1`.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{Method, StatusCode};

use crate::ApiError;

/// The header that a change must carry.
const HEADER: &str = "x-abide-admin";

/// Refuses changes without the header.
pub(super) async fn changes(request: Request, next: Next) -> Result<Response, ApiError> {
    let asks = matches!(*request.method(), Method::GET | Method::HEAD);
    if asks || request.headers().get(HEADER).is_some_and(|one| one == "1") {
        return Ok(next.run(request).await);
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "admin_header_missing",
        format!(
            "What changes something here needs the header `{HEADER}: 1`; web pages cannot send it."
        ),
    ))
}
