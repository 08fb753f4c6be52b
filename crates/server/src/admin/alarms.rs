//! `/alarms`: lists pending, failing and failed alarms, and reruns them.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /alarms?state=pending`, `failing` or `failed`, `&limit=`, `&after=` | 200 and `{"alarms":[{"class","id","alarm","due","attempts"}…],"next":…}` |
//! | `POST /alarms/{class}/{object}/rerun`, `?alarm=` | 204, or 404 `no_failed_alarm` |
//!
//! Objects are listed in the order of their first alarm, with at most 100 alarms each; `limit` counts objects. `alarm`
//! is the name of a named alarm; `due` is milliseconds since 1970; `next`, if not null, is the `after` of the next
//! page. Failing and failed alarms also have `error` and `crashes`, if their objects report them in time. An object is
//! given by its id or its name. A rerun applies to all alarms that are failing or were given up, or to the named one;
//! it is on disk before the response is sent.

use std::sync::Arc;

use abide_runtime::{
    AlarmListing, AlarmStatus, ErrorKind, Node, ObjectId, limits::MAX_LISTED_ALARMS,
};
use abide_storage::{AlarmCursor, AlarmState, NamespaceNo, ObjectKey};
use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::target;
use crate::{ApiError, UrlPath, UrlQuery, limits::ALARM_TROUBLES_LIMIT, readiness::Readiness};

/// The default number of objects on a page.
const DEFAULT_PAGE: usize = 100;

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    Router::new()
        .route("/alarms", get(list))
        .route("/alarms/{class}/{object}/rerun", post(rerun))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    #[serde(default)]
    state: StateFilter,
    limit: Option<usize>,
    after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RerunQuery {
    alarm: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StateFilter {
    #[default]
    Pending,
    Failing,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm: Option<String>,
    due: i64,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    crashes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn list(
    State(readiness): State<Arc<Readiness>>,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<Page>, ApiError> {
    let node = target::node(&readiness)?;
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_LISTED_ALARMS).contains(&limit) {
        return Err(ApiError::bad_request(
            "invalid_query",
            format!("limit must be from 1 to {MAX_LISTED_ALARMS}."),
        ));
    }
    let after = query.after.as_deref().map(read_place).transpose()?;
    let state = match query.state {
        StateFilter::Pending => AlarmState::Pending,
        StateFilter::Failing => AlarmState::Failing,
        StateFilter::Failed => AlarmState::Failed,
    };
    let alarms = node.alarms(state, after, limit);
    let next = alarms
        .last()
        .filter(|_| alarms.len() == limit)
        .map(|last| write_place(last.place));
    // One time limit for all: an object on a blocked worker does not answer.
    let until = Instant::now() + ALARM_TROUBLES_LIMIT;
    let mut listed = Vec::with_capacity(alarms.len());
    for alarm in alarms {
        // Details that the index does not have.
        let is_asked = alarm.named || state != AlarmState::Pending;
        let of_object = if is_asked {
            timeout_at(until, told(&node, &alarm, state)).await.ok()
        } else {
            None
        };
        match of_object.flatten() {
            Some(told) => listed.extend(told.into_iter().map(|status| {
                let class = alarm.class.clone();
                Listed::told(class, alarm.id.to_string(), status, state)
            })),
            None => listed.push(Listed::known(alarm)),
        }
    }
    Ok(Json(Page {
        alarms: listed,
        next,
    }))
}

/// The object's report of its alarms in this state, if available.
async fn told(node: &Node, alarm: &AlarmListing, state: AlarmState) -> Option<Vec<AlarmStatus>> {
    let object = target::object(node, &alarm.class, &alarm.id.to_string()).ok()?;
    let all = node.alarms_of(&object).await.ok()?;
    let listed = AlarmStatus::listed(all, state);
    // It may have changed in the meantime.
    (!listed.is_empty()).then_some(listed)
}

impl Listed {
    /// The index's data.
    fn known(alarm: AlarmListing) -> Self {
        Self {
            class: alarm.class,
            id: alarm.id.to_string(),
            alarm: None,
            due: alarm.due.unix_millis(),
            attempts: alarm.attempts,
            crashes: None,
            error: None,
        }
    }

    fn told(class: String, id: String, status: AlarmStatus, state: AlarmState) -> Self {
        let has_troubles = state != AlarmState::Pending;
        Self {
            class,
            id,
            alarm: status.name.map(|name| name.to_string()),
            due: status.due.unix_millis(),
            attempts: status.attempts,
            crashes: has_troubles.then_some(status.crashes),
            error: status.error.filter(|_| has_troubles),
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
            "after must be the `next` of an earlier response.",
        )
    })
}

async fn rerun(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): UrlPath<(String, String)>,
    UrlQuery(query): UrlQuery<RerunQuery>,
) -> Result<StatusCode, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    match node.rerun_alarm(&object, query.alarm.as_deref()).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(ApiError::not_found(
            "no_failed_alarm",
            "The object has no alarm that was given up or waits for a retry; GET /alarms?state=failed and ?state=failing list such alarms.",
        )),
        Err(error) => Err(error.into()),
    }
}
