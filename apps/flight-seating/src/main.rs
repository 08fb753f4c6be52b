//! The program: `flight-seating serve`.
#![forbid(unsafe_code)]

use abide::server::ServeArgs;
use clap::Parser;
use flight_seating::{ARCHIVE_BINDING, BINDING, FlightArchive, FlightSeating, router};

/// The end of the help text.
const EXAMPLE: &str = "\
Example:
  flight-seating serve --data data
  curl -X PUT --json '{\"rows\":30,\"columns\":\"ABCDEF\"}' http://127.0.0.1:8080/flights/BA117/2026-12-01

Then open http://127.0.0.1:8080.";

/// Seat maps of flights, one durable object for each flight and date
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the JSON API and the page
    Serve(ServeArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve(args) = Command::parse();
    abide::Host::from_config(args.load()?)
        .object::<FlightSeating>(BINDING)
        .object::<FlightArchive>(ARCHIVE_BINDING)
        .router(router)
        .serve()
        .await?;
    Ok(())
}
