//! The program: `email-outbox serve`, and `email-outbox fake-acs` to try it with.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use abide::outbox::OutboxOptions;
use abide::{
    Host,
    http::Uri,
    server::{AllowPrivate, SecretOption, ServeArgs},
};
use abide_harness::{AcsMischief, AcsOptions, AcsServer};
use anyhow::Context;
use clap::{Args, Parser};
use email_outbox::{Author, Mails, Sender, classic, registry, router};

/// The service's access key.
const KEY: SecretOption = SecretOption::new("--acs-key", "EMAIL_OUTBOX_ACS_KEY");

/// The mail server: its URL may contain a password.
const SMTP: SecretOption = SecretOption::new("--smtp", "EMAIL_OUTBOX_SMTP");

/// The end of the help text.
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
        service: Box<Service>,

        /// The sender of the mails
        #[arg(
            long,
            value_name = "ADDRESS",
            default_value = "Outbox <outbox@example.com>"
        )]
        from: String,

        /// Send 15 mails and poll 20, those just sent first, every 10 seconds, instead of each mail immediately, and
        /// never give up
        #[arg(long)]
        classic: bool,
    },
    /// Run a fake Azure Communication Services with fault injection: no mail leaves this machine
    FakeAcs {
        /// Address to listen on
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8090")]
        listen: String,

        /// The same seed and the same requests give the same faults
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

    /// A mail server: `smtp://HOST:PORT`, `smtps://USER:PASSWORD@HOST`; other users can see a program's arguments, so a
    /// password is better in the file [default: the value of `EMAIL_OUTBOX_SMTP`, or the file named by
    /// `EMAIL_OUTBOX_SMTP_FILE`]
    #[arg(long, value_name = "URL")]
    smtp: Option<String>,

    /// A file that contains only the mail server's URL
    #[arg(long, value_name = "FILE")]
    smtp_file: Option<PathBuf>,
}

#[derive(Args)]
struct Service {
    #[command(flatten)]
    which: Which,

    /// Its access key, in base64; the file is better [default: the value of `EMAIL_OUTBOX_ACS_KEY`, or the file named
    /// by `EMAIL_OUTBOX_ACS_KEY_FILE`]
    #[arg(long, value_name = "KEY", requires = "acs")]
    acs_key: Option<String>,

    /// A file that contains only the access key
    #[arg(long, value_name = "FILE", requires = "acs")]
    acs_key_file: Option<PathBuf>,
}

impl Service {
    fn sender(self) -> anyhow::Result<Sender> {
        let Which {
            acs,
            smtp,
            smtp_file,
        } = self.which;
        match acs {
            Some(endpoint) => {
                SMTP.refuse_beside("--acs")?;
                let key = KEY.require(self.acs_key, self.acs_key_file.as_deref())?;
                Ok(Sender::Acs { endpoint, key })
            }
            None => {
                KEY.refuse_without("--acs")?;
                let url = SMTP.find(smtp, smtp_file.as_deref())?;
                let url = url.context(
                    "pass --acs <URL>|--smtp <URL>|--smtp-file <FILE>, or set EMAIL_OUTBOX_SMTP or EMAIL_OUTBOX_SMTP_FILE",
                )?;
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
            classic: as_classic,
        } => {
            let sender = service.sender()?;
            let author = Author::parse(&from).context("--from")?;
            let options = if as_classic {
                classic()
            } else {
                OutboxOptions::default()
            };
            serve_mails(serve, &sender, author, options).await
        }
        Command::FakeAcs { listen, seed } => fake_acs(listen, seed).await,
    }
}

async fn serve_mails(
    serve: ServeArgs,
    sender: &Sender,
    author: Author,
    options: OutboxOptions,
) -> anyhow::Result<()> {
    let mut config = serve.load()?;
    // The configured service must be reachable: no other address is ever requested.
    if let Sender::Acs { endpoint, .. } = sender
        && config.outbound.allow_private == AllowPrivate::None
        && let Some(address) = literal_address(endpoint)
    {
        config.outbound.allow_private = address;
    }
    Host::from_config(config)
        .object::<Mails>()
        .with(registry(sender)?)
        .with(options)
        .with(author)
        .router(router)
        .serve()
        .await?;
    Ok(())
}

/// The IP address in a URL without a host name.
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
    println!("a fake mail service; in another terminal:");
    println!(
        "cargo run --profile quick -p email-outbox -- serve --acs {} --acs-key {}",
        double.endpoint(),
        double.access_key()
    );
    println!("then open http://127.0.0.1:8080/");
    println!("ABIDE__ADMIN__LISTEN=127.0.0.1:0 lets it run beside another program of this kind");
    tokio::signal::ctrl_c().await?;
    println!("{} mails were accepted", double.mails().len());
    Ok(())
}
