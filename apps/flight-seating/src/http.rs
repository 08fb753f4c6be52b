//! The JSON API and the page.
//!
//! | Request | Answer |
//! |---|---|
//! | `PUT /flights/{flight}/{date}` with `{"rows":30,"columns":"ABCDEF"}` | 201, or 200 if it is there already |
//! | `POST /flights/{flight}/{date}/seats/{seat}` with `{"occupant":"…"}` | 200 and `{"seat":…,"occupant":…,"moved_from":…}` |
//! | `GET /flights/{flight}/{date}` | 200 and `{"seats":[{"seat":"1A","occupant":null},…]}`, with `closed_at` if it is closed; a browser gets the page |
//! | `GET /flights/{flight}/{date}/live`, a WebSocket | `{"seats":[…]}`, then `{"changed":[…]}` at each change, at last `{"closed":1796083200000}` |
//! | `POST /flights/{flight}/{date}/close` | 200 and the final seat map with `closed_at`; 409 before its day |
//! | `GET /` | the page |

use abide::{
    Env, Stub,
    server::{
        ApiError, JsonBody, Page, UrlPath,
        access::{Access, Need},
    },
};
use axum::{
    Json, Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use crate::{
    Assigned, Cabin, Created, Flight, FlightSeating, Invalid, Seat, SeatingError, archive::archive,
    occupant,
};

const PAGE: &str = include_str!("cabin.html");

/// The page is one file and makes requests only to its own server.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                           connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The program's routes, open to any caller.
pub fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let router = Router::new()
        .route("/", get(page))
        .route("/flights/{flight}/{date}", get(read).put(create))
        .route("/flights/{flight}/{date}/live", get(watch))
        .route("/flights/{flight}/{date}/close", post(close))
        .route("/flights/{flight}/{date}/seats/{seat}", post(assign))
        .with_state(env);
    access.protect(router, |route| {
        let need = Need::by_method(route.method);
        match Flight::parse(route.param("flight"), route.param("date")) {
            Ok(flight) => need.object("FlightSeating", &flight.to_string()),
            Err(_) => need,
        }
    })
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

/// A flight as clients see it.
#[derive(Serialize)]
struct SeatMap {
    flight: String,
    date: String,
    seats: Vec<Seat>,
}

async fn create(
    env: Env,
    UrlPath(path): UrlPath<FlightPath>,
    JsonBody(body): JsonBody<NewSeatMap>,
) -> Result<(StatusCode, Json<SeatMap>), ApiError> {
    let flight = Flight::parse(&path.flight, &path.date)?;
    let cabin = Cabin::new(body.rows, &body.columns)?;
    let seating = seating(&env, &flight);
    let status = match seating.create(flight.clone(), cabin).await? {
        Created::Now => StatusCode::CREATED,
        Created::Before => StatusCode::OK,
    };
    Ok((status, Json(seat_map(&flight, seating.seats().await?))))
}

async fn assign(
    env: Env,
    UrlPath(path): UrlPath<SeatPath>,
    JsonBody(body): JsonBody<NewOccupant>,
) -> Result<Json<Assigned>, ApiError> {
    let flight = Flight::parse(&path.flight, &path.date)?;
    let occupant = occupant(&body.occupant)?.to_owned();
    let seat = path.seat.to_ascii_uppercase();
    let assigned = seating(&env, &flight).assign_seat(seat, occupant).await;
    if let Err(SeatingError::NoSeatMap) = &assigned
        && document(&env, &flight).await?.is_some()
    {
        return Err(SeatingError::Closed.into());
    }
    Ok(Json(assigned?))
}

async fn close(env: Env, UrlPath(path): UrlPath<FlightPath>) -> Result<Response, ApiError> {
    let flight = Flight::parse(&path.flight, &path.date)?;
    let closed = seating(&env, &flight).close(flight.clone()).await;
    archived_or(&env, &flight, closed).await
}

/// Passes the request to the flight, unless there is nothing to watch.
async fn watch(
    env: Env,
    UrlPath(path): UrlPath<FlightPath>,
    request: Request,
) -> Result<Response, ApiError> {
    let flight = Flight::parse(&path.flight, &path.date)?;
    let seating = seating(&env, &flight);
    seating.may_be_watched().await?;
    let response = seating.fetch(request).await?;
    Ok(response.map(axum::body::Body::new))
}

/// A seat map as JSON, or that of a flight without one from the archive.
async fn archived_or(
    env: &Env,
    flight: &Flight,
    seat_map: Result<String, SeatingError>,
) -> Result<Response, ApiError> {
    let json = match seat_map {
        Err(SeatingError::NoSeatMap) => document(env, flight).await?.ok_or(SeatingError::NoSeatMap),
        other => other,
    }?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// The document of a closed flight.
async fn document(env: &Env, flight: &Flight) -> Result<Option<String>, ApiError> {
    let found = archive(env, flight).find(flight.designator().to_owned());
    Ok(found.await?)
}

async fn read(
    env: Env,
    UrlPath(path): UrlPath<FlightPath>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let answer = if wants_page(&headers) {
        page().await.into_response()
    } else {
        let flight = Flight::parse(&path.flight, &path.date)?;
        let seats = seating(&env, &flight).seats().await;
        let json = seats.and_then(|seats| {
            let json = serde_json::to_string(&seat_map(&flight, seats));
            Ok(json.map_err(abide::Error::from_std)?)
        });
        archived_or(&env, &flight, json).await?
    };
    // One URL, two representations: a cache must not give a program the page.
    Ok((
        [
            (header::VARY, "Accept"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        answer,
    )
        .into_response())
}

async fn page() -> Page {
    Page::new(PAGE, PAGE_POLICY)
}

/// Browsers that open a URL accept HTML; programs, and the page's own script, do not.
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
            SeatingError::Closed => Self::conflict("flight_closed", text),
            SeatingError::NotDeparted => Self::conflict("not_departed", text),
            SeatingError::TooManyWatch => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_watch", text).retry_soon()
            }
            SeatingError::Storage(error) => error.into(),
        }
    }
}
