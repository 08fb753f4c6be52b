// The seats of flights: each flight is an object with a table. Methods are called over HTTP with JSON.
//
// `cargo run --example seat-map`, then the commands that it prints.

use abide::{Host, prelude::*};
use serde::{Deserialize, Serialize};

#[durable_object]
pub struct Flight {
    ctx: Ctx,
}

/// A row of the table, and an element of the JSON.
#[derive(Serialize, Deserialize)]
pub struct Seat {
    seat: String,
    occupant: String,
}

impl DurableObject for Flight {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let create =
            "CREATE TABLE IF NOT EXISTS seats (seat TEXT PRIMARY KEY, occupant TEXT NOT NULL)";
        ctx.sql().exec(create, ())?;
        Ok(Self { ctx })
    }
}

#[rpc]
impl Flight {
    /// Takes a seat: true if it was free. Two calls never run at the same time, and a seat is on disk before its occupant
    /// hears of it.
    pub fn take(&self, seat: String, occupant: String) -> Result<bool> {
        let insert = "INSERT INTO seats VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let rows = self.ctx.sql().exec(insert, (seat, occupant))?;
        Ok(rows.rows_written() == 1)
    }

    pub fn seats(&self) -> Result<Vec<Seat>> {
        let sql = self.ctx.sql();
        sql.exec("SELECT * FROM seats ORDER BY seat", ())?.all()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let host = Host::open_in_memory()
        .object::<Flight>()
        .json_rpc() // for callers that are trusted with every method; others get a router: see chat.rs
        .start()
        .await?;
    let flight = format!("http://{}/rpc/Flight/BA117", host.addr());
    println!(r#"curl --json '["14C", "ada"]' {flight}/take"#);
    println!(r#"curl --json '["14C", "grace"]' {flight}/take"#);
    println!("curl --json '[]' {flight}/seats");
    tokio::signal::ctrl_c().await?;
    host.shutdown().await?;
    Ok(())
}
