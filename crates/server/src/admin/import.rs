//! `POST /objects/{class}/{object}/import`: creates an object from a SQLite database, which is the body.
//!
//! | Parameter | Meaning |
//! |---|---|
//! | `act=true` | the object replaces its original, which is gone; without it, it is dormant |
//! | `sha256` | the SHA-256 of the body, 64 hex digits: another body is refused |
//! | `export` | the SHA-256 of the listing of the export that it is from, for the object's timeline; without it, that of the body |
//! | `position` | the position of that export: the object's timelines are above it |
//!
//! The object is given by its name, or by its id if it has none. The answer is 200 and `{"id"}`, after the object is on disk. The
//! body may have any length: it is written to the disk as it arrives, and the object appears when it is complete.

use std::{sync::Arc, time::Duration};

use abide_runtime::Node;
use abide_storage::{Afterwards, Incoming, TimelinesEnd};
use axum::{Json, Router, body::Body, extract::State, routing::post};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::target;
use crate::{
    ApiError, UrlPath, UrlQuery,
    extract::broken_off,
    limits::{IMPORT_PIECE, IMPORTS_AT_ONCE},
    readiness::Readiness,
};

/// Imports that may run now.
static ROOM: Semaphore = Semaphore::const_new(IMPORTS_AT_ONCE);

/// The routes. `patience` limits each pause of a body.
pub(super) fn routes(patience: Duration) -> Router<Arc<Readiness>> {
    let import = move |state, path, query, body| import(state, path, query, body, patience);
    Router::new().route("/objects/{class}/{object}/import", post(import))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportQuery {
    #[serde(default)]
    act: bool,
    sha256: Option<Sum>,
    export: Option<Sum>,
    position: Option<String>,
}

/// A SHA-256 in a query.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Sum([u8; 32]);

impl TryFrom<String> for Sum {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut sum = [0; 32];
        let read = hex::decode_to_slice(&text, &mut sum);
        read.map_err(|_| format!("{text:?} is not a SHA-256 of 64 hex digits"))?;
        Ok(Self(sum))
    }
}

#[derive(Serialize)]
struct Imported {
    id: String,
}

async fn import(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): UrlPath<(String, String)>,
    UrlQuery(query): UrlQuery<ImportQuery>,
    body: Body,
    patience: Duration,
) -> Result<Json<Imported>, ApiError> {
    let node = target::node(&readiness)?;
    let object = target::object(&node, &class, &object)?;
    let above: Option<TimelinesEnd> = query
        .position
        .map(|text| text.parse())
        .transpose()
        .map_err(|error: abide_storage::Error| {
            ApiError::bad_request("invalid_query", error.to_string())
        })?;
    // The semaphore is never closed.
    let _room = ROOM.acquire().await;
    let (database, sum) = Arriving::begin(&node)?.receive(body, patience).await?;
    if query.sha256.is_some_and(|expected| expected != sum) {
        return Err(ApiError::bad_request(
            "checksum_mismatch",
            "The body does not have the SHA-256 that the request says. Nothing was changed; send it again.",
        ));
    }
    let source = query.export.unwrap_or(sum).0;
    let afterwards = if query.act {
        Afterwards::Act
    } else {
        Afterwards::Dormant
    };
    node.import(&object, database, source, above, afterwards)
        .await?;
    let id = object.id().to_string();
    Ok(Json(Imported { id }))
}

/// A database that arrives.
struct Arriving {
    database: Incoming,
    sum: Sha256,
}

impl Arriving {
    fn begin(node: &Node) -> Result<Self, ApiError> {
        Ok(Self {
            database: node.incoming()?,
            sum: Sha256::new(),
        })
    }

    /// Reads the whole body. What it keeps in memory has a bound.
    async fn receive(
        mut self,
        body: Body,
        patience: Duration,
    ) -> Result<(Incoming, Sum), ApiError> {
        let mut body = body;
        let mut piece = Vec::with_capacity(IMPORT_PIECE);
        while let Some(bytes) = next(&mut body, patience).await? {
            piece.extend_from_slice(&bytes);
            if piece.len() >= IMPORT_PIECE {
                self = self.take(std::mem::take(&mut piece)).await?;
            }
        }
        let Self { database, sum } = self.take(piece).await?;
        Ok((database, Sum(sum.finalize().into())))
    }

    async fn take(mut self, piece: Vec<u8>) -> Result<Self, ApiError> {
        let taken = spawn_blocking(move || {
            self.sum.update(&piece);
            self.database.write(&piece)?;
            Ok::<_, abide_storage::Error>(self)
        });
        match taken.await {
            Ok(taken) => Ok(taken.map_err(abide_runtime::Error::from)?),
            Err(_panicked) => Err(ApiError::panicked()),
        }
    }
}

/// The next bytes of a body; `None` at its end.
async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, ApiError> {
    loop {
        match timeout(patience, body.frame()).await {
            Err(_elapsed) => return Err(ApiError::body_timeout()),
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(broken_off()),
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}
