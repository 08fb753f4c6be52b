//! `/objects`: restores objects to an earlier point in time, and repairs quarantined ones.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /objects?find=` | 200 and `{"class","object"}`: the object with this name, id or unique id prefix, optionally preceded by `Class/` |
//! | `GET /objects/{class}/{object}/bookmark`, `?at=` | 200 and `{"bookmark"}`: of the last commit at or before a time; without one, now |
//! | `POST /objects/{class}/{object}/restore` with `{"time"}` or `{"bookmark"}` | 200 and `{"undo"}`: the bookmark that undoes it; with `"dormant": true` the object is dormant afterwards |
//! | `POST /objects/{class}/{object}/fork` with the same and `"name"` | 200 and `{"id"}`: of the object with this name or id, which must be new or empty, of the same class or of `"class"`; it is dormant |
//! | `POST /objects/{class}/{object}/export` with `{"time"}` or `{"bookmark"}`, or `{}` for now | 200 and its database then, a plain SQLite file, with its bookmark in the header `abide-bookmark` |
//! | `POST /objects/{class}/{object}/activate` with `{"inherited":"fresh"}` or `"continue"` | 204: the object is no longer dormant |
//! | `GET /objects/{class}/{object}/timeline` | 200 and `{"class","id","name","timeline","since","cause","dormant"}` |
//! | `GET /dormant?class=&after=` | 200 and `{"objects":[…],"next"}`: the timelines of dormant objects; `next` of one page is `class` and `after` of the next |
//! | `GET /quarantined` | 200 and `{"objects":[{"class","id","why"}…]}` |
//! | `POST /objects/{class}/{object}/repair` with `{"with":"accept"}` or `"anew"` | 200 and `{"bookmark","kept"}`: of its new state, and which files of the node's disk hold what it was |
//!
//! Times are milliseconds since 1970. An object is given by its id or its name. Changes are on disk before the response
//! is sent.

use std::{io, sync::Arc};

use abide_runtime::{Activation, Moment, Node, TimelineCause, TimelineListing, Timestamp};
use abide_storage::{Bookmark, PastDatabase, Repair};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderName, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures_util::stream::try_unfold;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::target;
use crate::{
    ApiError, JsonBody, UrlPath, UrlQuery,
    access::{Caller, object_not_allowed},
    readiness::Readiness,
};

/// Bytes of a database that are read at a time.
const EXPORT_PIECE: usize = 256 << 10;

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    Router::new()
        .route("/objects", get(find))
        .route("/objects/{class}/{object}/bookmark", get(bookmark))
        .route("/objects/{class}/{object}/restore", post(restore))
        .route("/objects/{class}/{object}/fork", post(fork))
        .route("/objects/{class}/{object}/export", post(export))
        .route("/objects/{class}/{object}/activate", post(activate))
        .route("/objects/{class}/{object}/repair", post(repair))
        .route("/objects/{class}/{object}/timeline", get(timeline))
        .route("/dormant", get(dormant))
        .route("/quarantined", get(quarantined))
}

type ObjectPath = UrlPath<(String, String)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindQuery {
    find: String,
}

