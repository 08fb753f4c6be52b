//! The program: `browser-sessions serve`.
#![forbid(unsafe_code)]

use std::{path::PathBuf, time::Duration};

use abide::server::{AddressPolicy, ServeArgs};
use anyhow::Context;
use browser_sessions::{
    BrowserSession, IdleTime,
    browser::{
        memory::MemoryWatch,
        outcome::PageLimits,
        pool::{Browsers, PoolOptions},
        process::Launch,
    },
    limits,
    pictures::{Bucket, Pictures},
    router,
};
use clap::{Args, Parser};

/// As in `abide` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  browser-sessions serve --data data
  curl --json '{\"url\":\"https://example.com/\"}' http://127.0.0.1:8080/sessions/main/screenshots

Then open http://127.0.0.1:8080.";

/// The longest time of a page: with everything that it may wait for, a request is done before its handler is stopped.
const MAX_PAGE_SECONDS: u64 = 60;

/// The longest idle time: a day.
const MAX_IDLE_SECONDS: u64 = 24 * 3_600;

/// Screenshots by browsers that stay open between requests
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the API and the gallery
    Serve(Box<Serve>),
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    host: ServeArgs,

    /// Chromium, or a browser of its family
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "chromium",
        env = "BROWSER_SESSIONS_CHROMIUM"
    )]
    chromium: PathBuf,

    /// Run Chromium without its sandbox: as root, and in containers, it does not start with it
    #[arg(long, env = "BROWSER_SESSIONS_NO_SANDBOX", value_parser = clap::builder::FalseyValueParser::new())]
    no_sandbox: bool,

    /// Seconds without a request after which a session's browser is closed
    #[arg(long, value_name = "SECONDS", default_value_t = limits::IDLE.as_secs(), value_parser = clap::value_parser!(u64).range(1..=MAX_IDLE_SECONDS))]
    idle: u64,

    /// Browsers that run at a time
    #[arg(long, value_name = "COUNT", default_value_t = limits::MAX_BROWSERS as u64, value_parser = clap::value_parser!(u64).range(1..=64))]
    max_browsers: u64,

    /// Pages that one browser has at a time
    #[arg(long, value_name = "COUNT", default_value_t = limits::MAX_PAGES as u64, value_parser = clap::value_parser!(u64).range(1..=64))]
    max_pages: u64,

    /// Seconds that a page has, from its first visit to its last picture
    #[arg(long, value_name = "SECONDS", default_value_t = limits::PAGE_TIME.as_secs(), value_parser = clap::value_parser!(u64).range(1..=MAX_PAGE_SECONDS))]
    page_time: u64,

    /// Bytes that each visit of a page may load
    #[arg(long, value_name = "BYTES", default_value_t = limits::PAGE_BYTES)]
    page_bytes: u64,

    /// MiB of memory that one browser may take with all its pages
    #[arg(long, value_name = "MIB", default_value_t = limits::BROWSER_MEMORY_MIB, env = "BROWSER_SESSIONS_BROWSER_MEMORY", value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    browser_memory: u64,

    /// Directory of the pictures [default: `pictures` in the data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "bucket")]
    pictures: Option<PathBuf>,

    #[command(flatten)]
    bucket: BucketArgs,
}

#[derive(Args)]
struct BucketArgs {
    /// Keep the pictures in this bucket of an S3-compatible service; `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` are its
    /// credentials
    #[arg(
        long = "s3-bucket",
        value_name = "NAME",
        env = "BROWSER_SESSIONS_S3_BUCKET"
    )]
    bucket: Option<String>,

    /// The service, such as `http://127.0.0.1:9000` [default: Amazon's]
    #[arg(
        long = "s3-endpoint",
        value_name = "URL",
        env = "BROWSER_SESSIONS_S3_ENDPOINT",
        requires = "bucket"
    )]
    endpoint: Option<String>,

    /// The bucket's region [default: what `AWS_REGION` says, or us-east-1]
    #[arg(
        long = "s3-region",
        value_name = "REGION",
        env = "BROWSER_SESSIONS_S3_REGION",
        requires = "bucket"
    )]
    region: Option<String>,

    /// What every key in the bucket begins with
    #[arg(
        long = "s3-prefix",
        value_name = "PREFIX",
        env = "BROWSER_SESSIONS_S3_PREFIX",
        requires = "bucket"
    )]
    prefix: Option<String>,
}

impl BucketArgs {
    fn bucket(self) -> Option<Bucket> {
        Some(Bucket {
            name: self.bucket?,
            endpoint: self.endpoint,
            region: self.region,
            prefix: self.prefix,
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve(args) = Command::parse();
    serve(*args).await
}

async fn serve(args: Serve) -> anyhow::Result<()> {
    let mut config = args.host.load()?;
    let data = config.data.dir.clone();
    let pictures = match args.bucket.bucket() {
        Some(bucket) => Pictures::in_bucket(&bucket)?,
        None => Pictures::in_directory(&args.pictures.unwrap_or_else(|| data.join("pictures")))?,
    };
    let page_time = Duration::from_secs(args.page_time);
    // A client learns how its page ended, not that the server has lost patience.
    let request_time = limits::request_time(page_time);
    config.server.request_timeout = config.server.request_timeout.max(request_time);
    let memory = MemoryWatch::start(args.browser_memory << 20)
        .context("starting the watch of browsers' memory")?;
    let browsers = Browsers::new(PoolOptions {
        launch: Launch {
            chromium: args.chromium,
            no_sandbox: args.no_sandbox,
            profiles: data.join("browsers"),
            memory,
        },
        max_browsers: usize::try_from(args.max_browsers)?,
        max_pages: usize::try_from(args.max_pages)?,
        page: PageLimits {
            time: page_time,
            bytes: args.page_bytes,
        },
        policy: AddressPolicy::new(config.outbound.allow_private.clone()),
        patience: limits::PATIENCE,
    });
    let running = browsers.clone();
    let served = abide::Host::from_config(config)
        .object::<BrowserSession>()
        .with(IdleTime(Duration::from_secs(args.idle)))
        .with(pictures)
        .with(browsers.clone())
        .router(move |env| {
            // The store is open, so the data directory is this process's alone.
            browsers.sweep();
            router(env)
        })
        .serve()
        .await;
    running.shutdown().await;
    Ok(served?)
}
