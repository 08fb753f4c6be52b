//! What operators see: a dashboard and the state in JSON.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /.waiting-room` | the dashboard of all rooms |
//! | `GET /.waiting-room/live` | its inner part, which it asks for every other second |
//! | `GET /.waiting-room/status` | the state in JSON |
//!
//! Who may is the host's business (`server.access`): on a loopback address everybody, elsewhere whoever has a token.

use std::{collections::BTreeMap, sync::Arc};

use abide::server::{
    ApiError, Page,
    access::{Access, Need},
};
use axum::{
    Json, Router,
    extract::State,
    response::{Html, IntoResponse},
    routing::get,
};
use http::header;
use serde_json::{Value, json};

use super::Edge;
use crate::{logic::minute::Minute, pages, room::Room};

pub(super) fn router(edge: &Arc<Edge>) -> Router {
    let router = Router::new()
        .route("/.waiting-room", get(dashboard))
        .route("/.waiting-room/live", get(live))
        .route("/.waiting-room/status", get(status))
        .with_state(Arc::clone(edge));
    Access::of(&edge.env).protect(router, |route| Need::by_method(route.method))
}

async fn dashboard(State(edge): State<Arc<Edge>>) -> Result<Page, ApiError> {
    let page = pages::dashboard::page(edge.rooms().await?);
    Ok(Page::new(page.into_string(), pages::dashboard::POLICY))
}

async fn live(State(edge): State<Arc<Edge>>) -> Result<impl IntoResponse, ApiError> {
    let rooms = pages::dashboard::rooms(edge.rooms().await?);
    Ok((
        [(header::CACHE_CONTROL, "no-store")],
        Html(rooms.into_string()),
    ))
}

async fn status(State(edge): State<Arc<Edge>>) -> Result<Json<Value>, ApiError> {
    let rooms = edge.rooms().await?.iter().map(|room| describe(room));
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
        "holds_everybody": plan.rules.holds_everybody,
        "active": state.active,
        "queued": state.waiting(),
        "slots": plan.slots,
        "admitted_this_minute": state.admitted(),
        "admissions_per_minute": state.admissions_per_minute,
        "buckets": buckets.collect::<Vec<_>>(),
        "data_centres": centres.collect::<Vec<_>>(),
    })
}
