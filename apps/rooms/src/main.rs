//! The program: `rooms serve`.
#![forbid(unsafe_code)]

use abide::server::ServeArgs;
use clap::Parser;
use rooms::{Bounds, Channel, DocumentRoom, router};

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  rooms serve

Then open http://127.0.0.1:8080 in two windows.";

/// Documents that several people edit at once, and rooms for partysocket
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the rooms and the page
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        /// Connections of one room; the next is refused with 503
        #[arg(long, default_value_t = Bounds::default().max_connections)]
        max_connections: usize,

        /// Bytes of one stored document; an update that does not fit is refused
        #[arg(long, default_value_t = Bounds::default().max_document_bytes)]
        max_document_bytes: u64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve {
        serve,
        max_connections,
        max_document_bytes,
    } = Command::parse();
    abide::Host::from_config(serve.load()?)
        .with(Bounds {
            max_connections,
            max_document_bytes,
        })
        .object::<DocumentRoom>()
        .object::<Channel>()
        .router(router)
        .serve()
        .await?;
    Ok(())
}
