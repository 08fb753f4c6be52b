//! The program: `batcher serve --upstream URL`.
#![forbid(unsafe_code)]

use std::time::Duration;

use abide::{http::Uri, server::ServeArgs};
use batcher::{BINDING, Batcher, Upstream, options, router};
use clap::Parser;

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  ABIDE__OUTBOUND__ALLOW_PRIVATE=127.0.0.1 batcher serve --upstream http://127.0.0.1:9000/batches
  curl --json '{\"n\":1}' http://127.0.0.1:8080/batches/foo";

/// Gathers posts and sends them on in batches
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Take posts and send them on; the setting `outbound.allow_private` must name an upstream at a private address
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        /// Where batches go: takes POST of a JSON array
        #[arg(long, value_name = "URL")]
        upstream: Uri,

        /// Milliseconds from a batch's first post to its sending
        #[arg(long, default_value_t = 10_000)]
        window_ms: u64,

        /// Milliseconds before a batch that was not taken is sent again; doubled each time, up to a minute
        #[arg(long, default_value_t = 2_000)]
        retry_ms: u64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve {
        serve,
        upstream,
        window_ms,
        retry_ms,
    } = Command::parse();
    abide::Host::from_config(serve.load()?)
        .object_with::<Batcher>(BINDING, options(Duration::from_millis(retry_ms)))
        .with(Upstream {
            url: upstream,
            window: Duration::from_millis(window_ms),
        })
        .router(router)
        .serve()
        .await?;
    Ok(())
}
