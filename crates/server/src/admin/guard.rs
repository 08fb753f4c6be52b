//! What the admin listener's routes need of their callers.
//!
//! Over TCP that is a token, except for `/healthz`, `/readyz`, and `/metrics` of a listener on a loopback address. Whoever may
//! open the Unix socket may do everything.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::Method;

use super::target;
use crate::{
    ApiError,
    access::{Need, Role, Route, protect},
    readiness::Readiness,
    site::Site,
};

/// Lets requests of those through who may send them.
pub(super) fn operators(router: Router, readiness: Arc<Readiness>) -> Router {
    let access = move || readiness.access().ok_or_else(target::unavailable);
    protect(router, access, need)
}

fn need(route: &Route<'_>) -> Need {
    let need = match route.path.rsplit('/').next() {
        _ if matches!(*route.method, Method::GET | Method::HEAD) => Need::role(Role::Read),
        _ if route.path.contains("/components/") => Need::role(Role::Operate)
            .audited("operate_component")
            .detail(format!(
                "{} {}/{}",
                route.method,
                route.param("component"),
                route.param("operation")
            )),
        Some("rerun") => Need::role(Role::Operate).audited("rerun_alarm"),
        Some("restore") => Need::role(Role::Admin).audited("restore").with_body(),
        Some("fork") => Need::role(Role::Admin).audited("fork").with_body(),
        Some("repair") => Need::role(Role::Admin).audited("repair").with_body(),
        _ => Need::role(Role::Admin).audited("change"),
    };
    match (route.param("class"), route.param("object")) {
        ("", _) => need,
        (class, object) => need.object(class, object),
    }
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
