//! The program: `flight-seating serve`.
#![forbid(unsafe_code)]

use abide::server::ServeArgs;
use clap::Parser;
use flight_seating::{ARCHIVE_BINDING, BINDING, FlightArchive, FlightSeating, router};

/// Seat maps of flights, one durable object for each flight and date
#[derive(Parser)]
#[command(version)]
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
