//! The program: `email-outbox serve`, and `email-outbox fake-acs` to try it with.
#![forbid(unsafe_code)]

use abide::{
    Host,
    http::Uri,
    server::{AllowPrivate, ServeArgs},
};
use abide_harness::{AcsMischief, AcsOptions, AcsServer};
use abide_patterns::outbox::{Options, Pace};
use anyhow::Context;
use clap::{Args, Parser};
use email_outbox::{Author, BINDING, Mails, Sender, registry, router};

/// Where the key is looked for that `--acs-key` does not give. Others can see a program's arguments.
const KEY_VARIABLE: &str = "EMAIL_OUTBOX_ACS_KEY";

/// Where the mail server is looked for that `--smtp` does not give: its address may hold a password.
const SMTP_VARIABLE: &str = "EMAIL_OUTBOX_SMTP";

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  email-outbox fake-acs

It prints the command that sends mails to it. Then open http://127.0.0.1:8080.";

/// A durable outbox of e-mails
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the pages and send the mails
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        #[command(flatten)]
        service: Service,

        /// The address that mails come from
        #[arg(
            long,
            value_name = "ADDRESS",
            default_value = "Outbox <outbox@example.com>"
        )]
        from: String,

        /// Send 15 mails and ask about 20 every 10 seconds, instead of each mail at once
        #[arg(long)]
        classic: bool,
    },
    /// Pretend to be Azure Communication Services on a bad day: no mail leaves this machine
    FakeAcs {
        /// Address to listen on
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8090")]
        listen: String,

        /// The same seed and the same requests give the same mischief
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Args)]
#[group(multiple = false)]
struct Which {
    /// Endpoint of Azure Communication Services
    #[arg(long, value_name = "URL")]
    acs: Option<String>,

    /// A mail server: `smtp://HOST:PORT`, `smtps://USER:PASSWORD@HOST` [default: what `EMAIL_OUTBOX_SMTP` says]
    #[arg(long, value_name = "URL")]
    smtp: Option<String>,
}

#[derive(Args)]
struct Service {
    #[command(flatten)]
    which: Which,

    /// Its access key, in base64 [default: what `EMAIL_OUTBOX_ACS_KEY` says]
    #[arg(long, value_name = "KEY", requires = "acs")]
    acs_key: Option<String>,
}

impl Service {
    fn sender(self) -> anyhow::Result<Sender> {
        match (self.which.acs, self.which.smtp) {
            (Some(endpoint), _) => {
                let key = self.acs_key.or_else(|| std::env::var(KEY_VARIABLE).ok());
                let key = key.with_context(|| format!("give --acs-key, or set {KEY_VARIABLE}"))?;
                Ok(Sender::Acs { endpoint, key })
            }
            (None, url) => {
                let url = url.or_else(|| std::env::var(SMTP_VARIABLE).ok());
                let url = url.with_context(|| {
                    format!("give --acs <URL>|--smtp <URL>, or set {SMTP_VARIABLE}")
                })?;
                Ok(Sender::Smtp { url })
            }
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve {
            serve,
            service,
            from,
            classic,
        } => {
            let sender = service.sender()?;
            let author = Author::parse(&from).context("--from")?;
            let mut options = Options::default();
            if classic {
                options.pace = Pace::CLASSIC;
            }
            serve_mails(serve, &sender, author, options).await
        }
        Command::FakeAcs { listen, seed } => fake_acs(listen, seed).await,
    }
}

async fn serve_mails(
    serve: ServeArgs,
    sender: &Sender,
    author: Author,
    options: Options,
) -> anyhow::Result<()> {
    let mut config = serve.load()?;
    // Whoever names the service wants it to be reached: nothing else is ever asked for.
    if let Sender::Acs { endpoint, .. } = sender
        && config.outbound.allow_private == AllowPrivate::None
        && let Some(address) = literal_address(endpoint)
    {
        config.outbound.allow_private = address;
    }
    Host::from_config(config)
        .object::<Mails>(BINDING)
        .with(registry(sender)?)
        .with(options)
        .with(author)
        .router(router)
        .serve()
        .await?;
    Ok(())
}

/// The address in a URL that has one instead of a name.
fn literal_address(url: &str) -> Option<AllowPrivate> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']);
    host.parse().ok()
}

async fn fake_acs(listen: String, seed: u64) -> anyhow::Result<()> {
    std::net::TcpListener::bind(&listen).with_context(|| format!("--listen {listen}"))?;
    let options = AcsOptions {
        listen,
        poll_after: Some(2),
        mischief: AcsMischief::lively(seed),
        ..AcsOptions::default()
    };
    let double = AcsServer::start(options).await;
    println!("a double of the mail service; in another terminal:");
    println!(
        "cargo run --profile quick -p email-outbox -- serve --acs {} --acs-key {}",
        double.endpoint(),
        double.access_key()
    );
    println!("then open http://127.0.0.1:8080/");
    println!("ABIDE__ADMIN__LISTEN=127.0.0.1:0 lets it run beside another program of this kind");
    tokio::signal::ctrl_c().await?;
    println!("{} mails were taken", double.mails().len());
    Ok(())
}
