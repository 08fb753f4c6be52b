//! The program: `chat serve`.
#![forbid(unsafe_code)]

use std::time::Duration;

use abide::server::ServeArgs;
use chat::{ChatRoom, Pace, RateLimiter, router};
use clap::Parser;

/// The end of the help text.
const EXAMPLE: &str = "\
Example:
  chat serve

Then open http://127.0.0.1:8080 in two windows.";

/// Chat rooms that survive power failures
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the rooms and the page
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        /// Messages that one address may write at once
        #[arg(long, default_value_t = Pace::default().burst)]
        burst: u32,

        /// Milliseconds in which one address may write one more
        #[arg(long, default_value_t = 500)]
        refill_ms: u64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve {
        serve,
        burst,
        refill_ms,
    } = Command::parse();
    abide::Host::from_config(serve.load()?)
        .with(Pace {
            burst,
            refill: Duration::from_millis(refill_ms),
        })
        .object::<ChatRoom>()
        .object::<RateLimiter>()
        .router(router)
        .serve()
        .await?;
    Ok(())
}
