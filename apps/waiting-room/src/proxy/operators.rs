//! What operators see: a dashboard and the state in JSON.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /.waiting-room` | the dashboard of all rooms |
//! | `GET /.waiting-room/live` | its inner part, which it asks for every other second |
//! | `GET /.waiting-room/status` | the state in JSON |
//! | `POST /.waiting-room/reload` | reads the settings again; 400 `settings_refused` if they cannot be used, and the old ones stay |
//!
//! The setting `server.access` decides who may: on a loopback address every client, elsewhere clients with a token. Pages of other
//! origins may not, and on the host of a room, where visitors are, these pages exist only if `server.access` is `token`.

use std::{collections::BTreeMap, sync::Arc};

use abide::server::{
    ApiError, Page, RequestHost,
    access::{Access, Need},
};
use axum::{
    Json, Router,
    extract::{FromRequestParts, Request, State},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use http::{Method, StatusCode, header, request::Parts};
use serde_json::{Value, json};

use super::{Edge, ReloadError};
use crate::{logic::minute::Minute, pages, room::Room};

pub(super) fn router(edge: &Arc<Edge>) -> Router {
    let router = Router::new()
        .route("/.waiting-room", get(dashboard))
        .route("/.waiting-room/live", get(live))
        .route("/.waiting-room/status", get(status))
        .route("/.waiting-room/reload", post(reload))
        .with_state(Arc::clone(edge));
    let router = Access::of(&edge.env).protect(router, |route| Need::by_method(route.method));
    router.layer(middleware::from_fn_with_state(Arc::clone(edge), checked))
}

/// Rejects requests that strangers may have sent, or made a browser send.
async fn checked(
    State(edge): State<Arc<Edge>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    let host = Option::<RequestHost>::from_request_parts(&mut parts, &()).await?;
    let front = &edge.front;
    if host
        .as_ref()
        .is_some_and(|host| !front.needs_token && !front.hosts.contain(host))
    {
        return Err(super::no_such_page());
    }
    let serving = edge.serving().await?;
    let is_of_visitors = match &host {
        Some(host) => serving.settings.names_host(host),
        None => serving.settings.names_hosts(),
    };
    if is_of_visitors && !front.needs_token {
        return Err(super::no_such_page());
    }
    if is_foreign(&parts, host.as_ref()) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "cross_origin",
            "A web page of another origin made this request. Send it from this server's own pages, or with a program such as curl.",
        ));
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Whether a page of another origin made a browser send a request that changes something.
fn is_foreign(parts: &Parts, host: Option<&RequestHost>) -> bool {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return false;
    }
    let site = parts.headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let mut origins = parts.headers.get_all(header::ORIGIN).iter();
    origins.any(|origin| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        let origin = origin.and_then(|(_, of)| of.parse::<RequestHost>().ok());
        origin.is_none() || origin.as_ref() != host
    })
}

async fn reload(State(edge): State<Arc<Edge>>) -> Result<Json<Value>, ApiError> {
    match edge.reload().await {
        Ok(()) => Ok(Json(json!({ "status": "reloaded" }))),
        Err(ReloadError::Rooms(error)) => Err(error.into()),
        Err(error) => Err(ApiError::bad_request(
            "settings_refused",
            format!("The old settings hold, because the new ones were refused: {error}."),
        )),
    }
}

async fn dashboard(State(edge): State<Arc<Edge>>) -> Result<Page, ApiError> {
    let page = pages::dashboard::page(&edge.serving().await?.rooms);
    Ok(Page::new(page.into_string(), pages::dashboard::POLICY))
}

async fn live(State(edge): State<Arc<Edge>>) -> Result<impl IntoResponse, ApiError> {
    let rooms = pages::dashboard::rooms(&edge.serving().await?.rooms);
    Ok((
        [(header::CACHE_CONTROL, "no-store")],
        Html(rooms.into_string()),
    ))
}

async fn status(State(edge): State<Arc<Edge>>) -> Result<Json<Value>, ApiError> {
    let serving = edge.serving().await?;
    let rooms = serving.rooms.iter().map(|room| describe(room));
    Ok(Json(json!({ "rooms": rooms.collect::<Vec<_>>() })))
}

fn describe(room: &Room) -> Value {
    let Some(plan) = room.plan() else {
        return json!({ "name": room.settings.name });
    };
    let state = &plan.state;
    let mut buckets: BTreeMap<Minute, (u64, u64)> = BTreeMap::new();
    for bucket in &state.buckets {
        let minute = buckets.entry(bucket.id.minute()).or_default();
        minute.0 += bucket.waiting;
        minute.1 += bucket.eligible_slots;
    }
    let buckets = buckets.iter().map(|(minute, (waiting, eligible))| {
        json!({ "minute": minute, "waiting": waiting, "eligible_slots": eligible })
    });
    let centres = state.reports.iter().map(|report| {
        json!({
            "name": report.data_centre,
            "active": report.active,
            "queued": report.waiting.values().sum::<u64>(),
            "workers": report.workers,
        })
    });
    json!({
        "name": room.settings.name,
        "total_active_users": plan.rules.limits.total_active_users,
        "new_users_per_minute": plan.rules.limits.new_users_per_minute,
        "holds_all": plan.rules.holds_all,
        "active": state.active,
        "queued": state.waiting(),
        "slots": plan.slots,
        "admitted_this_minute": state.admitted(),
        "admissions_per_minute": state.admissions_per_minute,
        "buckets": buckets.collect::<Vec<_>>(),
        "data_centres": centres.collect::<Vec<_>>(),
    })
}
