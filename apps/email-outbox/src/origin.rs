//! No other site acts in a visitor's name.
//!
//! Contract: a request that changes something, or opens a WebSocket, and that a browser sends for a page of another site
//! is refused. Browsers say where a request comes from (`Sec-Fetch-Site`, `Origin`); programs that are no browsers
//! need not.

use abide::server::ApiError;
use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::Next,
    response::Response,
};

/// Refuses what another site's page sends.
pub(crate) async fn guard(request: Request, next: Next) -> Result<Response, ApiError> {
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.headers().contains_key(header::UPGRADE);
    if only_reads || is_own(request.headers(), request.uri()) {
        return Ok(next.run(request).await);
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "cross_site",
        "A page of another site has sent this. Use the outbox's own pages.",
    ))
}

fn is_own(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text("origin") else {
        return true;
    };
    let host = text("host").or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    authority.is_some() && authority == host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_sends_for_another_site_is_not_our_own() {
        let cases: [(&[(&str, &str)], bool); 8] = [
            (&[], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (
                &[("origin", "https://mail.example"), ("host", "mail.example")],
                true,
            ),
            (
                &[("origin", "https://evil.example"), ("host", "mail.example")],
                false,
            ),
            (&[("origin", "null"), ("host", "mail.example")], false),
        ];
        for (headers, own) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            assert_eq!(is_own(&map, &Uri::from_static("/")), own, "{headers:?}");
        }
    }
}
