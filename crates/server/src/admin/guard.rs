//! What keeps web pages from changing anything here.
//!
//! The admin listener has no login. What a page of another site makes a browser on the same machine send is refused, also if
//! the site's own name leads here ([`Site`]). And a page can send requests, but not with a header of its own choice unless
//! the listener allows it, which it never does: whatever is not a mere question must carry `x-abide-admin: 1`.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{Method, StatusCode};

use crate::{ApiError, site::Site};

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

/// Refuses what another site may have made a browser send.
pub(super) async fn site(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    site.check(&head)?;
    Ok(next.run(Request::from_parts(head, body)).await)
}
