//! The program: `flight-seating serve`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use abide::{
    Host,
    server::{Config, HostBuilder, MigrateArgs, ServeArgs},
};
use clap::Parser;
use flight_seating::{FlightArchive, FlightSeating, router};

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
    /// Try the migrations of this program on every object of a data directory, and change nothing
    Migrate(MigrateArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Command::parse() {
        Command::Serve(args) => host(args.load()?).router(router).serve().await?,
        Command::Migrate(args) => return Ok(host(args.load()?).migrate(&args).await?),
    }
    Ok(ExitCode::SUCCESS)
}

fn host(config: Config) -> HostBuilder {
    Host::from_config(config)
        .object::<FlightSeating>()
        .object::<FlightArchive>()
}
