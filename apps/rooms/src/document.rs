//! The object: a document and who edits it.
//!
//! Contract: every change that a client was shown is on disk. The object can leave memory between any two messages. A
//! custom message (a text that begins with `__YPS:`) comes back to its sender when everything that it sent before is
//! on disk: that is how the page knows that its changes are saved.

use abide::{
    party::{self, Room},
    prelude::*,
    server::ApiError,
    yjs::{
        self, Document, Received, Size,
        yrs::{Doc, GetString, ReadTxn, Transact},
    },
};
use axum::{
    Json,
    http::{Method, StatusCode},
    response::IntoResponse,
};
use serde::{Deserialize, Serialize};

use crate::Bounds;

/// The name of the shared text in the document: the page's editor is bound to it.
const TEXT: &str = "codemirror";

/// One document.
#[durable_object]
pub struct DocumentRoom {
    room: Room,
    document: Document,
}

/// The status of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentStatus {
    /// Connections that are open.
    pub connections: usize,
    /// Connections that it takes.
    pub max_connections: usize,
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Updates since.
    pub updates: u64,
    /// Their bytes.
    pub update_bytes: u64,
}

#[durable_object]
impl DurableObject for DocumentRoom {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let bounds = env.require::<Bounds>()?;
        let max_connections = bounds.max_connections;
        let room = Room::open(
            &ctx,
            party::RoomOptions::default().max_connections(max_connections),
        )?;
        let options = yjs::DocumentOptions::default().max_document_bytes(bounds.max_document_bytes);
        let document = Document::open(&ctx, &room, options)?;
        Ok(Self { room, document })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        if Room::wants_connection(&request) {
            return match self.room.connect(&request, &[]) {
                Ok((connection, response)) => {
                    self.document.connect(&connection).await?;
                    Ok(response)
                }
                Err(refused) => Ok(refused.into_response()),
            };
        }
        if *request.method() != Method::GET {
            let text = "A document answers GET, and WebSockets.";
            let refused = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text);
            return Ok(refused.into_response());
        }
        if request.uri().path().ends_with("/text") {
            return Ok(self.text().await?.into_response());
        }
        Ok(Json(self.status().await?).into_response())
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let connection = self.room.connection(&ws)?;
        match self.document.receive(&connection, &message).await? {
            // It leaves when what came before it is durable.
            Received::Custom(text) => connection.send(yjs::custom_message(&text)),
            Received::Done | Received::Refused(_) => Ok(()),
        }
    }

    fn websocket_close(&self, ws: WebSocket, _: Close) -> Result<()> {
        self.document.disconnect(&self.room.connection(&ws)?)
    }
}

impl DocumentRoom {
    async fn status(&self) -> Result<DocumentStatus> {
        let Size {
            snapshot_bytes,
            updates,
            update_bytes,
        } = self.document.size().await?;
        Ok(DocumentStatus {
            connections: self.room.connections(None).len(),
            max_connections: self.room.options().max_connections,
            snapshot_bytes,
            updates,
            update_bytes,
        })
    }

    async fn text(&self) -> Result<String> {
        let read = |doc: &Doc| {
            let transaction = doc.transact();
            let text = transaction.get_text(TEXT);
            text.map_or_else(String::new, |text| text.get_string(&transaction))
        };
        self.document.read(read).await
    }
}
