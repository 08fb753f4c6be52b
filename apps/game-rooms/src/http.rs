//! The edge.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /` | the game's page, for the computer |
//! | `GET /play`, `GET /play/{code}` | the controller's page, for the phone |
//! | `POST /rooms` | 201 and `{"room":{"roomCode","durableObjectId","createdAt"}}` |
//! | `GET /rooms/{code}` | 200 and the same, or 404 |
//! | `GET /rooms/{code}/qr.svg?origin=` | the link to the controller as a QR code |
//! | `GET /sockets/{durableObjectId}?role=host`, or `peer`, a WebSocket | the room |

use abide::{
    Env, Request, Response, Stub,
    server::{
        ApiError, UrlPath, UrlQuery,
        access::{Access, Need, Role as AccessRole, Route},
    },
};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use crate::{Code, GameHub, GameRoom, HUB, HubError, RoomRecord, pages, qr, room::Entrance};

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

/// What a request needs: who enters a room sends to it.
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
struct OfSite {
    origin: String,
}

#[derive(Serialize)]
struct Room {
    room: RoomRecord,
}

async fn game() -> impl IntoResponse {
    page(pages::GAME)
}

async fn controller() -> impl IntoResponse {
    page(pages::CONTROLLER)
}

fn page(text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, pages::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    (headers, Html(text))
}

async fn make(State(env): State<Env>) -> Result<(StatusCode, Json<Room>), ApiError> {
    // The room is made by whoever asks, so that it lives where its players are.
    let id = env.object::<GameRoom>().new_unique_id();
    let room = hub(&env).add(id.to_string()).await??;
    Ok((StatusCode::CREATED, Json(Room { room })))
}

async fn find(
    State(env): State<Env>,
    UrlPath(ByCode { code }): UrlPath<ByCode>,
) -> Result<Json<Room>, ApiError> {
    let code = parse(&code)?;
    let room = hub(&env).find(code.to_string()).await??;
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
    State(env): State<Env>,
    UrlPath(ById { id }): UrlPath<ById>,
    UrlQuery(entrance): UrlQuery<Entrance>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let rooms = env.object::<GameRoom>();
    let id = rooms.id_from_string(&id).map_err(|_| {
        ApiError::bad_request(
            "invalid_room",
            "A room's address has the `durableObjectId` that its code leads to.",
        )
    })?;
    let role = serde_json::to_value(entrance.role).map_err(abide::Error::from_std)?;
    let role = role.as_str().unwrap_or_default();
    *request.uri_mut() = format!("/?role={role}")
        .parse()
        .map_err(abide::Error::from_std)?;
    Ok(rooms.get(id).fetch(request).await?)
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
            HubError::Object(error) => error.into(),
        }
    }
}
