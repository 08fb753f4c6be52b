//! The object: a channel, which passes on what its clients say.
//!
//! What a client sends goes to all others of the room. Its tags are those of its address (`?tag=blue&tag=player`). `POST` sends a
//! message to all, or to those with a tag; with `in=SECONDS`, an alarm sends it then, also if the process crashes meanwhile. `GET`
//! lists who is there.

use abide::{
    party::{self, Room},
    prelude::*,
    server::ApiError,
};
use axum::{
    Json, body,
    http::{Method, StatusCode},
    response::IntoResponse,
};
use serde::Deserialize;
use serde_json::json;

use crate::Bounds;

/// Bytes of a message.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Bytes of a tag.
const MAX_TAG_BYTES: usize = 64;

/// Announcements that wait for their time.
const MAX_WAITING: i64 = 1_000;

/// Seconds that an announcement may wait: 30 days.
const MAX_DELAY: u64 = 30 * 24 * 60 * 60;

/// One channel.
#[durable_object]
pub struct Channel {
    ctx: Ctx,
    room: Room,
}

/// What a request asks for.
#[derive(Default, Deserialize)]
struct Wanted {
    tag: Option<String>,
    r#in: Option<u64>,
}

#[durable_object]
impl DurableObject for Channel {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS announcements (
                id INTEGER PRIMARY KEY, due_at INTEGER NOT NULL, tag TEXT, text TEXT NOT NULL
            )",
            (),
        )?;
        let max_connections = env.require::<Bounds>()?.max_connections;
        let room = Room::open(
            &ctx,
            party::RoomOptions::default().max_connections(max_connections),
        )?;
        Ok(Self { ctx, room })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let answer = if Room::wants_connection(&request) {
            self.connect(&request)
        } else if *request.method() == Method::GET {
            self.list()
        } else if *request.method() == Method::POST {
            self.announce(request).await
        } else {
            let text = "A channel answers GET, POST, and WebSockets.";
            Err(ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                text,
            ))
        };
        Ok(answer.unwrap_or_else(IntoResponse::into_response))
    }

    fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let connection = self.room.connection(&ws)?;
        if message.len() > MAX_MESSAGE_BYTES {
            let reason = format!("a message has at most {MAX_MESSAGE_BYTES} bytes");
            return connection.close(1009, &reason);
        }
        let said = connection.state::<u64>()?.unwrap_or(0) + 1;
        connection.set_state(&said)?;
        self.room.broadcast(&message, &[&connection]);
        Ok(())
    }

    fn alarm(&self, _: AlarmInfo) -> Result<()> {
        let sql = self.ctx.sql();
        let due: Vec<(i64, Option<String>, String)> = sql
            .exec(
                "SELECT id, tag, text FROM announcements WHERE due_at <= ?1 ORDER BY due_at, id LIMIT 100",
                (self.now(),),
            )?
            .all()?;
        for (id, _, _) in &due {
            sql.exec("DELETE FROM announcements WHERE id = ?1", (id,))?;
        }
        self.set_next_alarm()?;
        // Last: an error would undo what was written, but not what was sent.
        for (_, tag, text) in due {
            self.room.send_to(tag.as_deref(), text, &[]);
        }
        Ok(())
    }
}

impl Channel {
    fn connect(&self, request: &Request) -> Result<Response, ApiError> {
        let query = request.uri().query().unwrap_or_default();
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
        let tags = pairs.iter().filter(|(name, _)| name == "tag");
        let tags: Vec<&str> = tags.map(|(_, tag)| &**tag).collect();
        if tags.len() > abide::limits::party::MAX_TAGS || !tags.iter().all(|tag| is_tag(tag)) {
            return Err(invalid_tag());
        }
        let (_, response) = self.room.connect(request, &tags)?;
        Ok(response)
    }

    fn list(&self) -> Result<Response, ApiError> {
        let mut all = Vec::new();
        for connection in self.room.connections(None) {
            let said = connection.state::<u64>()?.unwrap_or(0);
            all.push(json!({ "id": connection.id(), "tags": connection.tags(), "messages": said }));
        }
        Ok(Json(json!({ "connections": all })).into_response())
    }

    async fn announce(&self, request: Request) -> Result<Response, ApiError> {
        let query = request.uri().query().unwrap_or_default();
        let wanted: Wanted = serde_urlencoded::from_str(query).map_err(|error| {
            ApiError::bad_request("invalid_query", format!("The query is invalid: {error}."))
        })?;
        if !wanted.tag.as_deref().is_none_or(is_tag) {
            return Err(invalid_tag());
        }
        let bytes = body::to_bytes(request.into_body(), MAX_MESSAGE_BYTES).await;
        let bytes = bytes.map_err(|_| {
            let text = format!("A message has at most {MAX_MESSAGE_BYTES} bytes.");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "message_too_long", text)
        })?;
        let Ok(text) = String::from_utf8(bytes.into()) else {
            return Err(ApiError::bad_request(
                "no_text",
                "The body must be UTF-8 text.",
            ));
        };
        let Some(delay) = wanted.r#in else {
            let sent = self.room.send_to(wanted.tag.as_deref(), text, &[]);
            return Ok(Json(json!({ "sent": sent })).into_response());
        };
        if delay > MAX_DELAY {
            let text = format!("An announcement waits {MAX_DELAY} seconds at most.");
            return Err(ApiError::bad_request("invalid_delay", text));
        }
        let sql = self.ctx.sql();
        let waiting: i64 = sql.exec("SELECT count(*) FROM announcements", ())?.one()?;
        if waiting >= MAX_WAITING {
            let text = format!("At most {MAX_WAITING} announcements wait for their time.");
            return Err(ApiError::conflict("too_many_waiting", text));
        }
        let due_at = self.now() + i64::try_from(delay).unwrap_or(0) * 1_000;
        sql.exec(
            "INSERT INTO announcements (due_at, tag, text) VALUES (?1, ?2, ?3)",
            (due_at, wanted.tag, text),
        )?;
        self.set_next_alarm()?;
        Ok((StatusCode::ACCEPTED, Json(json!({ "due_at": due_at }))).into_response())
    }

    fn set_next_alarm(&self) -> Result<()> {
        let storage = self.ctx.storage();
        let next = storage
            .sql()
            .exec("SELECT min(due_at) FROM announcements", ())?;
        match next.one::<Option<i64>>()? {
            Some(due_at) => storage.set_alarm(due_at),
            None => Ok(()),
        }
    }

    fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }
}

fn is_tag(tag: &str) -> bool {
    (1..=MAX_TAG_BYTES).contains(&tag.len()) && !tag.starts_with('_')
}

fn invalid_tag() -> ApiError {
    let text = format!(
        "A connection has at most {} tags of 1 to {MAX_TAG_BYTES} bytes, and none begins with an underscore.",
        abide::limits::party::MAX_TAGS
    );
    ApiError::bad_request("invalid_tag", text)
}