#[derive(Serialize)]
struct Found {
    class: String,
    object: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BookmarkQuery {
    at: Option<u64>,
    ago: Option<u64>,
}

#[derive(Serialize)]
struct BookmarkBody {
    bookmark: Bookmark,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Target {
    Time(u64),
    /// Milliseconds before now, by the node's clock.
    Ago(u64),
    Bookmark(Bookmark),
}

#[derive(Deserialize)]
struct Restore {
    #[serde(flatten)]
    to: Target,
    #[serde(default)]
    dormant: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Activate {
    inherited: Activation,
}

#[derive(Serialize)]
struct Restored {
    undo: Bookmark,
}

#[derive(Deserialize)]
struct Fork {
    #[serde(flatten)]
    at: Target,
    /// The name or the id of the target.
    name: String,
    /// Its class, if it is another one.
    class: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    time: Option<u64>,
    ago: Option<u64>,
    bookmark: Option<Bookmark>,
}

#[derive(Serialize)]
struct Forked {
    id: String,
}

/// An object's timeline.
#[derive(Serialize)]
struct TimelineBody {
    class: String,
    id: String,
    name: Option<String>,
    timeline: String,
    since: Option<i64>,
    #[serde(flatten)]
    cause: Cause,
    dormant: bool,
}

/// How a timeline began.
#[derive(Serialize)]
#[serde(tag = "cause", rename_all = "lowercase")]
enum Cause {
    Created,
    Restored {
        from: Bookmark,
        to: Bookmark,
    },
    Forked {
        origin: String,
        origin_class: Option<String>,
        bookmark: Bookmark,
    },
    Imported {
        source: String,
        replaces: bool,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DormantQuery {
    class: Option<String>,
    after: Option<String>,
}

#[derive(Serialize)]
struct Dormant {
    objects: Vec<TimelineBody>,
    next: Option<Position>,
}

/// After which object the next page begins.
#[derive(Serialize)]
struct Position {
    class: String,
    after: String,
}

#[derive(Serialize)]
struct Quarantined {
    objects: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    class: String,
    id: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RepairRequest {
    with: RepairMethod,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RepairMethod {
    Accept,
    Anew,
}

#[derive(Serialize)]
struct RepairedObject {
    bookmark: Bookmark,
    kept: Vec<String>,
}

impl Target {
    fn on(self, node: &Node) -> Moment {
        match self {
            Self::Time(millis) => time(millis),
            Self::Ago(millis) => time(node.env().clock().unix_millis().saturating_sub(millis)),
            Self::Bookmark(bookmark) => bookmark.into(),
        }
    }
}

fn time(millis: u64) -> Moment {
    Timestamp::from_unix_millis(i64::try_from(millis).unwrap_or(i64::MAX)).into()
}

async fn find(
    State(readiness): State<Arc<Readiness>>,
    UrlQuery(query): UrlQuery<FindQuery>,
) -> Result<Json<Found>, ApiError> {
    let node = target::node(&readiness)?;
    let found = node.find_object(&query.find).await?;
    let object = found.name.clone();
    Ok(Json(Found {
        object: object.unwrap_or_else(|| found.id().to_string()),
        class: found.class,
    }))
}

async fn bookmark(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
    UrlQuery(query): UrlQuery<BookmarkQuery>,
) -> Result<Json<BookmarkBody>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let at = match (query.at, query.ago) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request(
                "invalid_query",
                "Send `at` or `ago`, not both.",
            ));
        }
        (at, ago) => at.map(Target::Time).or(ago.map(Target::Ago)),
    };
    let at = at.map(|at| at.on(&node));
    let bookmark = node.bookmark(&object, at).await?;
    Ok(Json(BookmarkBody { bookmark }))
}

async fn restore(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
    JsonBody(restore): JsonBody<Restore>,
) -> Result<Json<Restored>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let to = restore.to.on(&node);
    let undo = if restore.dormant {
        node.restore_dormant(&object, to).await?
    } else {
        node.restore(&object, to).await?
    };
    Ok(Json(Restored { undo }))
}

async fn fork(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
    caller: Caller,
    JsonBody(fork): JsonBody<Fork>,
) -> Result<Json<Forked>, ApiError> {
    let node = target::node(&readiness)?;
    let to_class = fork.class.as_ref().unwrap_or(&class);
    let unique_key = target::class(&node, to_class)?.unique_key().to_owned();
    let to = target::object(&node, to_class, &fork.name)?;
    let is_open_to_caller = match to.name() {
        Some(name) => caller.may_reach(Some(&format!("{unique_key}/{name}"))),
        // An id does not reveal the name that it was derived from.
        None => caller.may_reach_all_of(&unique_key),
    };
    if !is_open_to_caller {
        return Err(object_not_allowed());
    }
    let object = target::object(&node, &class, &object)?;
    let id = node.fork(&object, fork.at.on(&node), to).await?;
    Ok(Json(Forked { id: id.to_string() }))
}

async fn export(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
    JsonBody(export): JsonBody<Export>,
) -> Result<Response, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let at = match (export.time, export.ago, export.bookmark) {
        (Some(time), None, None) => Some(Target::Time(time)),
        (None, Some(ago), None) => Some(Target::Ago(ago)),
        (None, None, Some(bookmark)) => Some(Target::Bookmark(bookmark)),
        (None, None, None) => None,
        _ => {
            return Err(ApiError::bad_request(
                "invalid_body",
                "Send one of `time`, `ago` and `bookmark`, or none.",
            ));
        }
    };
    let at = at.map(|at| at.on(&node));
    let (bookmark, database) = node.database(&object, at).await?;
    let headers = [
        (CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (CONTENT_LENGTH, database.len().to_string()),
        (
            HeaderName::from_static("abide-bookmark"),
            bookmark.to_string(),
        ),
    ];
    Ok((headers, pieces(database)).into_response())
}

/// A database as a body.
fn pieces(database: PastDatabase) -> Body {
    let read = |(database, offset): (PastDatabase, u64)| async move {
        let read = spawn_blocking(move || {
            let mut piece = vec![0; EXPORT_PIECE];
            let length = database.read_at(&mut piece, offset)?;
            piece.truncate(length);
            Ok::<_, abide_storage::Error>((piece, database))
        });
        match read.await.map_err(io::Error::other)? {
            Ok((piece, _)) if piece.is_empty() => Ok(None),
            Ok((piece, database)) => {
                let next = offset + piece.len() as u64;
                Ok(Some((Bytes::from(piece), (database, next))))
            }
            Err(error) => Err(io::Error::other(error)),
        }
    };
    Body::from_stream(try_unfold((database, 0), read))
}

async fn activate(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
    JsonBody(activate): JsonBody<Activate>,
) -> Result<StatusCode, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    node.activate(&object, activate.inherited).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<TimelineListing> for TimelineBody {
    fn from(listing: TimelineListing) -> Self {
        let timeline = listing.timeline;
        Self {
            class: listing.class,
            id: listing.id.to_string(),
            name: listing.name,
            timeline: timeline.id().to_string(),
            since: timeline.since().map(Timestamp::unix_millis),
            cause: match timeline.cause() {
                TimelineCause::Restored { from, to } => Cause::Restored { from, to },
                TimelineCause::Forked { origin, bookmark } => Cause::Forked {
                    origin: origin.to_string(),
                    origin_class: listing.origin_class,
                    bookmark,
                },
                TimelineCause::Imported { source, replaces } => Cause::Imported {
                    source: hex::encode(source),
                    replaces,
                },
                _ => Cause::Created,
            },
            dormant: listing.dormant,
        }
    }
}

async fn timeline(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
) -> Result<Json<TimelineBody>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    Ok(Json(node.timeline(&object).await?.into()))
}

async fn dormant(
    State(readiness): State<Arc<Readiness>>,
    UrlQuery(query): UrlQuery<DormantQuery>,
) -> Result<Json<Dormant>, ApiError> {
    let node = target::node(&readiness)?;
    let invalid = |text: String| ApiError::bad_request("invalid_query", text);
    let after = match (query.class, query.after) {
        (Some(class), Some(after)) => {
            let id = after.parse();
            let id = id.map_err(|_| invalid(format!("{after:?} is not the id of an object.")))?;
            Some((class, id))
        }
        (None, None) => None,
        _ => return Err(invalid("Send `class` and `after` together.".to_owned())),
    };
    let page = node.dormant(after).await?;
    Ok(Json(Dormant {
        objects: page.objects.into_iter().map(Into::into).collect(),
        next: page.next.map(|(class, id)| Position {
            class,
            after: id.to_string(),
        }),
    }))
}

async fn quarantined(
    State(readiness): State<Arc<Readiness>>,
) -> Result<Json<Quarantined>, ApiError> {
    let node = target::node(&readiness)?;
    let listed = node.quarantined().into_iter().map(|object| Listed {
        class: object.class,
        id: object.id.to_string(),
        why: object.why,
    });
    Ok(Json(Quarantined {
        objects: listed.collect(),
    }))
}

async fn repair(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
    JsonBody(query): JsonBody<RepairRequest>,
) -> Result<Json<RepairedObject>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let how = match query.with {
        RepairMethod::Accept => Repair::Accept,
        RepairMethod::Anew => Repair::Anew,
    };
    let repaired = node.repair(&object, how).await?;
    let kept = repaired.kept.iter().map(|path| path.display().to_string());
    Ok(Json(RepairedObject {
        bookmark: repaired.bookmark,
        kept: kept.collect(),
    }))
}
