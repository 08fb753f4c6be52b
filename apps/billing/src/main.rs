//! The program: `billing serve`.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use abide::{
    Env, Host,
    clock::SystemClock,
    server::{AllowPrivate, ServeArgs},
};
use abide_patterns::projection::{PostgresModel, ReadModel, SqliteModel};
use anyhow::Context;
use billing::{
    gateway::{AnyGateway, HttpGateway, LocalGateway, Mischief, server},
    host, payment, read, router,
};
use clap::{Args, Parser};

/// Where the gateway's key is looked for that `--gateway-key` does not give. Others can see a program's arguments.
const KEY_VARIABLE: &str = "BILLING_GATEWAY_KEY";

/// Between two looks at what the local gateway has to tell.
const PAUSE: Duration = Duration::from_millis(200);

/// Subscription billing in which every resource is a durable object
#[derive(Parser)]
#[command(version)]
enum Command {
    /// Serve the API and the pages
    Serve {
        #[command(flatten)]
        serve: ServeArgs,

        #[command(flatten)]
        options: Options,
    },
}

#[derive(Args)]
struct Options {
    /// The payment gateway [default: one on this machine that behaves badly, whose page the program prints]
    #[arg(long, value_name = "URL")]
    gateway: Option<String>,

    /// Its key [default: what `BILLING_GATEWAY_KEY` says]
    #[arg(long, value_name = "KEY", requires = "gateway")]
    gateway_key: Option<String>,

    /// A `PostgreSQL` server for the read model: `host=127.0.0.1 user=billing dbname=billing` [default: a file]
    #[arg(long, value_name = "CONNECTION")]
    postgres: Option<String>,

    /// The file of the read model
    #[arg(long, value_name = "FILE", default_value = "read-model.db")]
    read_model: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve { serve, options } = Command::parse();
    let mut config = serve.load()?;
    let tables = read::tables()?;
    let model: Arc<dyn ReadModel> = match &options.postgres {
        Some(server) => Arc::new(PostgresModel::new(server, tables)?),
        None => Arc::new(SqliteModel::open(&options.read_model, tables)?),
    };
    if let Some(url) = &options.gateway {
        let key = options
            .gateway_key
            .or_else(|| std::env::var(KEY_VARIABLE).ok());
        let key = key.with_context(|| format!("give --gateway-key, or set {KEY_VARIABLE}"))?;
        let gateway = AnyGateway::new(HttpGateway::new(url, &key));
        host::install(Host::from_config(config), gateway, model)
            .serve()
            .await?;
        return Ok(());
    }
    let local = LocalGateway::new("local", Mischief::lively(1), Arc::new(SystemClock::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("a gateway that behaves badly, for tries: http://{address}/pay/pay_1");
    tokio::spawn(axum::serve(listener, server::router(local.clone())).into_future());
    // Nothing else is ever asked for.
    if config.outbound.allow_private == AllowPrivate::None
        && let Ok(own) = address.ip().to_string().parse()
    {
        config.outbound.allow_private = own;
    }
    let gateway = AnyGateway::new(HttpGateway::new(&format!("http://{address}"), "local"));
    host::install(Host::from_config(config), gateway, model)
        .router(move |env| {
            tokio::spawn(hear(env.clone(), local));
            router(env)
        })
        .serve()
        .await?;
    Ok(())
}

/// Hears what the local gateway has to tell.
async fn hear(env: Env, gateway: LocalGateway) {
    while !env.is_stopping() {
        for event in gateway.take_events() {
            // What is not heard now the payment asks for itself.
            if let Err(error) = payment::hear(&env, &event).await {
                eprintln!("a webhook was not heard: {error}");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
