//! `/cuts`: all objects as of one moment, for an export.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /cuts` | 200 and `{"cut","time","position"}`: the present end of the log |
//! | `GET /cuts/{cut}/objects?class=&after_class=&after=` | 200 and `{"objects":[{"class","id","bookmark"}…],"next"}`: the objects as of then. `bookmark` is for `POST /objects/{class}/{object}/export`, and null if the object is quarantined and its history lacks that state. `next` of one page is `after_class` and `after` of the next |
//!
//! `time` is in milliseconds since 1970. A cut needs no resources: it ends when the history that it needs is dropped.

use std::sync::Arc;

use abide_runtime::{AnyNamespace, ListedObject, Node, ObjectId};
use abide_storage::{Bookmark, Cut};
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use super::target;
use crate::{ApiError, UrlPath, UrlQuery, readiness::Readiness};

/// The objects of a page.
const PAGE: usize = 1000;

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    Router::new()
        .route("/cuts", post(cut))
        .route("/cuts/{cut}/objects", get(objects))
}

#[derive(Serialize)]
struct CutBody {
    cut: String,
    time: u64,
    position: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectsQuery {
    class: Option<String>,
    after_class: Option<String>,
    after: Option<ObjectIdText>,
}

/// An id in a query.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct ObjectIdText(ObjectId);

impl TryFrom<String> for ObjectIdText {
    type Error = abide_runtime::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

#[derive(Serialize)]
struct ObjectsBody {
    objects: Vec<Listed>,
    next: Option<Next>,
}

#[derive(Serialize)]
struct Listed {
    class: String,
    id: String,
    bookmark: Option<Bookmark>,
}

/// After which object the next page begins.
#[derive(Serialize)]
struct Next {
    after_class: String,
    after: String,
}

async fn cut(State(readiness): State<Arc<Readiness>>) -> Result<Json<CutBody>, ApiError> {
    let cut = target::node(&readiness)?.cut().await?;
    Ok(Json(CutBody {
        cut: cut.to_string(),
        time: cut.unix_millis(),
        position: cut.timelines().to_string(),
    }))
}

async fn objects(
    State(readiness): State<Arc<Readiness>>,
    UrlPath(cut): UrlPath<String>,
    UrlQuery(query): UrlQuery<ObjectsQuery>,
) -> Result<Json<ObjectsBody>, ApiError> {
    let node = target::node(&readiness)?;
    let cut: Cut = cut.parse().map_err(|error: abide_storage::Error| {
        ApiError::bad_request("invalid_cut", error.to_string())
    })?;
    let class = query.class.as_deref();
    let class = class.map(|class| target::class(&node, class)).transpose()?;
    let class = class.as_ref().map(AnyNamespace::unique_key);
    let after = match (query.after_class, query.after) {
        (Some(class), Some(ObjectIdText(id))) => Some((class, id)),
        (None, None) => None,
        _ => {
            return Err(ApiError::bad_request(
                "invalid_query",
                "Send `after_class` and `after` together.",
            ));
        }
    };
    let page = node.cut_objects(cut, class, after, PAGE).await?;
    must_be_served(&node, &page.objects)?;
    let listed = page.objects.into_iter().map(|object| Listed {
        class: object.class,
        id: object.id.to_string(),
        bookmark: object.bookmark,
    });
    Ok(Json(ObjectsBody {
        objects: listed.collect(),
        next: page.next.map(|(class, id)| Next {
            after_class: class,
            after: id.to_string(),
        }),
    }))
}

/// Rejects objects of classes that the program does not have: their databases cannot be asked for.
fn must_be_served(node: &Node, objects: &[ListedObject]) -> Result<(), ApiError> {
    let served = node.env().namespaces();
    let is_served = |object: &&ListedObject| {
        served
            .iter()
            .any(|known| known.unique_key() == object.class)
    };
    match objects.iter().find(|object| !is_served(object)) {
        None => Ok(()),
        Some(object) => Err(ApiError::new(
            StatusCode::CONFLICT,
            "class_not_served",
            format!(
                "The data directory has objects of the class {:?}, which this program does not have: export each class alone, or stop \
                 the node and export from its directory.",
                object.class
            ),
        )),
    }
}
