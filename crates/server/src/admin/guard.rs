//! The permissions that the admin listener's routes require.
//!
//! Over TCP they require a token, except `/healthz`, `/readyz`, and `/metrics` of a listener on a loopback address.
//! Over the Unix socket everything is allowed.

use std::{sync::Arc, time::Duration};

use abide_runtime::ObjectId;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::Method;

use super::target;
use crate::{
    ApiError,
    access::{Need, Role, Route, protect},
    extract::read_whole,
    limits,
    readiness::Readiness,
    site::Site,
};

/// Admits requests of authorized callers.
pub(super) fn operators(
    router: Router,
    readiness: Arc<Readiness>,
    body_timeout: Duration,
) -> Router {
    let router = router.route_layer(middleware::from_fn_with_state(body_timeout, whole_body));
    streamed(router, readiness)
}

/// Admits requests of authorized callers, whose bodies their handlers read piece by piece.
pub(super) fn streamed(router: Router, readiness: Arc<Readiness>) -> Router {
    let of_access = Arc::clone(&readiness);
    let access = move || of_access.access().ok_or_else(target::unavailable);
    protect(router, access, move |route| need(route, &readiness))
}

fn need(route: &Route<'_>, readiness: &Readiness) -> Need {
    let need = match route.path.rsplit('/').next() {
        _ if matches!(*route.method, Method::GET | Method::HEAD) => Need::role(Role::Read),
        _ if route.path.contains("/components/") => of_component(route),
        Some("rerun") => Need::role(Role::Operate).audited("rerun_alarm"),
        Some("restore") => Need::role(Role::Admin).audited("restore").with_body(),
        Some("fork") => Need::role(Role::Admin).audited("fork").with_body(),
        Some("cuts") => Need::role(Role::Admin).audited("export"),
        Some("import") => Need::role(Role::Admin).audited("import"),
        Some("export") => Need::role(Role::Admin).audited("export").with_body(),
        Some("activate") => Need::role(Role::Admin).audited("activate").with_body(),
        Some("repair") => Need::role(Role::Admin).audited("repair").with_body(),
        _ => Need::role(Role::Admin).audited("change"),
    };
    match (route.param("class"), route.param("object")) {
        ("", _) => need,
        (class, object) => {
            let class = unique_key(class, readiness);
            if object.parse::<ObjectId>().is_ok() {
                need.object_by_id(&class, object)
            } else {
                need.object(&class, object)
            }
        }
    }
}

/// A change made through a component.
fn of_component(route: &Route<'_>) -> Need {
    audited_for_component(Need::role(Role::Operate), route)
}

/// The audit log says which operation of which component it was.
fn audited_for_component(need: Need, route: &Route<'_>) -> Need {
    need.audited("operate_component").detail(format!(
        "{} {}/{}",
        route.method,
        route.param("component"),
        route.param("operation")
    ))
}

/// The class identifier used in tokens, whatever the request uses; the request's own if there is no such class.
fn unique_key(class: &str, readiness: &Readiness) -> String {
    let node = readiness.parts().map(|(_, node)| node);
    let known = node.and_then(|node| target::class(&node, class).ok());
    known.map_or_else(|| class.to_owned(), |known| known.unique_key().to_owned())
}

/// Reads the whole body of an authorized request, so that the operation itself never waits for a stalled client.
async fn whole_body(
    State(patience): State<Duration>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let body = read_whole(body, limits::ADMIN_BODY_BYTES, patience).await?;
    Ok(next.run(Request::from_parts(head, body.into())).await)
}

/// Rejects requests that another site may have made a browser send.
pub(super) async fn site(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (mut head, body) = request.into_parts();
    site.check(&mut head)?;
    Ok(next.run(Request::from_parts(head, body)).await)
}
