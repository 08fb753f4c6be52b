//! The JSON API and the page.
//!
//! | Request | Answer |
//! |---|---|
//! | `PUT /flights/{flight}/{date}` with `{"rows":30,"columns":"ABCDEF"}` | 201, or 200 if it is there already |
//! | `POST /flights/{flight}/{date}/seats/{seat}` with `{"occupant":"…"}` | 200 and `{"seat":…,"occupant":…,"moved_from":…}` |
//! | `GET /flights/{flight}/{date}` | 200 and `{"seats":[{"seat":"1A","occupant":null},…]}`; a browser gets the page |
//! | `GET /` | the page |

use abide::{
    Env, Stub,
    server::{ApiError, UrlPath},
};
use abide_patterns::json::JsonOnly;
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use crate::{
    Assigned, Cabin, Created, Flight, FlightSeating, Invalid, Seat, SeatingError, occupant,
};

const PAGE: &str = include_str!("cabin.html");

/// The page is one file and asks only its own server.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                           connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Everything that the program answers.
pub fn router(env: Env) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/flights/{flight}/{date}", get(read).put(create))
        .route("/flights/{flight}/{date}/seats/{seat}", post(assign))
        .with_state(env)
}

#[derive(Deserialize)]
struct FlightPath {
    flight: String,
    date: String,
}

#[derive(Deserialize)]
struct SeatPath {
    flight: String,
    date: String,
    seat: String,
}

#[derive(Deserialize)]
struct NewSeatMap {
    rows: u32,
    columns: String,
}

#[derive(Deserialize)]
struct NewOccupant {
    occupant: String,
}

/// What a flight looks like to clients.
#[derive(Serialize)]
struct SeatMap {
    flight: String,
    date: String,
    seats: Vec<Seat>,
}

async fn create(
    State(env): State<Env>,
    UrlPath(path): UrlPath<FlightPath>,
    JsonOnly(body): JsonOnly<NewSeatMap>,
) -> Result<(StatusCode, Json<SeatMap>), ApiError> {
    let flight = Flight::parse(&path.flight, &path.date)?;
    let cabin = Cabin::new(body.rows, &body.columns)?;
    let seating = seating(&env, &flight);
    let status = match seating.create(cabin).await?? {
        Created::Now => StatusCode::CREATED,
        Created::Before => StatusCode::OK,
    };
    Ok((status, Json(seat_map(&flight, seating.seats().await??))))
}

async fn assign(
    State(env): State<Env>,
    UrlPath(path): UrlPath<SeatPath>,
    JsonOnly(body): JsonOnly<NewOccupant>,
) -> Result<Json<Assigned>, ApiError> {
    let flight = Flight::parse(&path.flight, &path.date)?;
    let occupant = occupant(&body.occupant)?.to_owned();
    let seat = path.seat.to_ascii_uppercase();
    Ok(Json(
        seating(&env, &flight).assign_seat(seat, occupant).await??,
    ))
}

async fn read(
    State(env): State<Env>,
    UrlPath(path): UrlPath<FlightPath>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let answer = if wants_page(&headers) {
        page().await.into_response()
    } else {
        let flight = Flight::parse(&path.flight, &path.date)?;
        let seats = seating(&env, &flight).seats().await??;
        Json(seat_map(&flight, seats)).into_response()
    };
    // One address, two forms: a cache must not give a program the page.
    Ok((
        [
            (header::VARY, "Accept"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        answer,
    )
        .into_response())
}

async fn page() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(PAGE))
}

/// Browsers that open an address name HTML; programs, and the page's own script, do not.
fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|text| text.contains("text/html")))
}

fn seating(env: &Env, flight: &Flight) -> Stub<FlightSeating> {
    env.object::<FlightSeating>()
        .get_by_name(&flight.to_string())
}

fn seat_map(flight: &Flight, seats: Vec<Seat>) -> SeatMap {
    SeatMap {
        flight: flight.designator().to_owned(),
        date: flight.date().to_owned(),
        seats,
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::bad_request(invalid.code(), invalid.to_string())
    }
}

impl From<SeatingError> for ApiError {
    fn from(error: SeatingError) -> Self {
        let text = error.to_string();
        match error {
            SeatingError::NoSeatMap => Self::not_found("no_seat_map", text),
            SeatingError::NoSuchSeat(_) => Self::not_found("no_such_seat", text),
            SeatingError::OtherSeatMap => Self::conflict("other_seat_map", text),
            SeatingError::SeatTaken(_) => Self::conflict("seat_taken", text),
            SeatingError::Storage(error) => error.into(),
        }
    }
}
