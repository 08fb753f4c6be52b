//! The program: `game-rooms serve`.
#![forbid(unsafe_code)]

use abide::server::ServeArgs;
use clap::Parser;
use game_rooms::{Codes, Limits, install};

/// As in `abide` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  game-rooms serve --data data

Then open http://127.0.0.1:8080.";

/// A game on the computer with the phone as its controller
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the pages and the rooms
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        #[command(flatten)]
        limits: Limits,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve { serve, limits } = Command::parse();
    let host = abide::Host::from_config(serve.load()?);
    install(host, limits, Codes::default()).serve().await?;
    Ok(())
}
