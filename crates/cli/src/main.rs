//! The `abide` command.
#![forbid(unsafe_code)]

mod kv;

use abide::{Host, server::ServeArgs};
use clap::Parser;

/// Durable objects: serve them, and look into their data directory
#[derive(Parser)]
#[command(name = "abide", version)]
enum Command {
    /// Serve the ready-made key-value objects over HTTP
    Serve(ServeArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve(args) => {
            Host::from_config(args.load()?).object::<kv::Kv>(kv::BINDING).router(kv::router).serve().await?;
        }
    }
    Ok(())
}
