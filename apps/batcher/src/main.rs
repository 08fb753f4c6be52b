//! The program: `batcher serve --upstream URL`.
#![forbid(unsafe_code)]

use std::time::Duration;

use abide::{http::Uri, server::ServeArgs};
use batcher::{Batcher, Upstream, options, router};
use clap::Parser;

/// The end of the help text.
const EXAMPLE: &str = "\
Example:
  ABIDE__OUTBOUND__ALLOW_PRIVATE=127.0.0.1 batcher serve --upstream http://127.0.0.1:9000/batches
  curl --json '{\"n\":1}' http://127.0.0.1:8080/batches/foo";

/// Collect posts and send them on in batches
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Accept posts and send them on; an upstream at a private address must be allowed by the setting
    /// `outbound.allow_private`
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        /// Where to send batches: must accept POST of a JSON array
        #[arg(long, value_name = "URL")]
        upstream: Uri,

        /// Milliseconds from a batch's first post until it is sent
        #[arg(long, default_value_t = 10_000)]
        window_ms: u64,

        /// Milliseconds before the first retry of a batch; doubles each time, up to a minute
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
        .object_with::<Batcher>(options(Duration::from_millis(retry_ms)))
        .with(Upstream {
            url: upstream,
            window: Duration::from_millis(window_ms),
        })
        .router(router)
        .serve()
        .await?;
    Ok(())
}
