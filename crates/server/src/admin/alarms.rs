//! `/alarms`: what will go off, what was given up, and another try for that.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /alarms?state=pending` or `failed`, `&limit=`, `&after=` | 200 and `{"alarms":[{"class","id","due","attempts"}…],"next":…}` |
//! | `POST /alarms/{class}/{object}/rerun` | 204, or 404 `no_failed_alarm` |
//!
//! Alarms come by time; `due` is milliseconds since 1970; `next`, if not null, is the `after` of the next page. An object
//! is named by its id or its name. The answer to a rerun leaves when it is on disk.

use std::sync::Arc;

use abide_runtime::{AlarmListing, ErrorKind, ObjectId, limits::MAX_LISTED_ALARMS};
use abide_storage::{AlarmCursor, AlarmState, NamespaceNo, ObjectKey};
use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::target;
use crate::{ApiError, UrlPath, UrlQuery, readiness::Readiness};

/// Alarms of a page if the client does not say.
const DEFAULT_PAGE: usize = 100;

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    Router::new()
        .route("/alarms", get(list))
        .route("/alarms/{class}/{object}/rerun", post(rerun))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    state: Wanting,
    limit: Option<usize>,
    after: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanting {
    #[default]
    Pending,
    Failed,
}

#[derive(Serialize)]
struct Page {
    alarms: Vec<Listed>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    class: String,
    id: String,
    due: i64,
    attempts: u32,
}

async fn list(
    State(readiness): State<Arc<Readiness>>,
    UrlQuery(wanted): UrlQuery<Wanted>,
) -> Result<Json<Page>, ApiError> {
    let node = target::node(&readiness)?;
    let limit = wanted.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_LISTED_ALARMS).contains(&limit) {
        return Err(ApiError::bad_request(
            "invalid_query",
            format!("limit is from 1 to {MAX_LISTED_ALARMS}."),
        ));
    }
    let after = wanted.after.as_deref().map(read_place).transpose()?;
    let state = match wanted.state {
        Wanting::Pending => AlarmState::Pending,
        Wanting::Failed => AlarmState::Failed,
    };
    let alarms = node.alarms(state, after, limit);
    let next = alarms
        .last()
        .filter(|_| alarms.len() == limit)
        .map(|last| write_place(last.place));
    Ok(Json(Page {
        alarms: alarms.into_iter().map(Listed::from).collect(),
        next,
    }))
}

impl From<AlarmListing> for Listed {
    fn from(alarm: AlarmListing) -> Self {
        Self {
            class: alarm.class,
            id: alarm.id.to_string(),
            due: alarm.due.unix_millis(),
            attempts: alarm.attempts,
        }
    }
}

fn write_place((due, key): AlarmCursor) -> String {
    format!("{due}.{}.{}", key.namespace.0, key.id_hex())
}

fn read_place(text: &str) -> Result<AlarmCursor, ApiError> {
    let read = || {
        let mut parts = text.splitn(3, '.');
        let due = parts.next()?.parse().ok()?;
        let namespace = NamespaceNo(parts.next()?.parse().ok()?);
        let id = *parts.next()?.parse::<ObjectId>().ok()?.as_bytes();
        Some((due, ObjectKey { namespace, id }))
    };
    read().ok_or_else(|| {
        ApiError::bad_request(
            "invalid_query",
            "after is what an earlier answer had as next.",
        )
    })
}

async fn rerun(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): UrlPath<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    match node.rerun_alarm(&object).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(ApiError::not_found(
            "no_failed_alarm",
            "The object has no alarm that was given up; GET /alarms?state=failed lists those there are.",
        )),
        Err(error) => Err(error.into()),
    }
}
