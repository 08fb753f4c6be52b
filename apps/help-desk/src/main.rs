//! The command line of the help desk.

use std::time::Duration;

use abide::{Host, outbox::handlers::Secret, server::ServeArgs};
use anyhow::{Context, Result};
use clap::Parser;
use help_desk::{Hook, Settings, install};

/// Help desks whose tickets survive crashes.
#[derive(Parser)]
enum Command {
    /// Serves desks over HTTP and WebSockets.
    Serve {
        #[command(flatten)]
        host: ServeArgs,

        /// Escalate tickets that are not closed after this many seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 4 * 60 * 60, env = "HELP_DESK_ESCALATE_AFTER")]
        escalate_after: u64,

        /// Post an event to this URL when a ticket is closed. Needs the secret.
        #[arg(
            long,
            value_name = "URL",
            requires = "webhook_secret",
            env = "HELP_DESK_WEBHOOK"
        )]
        webhook: Option<String>,

        /// The secret that signs these events: `whsec_` and 24 to 64 bytes in base64.
        #[arg(
            long,
            value_name = "SECRET",
            requires = "webhook",
            hide_env_values = true,
            env = "HELP_DESK_WEBHOOK_SECRET"
        )]
        webhook_secret: Option<String>,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let Command::Serve {
        host,
        escalate_after,
        webhook,
        webhook_secret,
    } = Command::parse();
    let hook = match webhook.zip(webhook_secret) {
        Some((url, secret)) => Some(Hook {
            url,
            secret: secret.parse::<Secret>().context("--webhook-secret")?,
        }),
        None => None,
    };
    let settings = Settings {
        escalate_after: Duration::from_secs(escalate_after),
        hook,
        ..Settings::default()
    };
    install(Host::from_config(host.load()?), settings)
        .serve()
        .await?;
    Ok(())
}
