// The seats of flights: each flight is an object with a table, behind an HTTP API.
//
// `cargo run --example seat-map`, then the commands that it prints.

use abide::{
    Host,
    prelude::*,
    server::{ApiError, UrlPath},
};
use axum::{
    Json, Router,
    extract::State as Shared,
    http::StatusCode,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

#[durable_object]
pub struct Flight {
    state: State,
}

/// A row of the table, and an element of the JSON.
#[derive(Serialize, Deserialize)]
pub struct Seat {
    seat: String,
    occupant: String,
}

impl DurableObject for Flight {
    fn new(state: State, _env: Env) -> Result<Self> {
        let create =
            "CREATE TABLE IF NOT EXISTS seats (seat TEXT PRIMARY KEY, occupant TEXT NOT NULL)";
        state.storage().sql().exec(create, ())?;
        Ok(Self { state })
    }
}

#[rpc]
impl Flight {
    /// Takes a seat: true if it was free.
    pub async fn take(&self, seat: String, occupant: String) -> Result<bool> {
        let insert = "INSERT INTO seats VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let rows = self.state.storage().sql().exec(insert, (seat, occupant))?;
        Ok(rows.rows_written() == 1)
    }

    pub async fn seats(&self) -> Result<Vec<Seat>> {
        let rows = self
            .state
            .storage()
            .sql()
            .exec("SELECT * FROM seats ORDER BY seat", ())?;
        rows.to_array()
    }
}

async fn take(
    Shared(env): Shared<Env>,
    UrlPath((flight, seat)): UrlPath<(String, String)>,
    occupant: String,
) -> Result<String, ApiError> {
    let flight = env.object::<Flight>().get_by_name(&flight);
    if flight.take(seat, occupant).await?? {
        Ok("The seat is yours.\n".to_owned())
    } else {
        Err(ApiError::new(
            StatusCode::CONFLICT,
            "seat_taken",
            "The seat is taken.",
        ))
    }
}

async fn list(
    Shared(env): Shared<Env>,
    UrlPath(flight): UrlPath<String>,
) -> Result<Json<Vec<Seat>>, ApiError> {
    Ok(Json(
        env.object::<Flight>()
            .get_by_name(&flight)
            .seats()
            .await??,
    ))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let router = Router::new()
        .route("/flights/{flight}", get(list))
        .route("/flights/{flight}/seats/{seat}", post(take));
    let host = Host::open_in_memory()
        .object::<Flight>("FLIGHT")
        .router(|env| router.with_state(env))
        .start()
        .await?;
    println!("curl -d ada http://{}/flights/BA117/seats/14C", host.addr());
    println!("curl http://{}/flights/BA117", host.addr());
    tokio::signal::ctrl_c().await?;
    host.shutdown().await?;
    Ok(())
}
