//! The program: `blog-comments serve --smtp smtp://HOST:PORT`, and `blog-comments fake-smtp` to try it with.
#![forbid(unsafe_code)]

use std::{path::PathBuf, time::Duration};

use abide::outbox::handlers::SmtpDelivery;
use abide::server::{SecretOption, ServeArgs};
use abide_harness::SmtpServer;
use anyhow::Context;
use blog_comments::{Blog, Limits, Site, options, registry, router};
use clap::{Args, Parser};

/// The end of the help text.
const EXAMPLE: &str = "\
Example:
  blog-comments fake-smtp
  BLOG_COMMENTS_OWNER_TOKEN=secret blog-comments serve --smtp smtp://127.0.0.1:2525

Then open http://127.0.0.1:8080, and http://127.0.0.1:8080/owner for what failed.";

/// The mail server: its URL may contain a password.
const SMTP: SecretOption = SecretOption::new("--smtp", "BLOG_COMMENTS_SMTP");

/// The owner's token.
const OWNER_TOKEN: SecretOption = SecretOption::new("--owner-token", "BLOG_COMMENTS_OWNER_TOKEN");

/// The comments of a blog, and their mails
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the blog
    Serve(Box<Serve>),
    /// Run a fake mail server that prints the mails: none leaves this machine
    FakeSmtp {
        /// Address to listen on
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:2525")]
        listen: String,
    },
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    settings: ServeArgs,

    /// The mail server for the blog's mails; other users can see a program's arguments, so a password is better in the
    /// file [default: the value of `BLOG_COMMENTS_SMTP`, or the file named by `BLOG_COMMENTS_SMTP_FILE`]
    #[arg(long, value_name = "URL")]
    smtp: Option<String>,

    /// A file that contains only the mail server's URL
    #[arg(long, value_name = "FILE")]
    smtp_file: Option<PathBuf>,

    /// The public URL of the blog; links in mails begin with it
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,

    /// The title of the blog
    #[arg(long, default_value = "Notes on durable things")]
    title: String,

    /// The sender of the mails
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "Notes on durable things <blog@example.com>"
    )]
    from: String,

    /// The token for writing posts and seeing the mails; without one, no client may. The file is better [default: the
    /// value of `BLOG_COMMENTS_OWNER_TOKEN`, or the file named by `BLOG_COMMENTS_OWNER_TOKEN_FILE`]
    #[arg(long, value_name = "TOKEN")]
    owner_token: Option<String>,

    /// A file that contains only the owner's token
    #[arg(long, value_name = "FILE")]
    owner_token_file: Option<PathBuf>,

    /// The header in which mails have their tag, `thanks`, `confirm` or `notice`, for the statistics of mail services:
    /// `X-PM-Tag`, `X-Mailgun-Tag`
    #[arg(long, value_name = "NAME", default_value = "X-Tag")]
    tag_header: String,

    /// Comments per hour that one client may post
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().comments_per_client)]
    client_comments: u32,

    /// Comments per hour with one e-mail address
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().comments_per_address)]
    address_comments: u32,

    /// Milliseconds before the first retry of a mail; doubles each time, up to an hour
    #[arg(long, default_value_t = 2_000)]
    retry_ms: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve(options) => serve(*options).await,
        Command::FakeSmtp { listen } => fake_smtp(&listen).await,
    }
}

async fn serve(told: Serve) -> anyhow::Result<()> {
    let owner_token = OWNER_TOKEN.find(told.owner_token, told.owner_token_file.as_deref())?;
    let smtp = SMTP.require(told.smtp, told.smtp_file.as_deref())?;
    let site = Site {
        title: told.title,
        url: told.url.trim_end_matches('/').to_owned(),
        from: told.from,
        owner_token,
        tag_header: told.tag_header,
    };
    let site = site.checked().map_err(anyhow::Error::msg)?;
    abide::Host::from_config(told.settings.load()?)
        .object::<Blog>()
        .with(registry(site.clone(), SmtpDelivery::new(&smtp)?))
        .with(options(Duration::from_millis(told.retry_ms)))
        .with(Limits {
            comments_per_client: told.client_comments,
            comments_per_address: told.address_comments,
        })
        .with(site)
        .router(router)
        .serve()
        .await?;
    Ok(())
}

/// The largest mail that the fake server accepts, in bytes.
const MAX_MAIL: usize = 1 << 20;

async fn fake_smtp(listen: &str) -> anyhow::Result<()> {
    std::net::TcpListener::bind(listen).with_context(|| format!("--listen {listen}"))?;
    let double = SmtpServer::start_at(listen, MAX_MAIL).await;
    println!("a fake mail server; in another terminal:");
    println!(
        "cargo run --profile quick -p blog-comments -- serve --smtp {}",
        double.url()
    );
    println!("then open http://127.0.0.1:8080/");
    let mut shown = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            ended = tokio::signal::ctrl_c() => return Ok(ended?),
            _ = ticks.tick() => {}
        }
        let mails = double.received();
        for mail in &mails[shown..] {
            let parsed = mail.parse();
            let text = parsed.body_text(0).unwrap_or_default();
            println!("\nTo {}: {}\n\n{text}", mail.to.join(", "), mail.subject());
        }
        shown = mails.len();
    }
}
