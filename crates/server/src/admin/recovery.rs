//! `/objects`: bringing objects back to an earlier moment.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /objects/{class}/{object}/bookmark`, `?at=` | 200 and `{"bookmark"}`: of the last commit at or before a time; without one, now |
//! | `POST /objects/{class}/{object}/restore` with `{"time"}` or `{"bookmark"}` | 200 and `{"undo"}`: the bookmark that undoes it |
//! | `POST /objects/{class}/{object}/fork` with the same and `"name"` | 200 and `{"id"}`: of the new object |
//!
//! Times are milliseconds since 1970. An object is named by its id or its name. What was changed is on disk before the
//! answer leaves.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use abide_runtime::Moment;
use abide_storage::Bookmark;
use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use super::target;
use crate::{ApiError, JsonBody, UrlPath, UrlQuery, readiness::Readiness};

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    Router::new()
        .route("/objects/{class}/{object}/bookmark", get(bookmark))
        .route("/objects/{class}/{object}/restore", post(restore))
        .route("/objects/{class}/{object}/fork", post(fork))
}

type Named = UrlPath<(String, String)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    at: Option<u64>,
}

#[derive(Serialize)]
struct Marked {
    bookmark: Bookmark,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Time(u64),
    Bookmark(Bookmark),
}

#[derive(Serialize)]
struct Restored {
    undo: Bookmark,
}

#[derive(Deserialize)]
struct Fork {
    #[serde(flatten)]
    at: Wanted,
    name: String,
}

#[derive(Serialize)]
struct Forked {
    id: String,
}

impl From<Wanted> for Moment {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Time(millis) => time(millis),
            Wanted::Bookmark(bookmark) => bookmark.into(),
        }
    }
}

fn time(millis: u64) -> Moment {
    // The ceiling is beyond what any clock shows.
    Moment::Time(UNIX_EPOCH + Duration::from_millis(millis.min(u64::MAX >> 12)))
}

async fn bookmark(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): Named,
    UrlQuery(asked): UrlQuery<Asked>,
) -> Result<Json<Marked>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let bookmark = node.bookmark(&object, asked.at.map(time)).await?;
    Ok(Json(Marked { bookmark }))
}

async fn restore(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): Named,
    JsonBody(to): JsonBody<Wanted>,
) -> Result<Json<Restored>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let undo = node.restore(&object, to).await?;
    Ok(Json(Restored { undo }))
}

async fn fork(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): Named,
    JsonBody(fork): JsonBody<Fork>,
) -> Result<Json<Forked>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let id = node.fork(&object, fork.at, &fork.name).await?;
    Ok(Json(Forked { id: id.to_string() }))
}
