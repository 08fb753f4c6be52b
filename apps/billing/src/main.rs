//! The program: `billing serve`, and commands for a running server.
#![forbid(unsafe_code)]

mod command;
mod policy;

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use abide::{
    Env, Host,
    clock::{Clock, SystemClock},
    server::{Config, Hosts, SecretOption, ServeArgs},
};
use abide::{
    outbox::handlers::Secret,
    outcomes::Until,
    projection::{PostgresModel, ReadModel, SqliteModel},
};
use anyhow::Context;
use axum::Router;
use billing::{
    gateway::{AnyGateway, EventSecrets, HttpGateway, LocalGateway, Mischief, server},
    host, read, router,
    states::Policy,
    test_clock::TestModeClock,
};
use clap::{Args, Parser};

use command::Server;

/// The gateway's key.
const KEY: SecretOption = SecretOption::new("--gateway-key", "BILLING_GATEWAY_KEY");

/// The secret of the gateway's webhook signatures.
const EVENTS_SECRET: SecretOption =
    SecretOption::new("--gateway-events-secret", "BILLING_GATEWAY_EVENTS_SECRET");

/// The token of the commands. It cannot be given as an option value.
const TOKEN: SecretOption = SecretOption::new("--token", "ABIDE_TOKEN");

/// The read model in the data directory.
const READ_MODEL: &str = "read-model.db";

/// The journal of the local gateway, in the data directory.
const LOCAL_GATEWAY: &str = "local-gateway.jsonl";

/// Pause between two checks for webhooks of the local gateway.
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes of the local gateway's secret.
const SECRET_BYTES: usize = 32;

/// The end of the help text.
const EXAMPLE: &str = "\
Example:
  billing serve

Then open http://127.0.0.1:8080. Each command has its own help page: billing serve --help.";

