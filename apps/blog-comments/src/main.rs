//! The program: `blog-comments serve --smtp smtp://HOST:PORT`.
#![forbid(unsafe_code)]

use std::time::Duration;

use abide::server::ServeArgs;
use abide_patterns::{deliver::SmtpDelivery, outbox};
use blog_comments::{BINDING, Blog, Site, options, registry, router};
use clap::Parser;

/// The comments of a blog, and their mails
#[derive(Parser)]
#[command(version)]
enum Command {
    /// Serve the blog
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        /// The mail server that takes the blog's mails
        #[arg(long, value_name = "URL")]
        smtp: String,

        /// Where readers find the blog; links in mails begin with it
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
        url: String,

        /// What the blog is called
        #[arg(long, default_value = "Notes on durable things")]
        title: String,

        /// Whose mails they are
        #[arg(
            long,
            value_name = "ADDRESS",
            default_value = "Notes on durable things <blog@example.com>"
        )]
        from: String,

        /// Who knows it may write posts and see the mails; nobody may if it is not given
        #[arg(long, value_name = "TOKEN")]
        owner_token: Option<String>,

        /// Milliseconds before a mail that was not taken is sent again; doubled each time, up to an hour
        #[arg(long, default_value_t = 2_000)]
        retry_ms: u64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve {
        serve,
        smtp,
        url,
        title,
        from,
        owner_token,
        retry_ms,
    } = Command::parse();
    let site = Site {
        title,
        url: url.trim_end_matches('/').to_owned(),
        from,
        owner_token,
    };
    let site = site.checked().map_err(anyhow::Error::msg)?;
    abide::Host::from_config(serve.load()?)
        .object_with::<Blog>(BINDING, outbox::class_options())
        .with(registry(site.clone(), SmtpDelivery::new(&smtp)?))
        .with(options(Duration::from_millis(retry_ms)))
        .with(site)
        .router(router)
        .serve()
        .await?;
    Ok(())
}
