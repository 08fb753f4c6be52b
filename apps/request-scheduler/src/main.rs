//! The program: `request-scheduler serve`, and `request-scheduler secret URL` for receivers.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use abide::{
    Host,
    server::{SecretOption, ServeArgs},
};
use abide_harness::{Receiver, ReceiverAct};
use clap::{Args, Parser};
use request_scheduler::{
    Capacity, RequestIndex, ScheduledRequest, SigningKey, limits, registry, router,
};

/// As in `abide` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The key that requests are signed with.
const KEY: SecretOption = SecretOption::new("--signing-key", "REQUEST_SCHEDULER_SIGNING_KEY");

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  request-scheduler serve --data data
  curl --json '{\"url\":\"https://example.com/\",\"triggerEverySeconds\":60}' http://127.0.0.1:8080/

Then open http://127.0.0.1:8080/requests.";

/// Scheduled HTTP requests, one durable object for each
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the API and the pages, and send what is due
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        #[command(flatten)]
        key: Key,

        /// Scheduled requests that there may be
        #[arg(long, value_name = "NUMBER", default_value_t = limits::MAX_REQUESTS)]
        max_requests: i64,
    },
    /// Print the secret with which a URL's receiver verifies requests
    Secret {
        /// The URL, or its origin
        url: String,

        #[command(flatten)]
        key: Key,
    },
    /// Listen for requests and print each: a receiver to try the scheduler with
    Receive {
        /// Address to listen on
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8090")]
        listen: String,
    },
}

#[derive(Args)]
struct Key {
    /// The key that requests are signed with; others can see a program's arguments, so better use the file [default: what
    /// `REQUEST_SCHEDULER_SIGNING_KEY` says, or the file that `REQUEST_SCHEDULER_SIGNING_KEY_FILE` names]
    #[arg(long, value_name = "KEY")]
    signing_key: Option<String>,

    /// A file with the key, and nothing else
    #[arg(long, value_name = "FILE")]
    signing_key_file: Option<PathBuf>,
}

impl Key {
    fn find(self) -> anyhow::Result<Option<SigningKey>> {
        let text = KEY.find(self.signing_key, self.signing_key_file.as_deref())?;
        text.map(SigningKey::new).transpose()
    }

    fn require(self) -> anyhow::Result<SigningKey> {
        SigningKey::new(KEY.require(self.signing_key, self.signing_key_file.as_deref())?)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve {
            serve,
            key,
            max_requests,
        } => {
            let key = key.find()?;
            Host::from_config(serve.load()?)
                .object::<ScheduledRequest>()
                .object::<RequestIndex>()
                .with(registry(key))
                .with(Capacity::new(max_requests))
                .router(router)
                .serve()
                .await?;
        }
        Command::Secret { url, key } => println!("{}", key.require()?.secret(&url)?.reveal()),
        Command::Receive { listen } => receive(&listen).await?,
    }
    Ok(())
}

/// Prints what arrives.
async fn receive(listen: &str) -> anyhow::Result<()> {
    let receiver = Receiver::start_at(listen).await;
    println!(
        "receiving on http://{}; `/fail` answers 500, all else 200",
        receiver.address()
    );
    receiver.decide(|request| {
        let key = request.key();
        let body = String::from_utf8_lossy(&request.body);
        println!("{} {} {key} {body}", request.method, request.uri);
        ReceiverAct::status(if request.path() == "/fail" { 500 } else { 200 })
    });
    tokio::signal::ctrl_c().await?;
    Ok(())
}
