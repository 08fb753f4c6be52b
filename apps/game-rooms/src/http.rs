//! The edge.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /` | the game's page, for the computer |
//! | `GET /play`, `GET /play/{code}` | the controller's page, for the phone |
//! | `POST /rooms` | 201 and `{"room":{"roomCode","durableObjectId","createdAt"},"hostSecret":"…"}` |
//! | `GET /rooms/{code}` | 200 and `{"room":…}`, or 404 |
//! | `GET /rooms/{code}/qr.svg?origin=` | the link to the controller as a QR code |
//! | `GET /sockets/{durableObjectId}?role=host`, or `peer`, a WebSocket with the subprotocols `blips` and `secret.…` | the room |

use std::time::Duration;

use abide::{
    Env, Request, Response, Stub,
    server::{
        ApiError, ClientAddr, Page, UrlPath, UrlQuery,
        access::{Access, Need, Role as AccessRole, Route},
    },
};
use axum::{
    Json, Router,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use crate::{
    Code, GameHub, GameRoom, HUB, HubError, Role, RoomRecord, Secret, pages, qr, room::Entrance,
};

/// Everything that the program answers.
pub fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let router = Router::new()
        .route("/", get(game))
        .route("/play", get(controller))
        .route("/play/{code}", get(controller))
        .route("/rooms", post(make))
        .route("/rooms/{code}", get(find))
        .route("/rooms/{code}/qr.svg", get(picture))
        .route("/sockets/{id}", get(enter))
        .with_state(env);
    access.protect(router, need)
}

/// The permissions for a request: entering a room includes sending there.
fn need(route: &Route<'_>) -> Need {
    if route.path.starts_with("/sockets") {
        return Need::role(AccessRole::Operate);
    }
    Need::by_method(route.method)
}

#[derive(Deserialize)]
struct ByCode {
    code: String,
}

#[derive(Deserialize)]
struct ById {
    id: String,
}

#[derive(Deserialize)]
struct ByRole {
    role: Role,
}

#[derive(Deserialize)]
struct OfSite {
    origin: String,
}

#[derive(Serialize)]
struct Room {
    room: RoomRecord,
}

/// A new room, for its screen.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewRoom {
    room: RoomRecord,
    host_secret: String,
}

async fn game() -> Page {
    Page::new(pages::GAME.as_str(), pages::POLICY)
}

async fn controller() -> Page {
    Page::new(pages::CONTROLLER.as_str(), pages::POLICY)
}

async fn make(env: Env, client: ClientAddr) -> Result<(StatusCode, Json<NewRoom>), ApiError> {
    // The caller's node makes the room, so that it is near its players.
    let rooms = env.object::<GameRoom>();
    let (id, hub, secret) = (rooms.unique_id(), hub(&env), Secret::random(&env));
    let client = client.network().to_string();
    let room = hub.reserve(id.to_string(), client).await?;
    rooms
        .get(id)
        .begin(room.room_code.clone(), secret.digest(), room.created_at)
        .await?;
    if !hub.keep(room.room_code.clone(), id.to_string()).await? {
        return Err(HubError::NoFreeCode.into());
    }
    let host_secret = secret.reveal();
    Ok((StatusCode::CREATED, Json(NewRoom { room, host_secret })))
}

async fn find(env: Env, UrlPath(ByCode { code }): UrlPath<ByCode>) -> Result<Json<Room>, ApiError> {
    let code = parse(&code)?;
    let room = hub(&env).find(code.to_string()).await?;
    let room = room.ok_or_else(|| {
        ApiError::not_found("no_such_room", format!("No room has the code {code}."))
    })?;
    Ok(Json(Room { room }))
}

async fn picture(
    UrlPath(ByCode { code }): UrlPath<ByCode>,
    UrlQuery(OfSite { origin }): UrlQuery<OfSite>,
) -> Result<impl IntoResponse, ApiError> {
    let svg = qr::link(&origin, parse(&code)?).and_then(|link| qr::picture(&link));
    let svg = svg.ok_or_else(|| {
        ApiError::bad_request(
            "invalid_origin",
            "`origin` is the page's own: its scheme, host and port.",
        )
    })?;
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], svg))
}

async fn enter(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
    UrlQuery(ByRole { role }): UrlQuery<ByRole>,
    request: Request,
) -> Result<Response, ApiError> {
    let rooms = env.object::<GameRoom>();
    let id = rooms.parse_id(&id).map_err(|_| {
        ApiError::bad_request(
            "invalid_room",
            "A room's address has the `durableObjectId` that its code leads to.",
        )
    })?;
    let secret = Secret::offered(request.headers()).ok_or_else(|| {
        ApiError::bad_request(
            "invalid_secret",
            "A WebSocket to a room offers two subprotocols: `blips`, and `secret.` with 32 hex digits.",
        )
    })?;
    let secret = secret.digest();
    let entrance = Entrance { role, secret };
    Ok(rooms.get(id).upgrade(request, &entrance).await?)
}

fn hub(env: &Env) -> Stub<GameHub> {
    env.object::<GameHub>().get_by_name(HUB)
}

fn parse(code: &str) -> Result<Code, ApiError> {
    code.parse().map_err(|error: crate::code::NoCode| {
        ApiError::bad_request("invalid_code", error.to_string())
    })
}

impl From<HubError> for ApiError {
    fn from(error: HubError) -> Self {
        match error {
            HubError::NoFreeCode => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "no_free_code",
                error.to_string(),
            )
            .retry_soon(),
            HubError::TooManyRooms { minutes, .. } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_rooms",
                error.to_string(),
            )
            .retry_after(Duration::from_secs(60 * u64::from(minutes))),
            HubError::Object(error) => error.into(),
        }
    }
}