/// Subscription billing in which every resource is a durable object
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve the API and the pages
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        #[command(flatten)]
        options: Box<Options>,
    },
    /// Rebuild the read model of a running server from all resources
    Rebuild {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show how a resource reached its present or an earlier state
    Replay {
        /// The resource, such as `in_sub_1_0`
        id: String,

        /// Up to the end, an outcome, or a time such as 2026-02-01T12:00:00Z
        #[arg(long, value_name = "SEQ|TIME", default_value = "end", value_parser = place)]
        until: String,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Compare the replay of a chain with the live state
    Check {
        /// The resource
        #[arg(required_unless_present = "all")]
        id: Option<String>,

        /// All resources
        #[arg(long, conflicts_with = "id")]
        all: bool,

        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Args)]
struct Options {
    /// The payment gateway [default: a local one with fault injection, whose page the program prints]
    #[arg(long, value_name = "URL")]
    gateway: Option<String>,

    /// Its key; other users can see a program's arguments, so the file is better [default: the value of
    /// `BILLING_GATEWAY_KEY`, or the file named by `BILLING_GATEWAY_KEY_FILE`]
    #[arg(long, value_name = "KEY", requires = "gateway")]
    gateway_key: Option<String>,

    /// A file that contains only the key
    #[arg(long, value_name = "FILE", requires = "gateway")]
    gateway_key_file: Option<PathBuf>,

    /// The secret of its webhook signatures, received at /v1/gateway/events; without one no webhook is trusted, and
    /// payments poll [default: the value of `BILLING_GATEWAY_EVENTS_SECRET`, or the file named by
    /// `BILLING_GATEWAY_EVENTS_SECRET_FILE`]
    #[arg(long, value_name = "SECRET", requires = "gateway")]
    gateway_events_secret: Option<String>,

    /// A file that contains only that secret
    #[arg(long, value_name = "FILE", requires = "gateway")]
    gateway_events_secret_file: Option<PathBuf>,

    /// The local gateway sends no webhooks
    #[arg(long, conflicts_with = "gateway")]
    quiet_gateway: bool,

    /// A `PostgreSQL` server for the read model: `host=127.0.0.1 user=billing dbname=billing`; its password is best
    /// kept in the file named by `passfile=FILE`, or in `PGPASSWORD` [default: a file]
    #[arg(long, value_name = "CONNECTION")]
    postgres: Option<String>,

    /// The file of the read model [default: `read-model.db` in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with = "postgres")]
    read_model: Option<PathBuf>,

    /// Use a clock that can be moved forward (`/v1/test-clock`), with a separate data directory for tests
    #[arg(long, conflicts_with = "gateway")]
    test_clock: bool,

    #[command(flatten)]
    policy: policy::PolicyArgs,

    /// A host name with a dot for the server, such as `billing.example.com`; may be given several times
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

#[derive(Args)]
struct ServerArgs {
    /// The server's listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,

    /// File with the token to send, if the server requires one [default: the value of the variable `ABIDE_TOKEN`]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ServerArgs {
    fn server(&self) -> anyhow::Result<Server> {
        let token = TOKEN.find(None, self.token_file.as_deref())?;
        Ok(Server::new(&self.url, token.as_deref()))
    }
}

/// A position in a chain, in the server's format.
fn place(text: &str) -> Result<String, String> {
    match text.parse::<Until>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn main() -> anyhow::Result<ExitCode> {
    match Command::parse() {
        Command::Serve { serve, options } => run(serve, *options).map(|()| ExitCode::SUCCESS),
        Command::Rebuild { server } => server.server()?.rebuild(),
        Command::Replay { id, until, server } => server.server()?.replay(&id, &until),
        Command::Check { id, server, .. } => match id {
            Some(id) => server.server()?.check(&id),
            None => server.server()?.check_all(),
        },
    }
}

#[tokio::main]
async fn run(serve: ServeArgs, mut options: Options) -> anyhow::Result<()> {
    let mut config = serve.load()?;
    let hosts = std::mem::take(&mut options.hosts);
    if !hosts.is_empty() {
        config.server.hosts = Hosts::Named(hosts);
    }
    let policy = options.policy.policy()?;
    let test_clock = test_clock(&config, options.test_clock)?;
    let clock: Arc<dyn Clock> = match &test_clock {
        Some(clock) => Arc::new(clock.clone()),
        None => Arc::new(SystemClock::new()),
    };
    let tables = read::tables()?;
    let model: Arc<dyn ReadModel> = match &options.postgres {
        Some(server) => Arc::new(PostgresModel::new(server, tables)?),
        None => {
            let file = match options.read_model.take() {
                Some(file) => file,
                None => in_data(&config, READ_MODEL)?,
            };
            Arc::new(SqliteModel::open(file, tables)?)
        }
    };
    let Some(url) = &options.gateway else {
        KEY.refuse_without("--gateway")?;
        EVENTS_SECRET.refuse_without("--gateway")?;
        return serve_with_local_gateway(config, options, clock, test_clock, model, policy).await;
    };
    let key = KEY.require(options.gateway_key, options.gateway_key_file.as_deref())?;
    let secret = EVENTS_SECRET.find(
        options.gateway_events_secret,
        options.gateway_events_secret_file.as_deref(),
    )?;
    let secret: Option<Secret> = secret
        .map(|text| text.parse().context("the secret of the gateway's webhooks"))
        .transpose()?;
    let gateway = AnyGateway::new(HttpGateway::new(url, &key));
    let mut host = host::install(Host::from_config(config), gateway, model).with(policy);
    if let Some(secret) = secret {
        host = host.with(EventSecrets::new([secret]));
    }
    Ok(host.serve().await?)
}

/// Serves with the built-in gateway.
async fn serve_with_local_gateway(
    mut config: Config,
    options: Options,
    clock: Arc<dyn Clock>,
    test_clock: Option<TestModeClock>,
    model: Arc<dyn ReadModel>,
    policy: Policy,
) -> anyhow::Result<()> {
    let file = in_data(&config, LOCAL_GATEWAY)?;
    let local = LocalGateway::open("local", Mischief::lively(1), Arc::clone(&clock), &file)
        .with_context(|| file.display().to_string())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    eprintln!("a gateway with fault injection, for trying the program: http://{address}/pay/pay_1");
    let pages = server::router(local.clone(), address);
    tokio::spawn(axum::serve(listener, pages).into_future());
    // Apart from webhook endpoints, no other address is ever requested.
    let allowed = std::mem::take(&mut config.outbound.allow_private);
    config.outbound.allow_private = allowed.and(address.ip());
    let gateway = AnyGateway::new(HttpGateway::new(&format!("http://{address}"), "local"));
    let secret = fresh_secret()?;
    let mut host = host::install(Host::from_config(config), gateway, model).clock(clock);
    if let Some(test_clock) = test_clock {
        host = host.with(test_clock);
    }
    host.with(EventSecrets::new([secret.clone()]))
        .with(policy)
        .router(move |env| {
            let edge = router(env.clone());
            if !options.quiet_gateway {
                tokio::spawn(tell(env, local, secret, edge.clone()));
            }
            edge
        })
        .serve()
        .await?;
    Ok(())
}

/// The test clock, if requested. A directory whose time was moved forward cannot go back.
fn test_clock(config: &Config, wanted: bool) -> anyhow::Result<Option<TestModeClock>> {
    let dir = &config.data.dir;
    if wanted {
        create_private(dir)?;
        return Ok(Some(TestModeClock::open(dir).context("the test clock")?));
    }
    anyhow::ensure!(
        !TestModeClock::is_of(dir),
        "{} was used with a test clock: pass --test-clock, or use another directory",
        dir.display()
    );
    Ok(None)
}

/// A file in the data directory, which may not exist yet.
fn in_data(config: &Config, file: &str) -> anyhow::Result<PathBuf> {
    let dir = &config.data.dir;
    create_private(dir)?;
    Ok(dir.join(file))
}

/// Creates the data directory, unless it exists, with the permissions that the host would give it.
fn create_private(dir: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.with_context(|| dir.display().to_string())
}

fn fresh_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).context("no randomness is available")?;
    Ok(Secret::new(bytes)?)
}

/// Sends the local gateway's webhooks.
async fn tell(env: Env, gateway: LocalGateway, secret: Secret, edge: Router) {
    while !env.is_stopping() {
        gateway.send_events(&secret, &edge).await;
        tokio::time::sleep(PAUSE).await;
    }
}
