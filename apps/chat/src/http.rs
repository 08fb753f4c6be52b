//! The HTTP side: the page, the history, and the WebSocket of a room.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /`, `GET /rooms/{room}` | the page |
//! | `GET /rooms/{room}/messages?before=ID&limit=N` | 200 and `{"messages":[{"id":1,"name":"ada","text":"…",…},…]}` |
//! | `GET /rooms/{room}/socket?name=NAME&since=ID`, a WebSocket | the room: see [`FromClient`](crate::FromClient) and [`ToClient`](crate::ToClient) |

use abide::{
    Env, Request, Response, Stub,
    server::{
        ApiError, ClientAddr, Page, UrlPath, UrlQuery,
        access::{Access, Need, Role, Route},
    },
};
use axum::{Json, Router, routing::get};
use serde::{Deserialize, Serialize};

use crate::{ChatRoom, Entry, Invalid, Name, RoomName, room::Visitor};

const PAGE: &str = include_str!("chat.html");

/// The page is one file and makes requests only to its own server.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                           connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The program's routes, open to any caller.
pub fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let router = Router::new()
        .route("/", get(page))
        .route("/rooms/{room}", get(page))
        .route("/rooms/{room}/messages", get(messages))
        .route("/rooms/{room}/socket", get(enter))
        .with_state(env);
    access.protect(router, need)
}

/// The permissions for a request: entering a room includes writing there.
fn need(route: &Route<'_>) -> Need {
    let role = if route.path.ends_with("/socket") {
        Role::Operate
    } else {
        Role::Read
    };
    match route.param("room") {
        "" => Need::role(role),
        room => Need::role(role).object("ChatRoom", room),
    }
}

#[derive(Deserialize)]
struct RoomPath {
    room: String,
}

#[derive(Deserialize)]
struct Wanted {
    before: Option<i64>,
    limit: Option<i64>,
}

#[derive(Deserialize)]
struct Entrance {
    name: String,
    #[serde(default)]
    since: i64,
}

#[derive(Serialize)]
struct History {
    messages: Vec<Entry>,
}

async fn page() -> Page {
    Page::new(PAGE, PAGE_POLICY)
}

async fn messages(
    env: Env,
    UrlPath(path): UrlPath<RoomPath>,
    UrlQuery(wanted): UrlQuery<Wanted>,
) -> Result<Json<History>, ApiError> {
    let room = room(&env, &path)?;
    let messages = room
        .history(
            wanted.before.unwrap_or(i64::MAX),
            wanted.limit.unwrap_or(i64::MAX),
        )
        .await?;
    Ok(Json(History { messages }))
}

/// Passes the request to the room, with the visitor's data.
async fn enter(
    env: Env,
    UrlPath(path): UrlPath<RoomPath>,
    UrlQuery(entrance): UrlQuery<Entrance>,
    client: ClientAddr,
    request: Request,
) -> Result<Response, ApiError> {
    let visitor = Visitor {
        name: Name::parse(&entrance.name)?.to_string(),
        // A client with one IPv6 address usually has its whole network.
        address: client.network().to_string(),
        since: entrance.since,
    };
    Ok(room(&env, &path)?.upgrade(request, &visitor).await?)
}

fn room(env: &Env, path: &RoomPath) -> Result<Stub<ChatRoom>, ApiError> {
    let name = RoomName::parse(&path.room)?;
    Ok(env.object::<ChatRoom>().get_by_name(&name.to_string()))
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::bad_request("invalid_name", invalid.to_string())
    }
}
