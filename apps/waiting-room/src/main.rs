//! The program: `waiting-room serve`, `waiting-room simulate`, and `waiting-room demo-origin` to try it with.
#![forbid(unsafe_code)]

mod demo;

use std::path::PathBuf;

use abide::server::{ServeArgs, access::AccessPolicy};
use anyhow::Context;
use clap::{Args, Parser};
use waiting_room::{
    objects::{DataCentre, TicketCounter, World},
    proxy::{Edge, Front, Origin, router},
    room::{Layout, Link},
    settings::Settings,
    simulation,
};

/// What the help ends with.
const EXAMPLE: &str = "\
Example:
  waiting-room demo-origin
  waiting-room serve --rooms waiting-room.toml

Then open http://127.0.0.1:8080, and http://127.0.0.1:8080/.waiting-room to watch.";

/// Most data centres, and workers of one.
const MOST: u64 = 64;

/// A waiting room in front of a web application
#[derive(Parser)]
#[command(version, after_help = EXAMPLE)]
enum Command {
    /// Serve: pass visitors on to the application, or queue them
    Serve(Box<Serve>),
    /// Compare the three ways to divide slots between workers
    Simulate {
        /// Directory for the table and the plot
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,

        /// The same seed gives the same visitors
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Pretend to be an application
    DemoOrigin {
        /// Address to listen on
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:3000")]
        listen: String,
    },
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    host: ServeArgs,

    /// File with the origin and the rooms
    #[arg(long, value_name = "FILE", default_value = "waiting-room.toml")]
    rooms: PathBuf,

    /// Data centres on this machine: groups of workers that report to each other
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    data_centres: u64,

    /// Workers of each data centre
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    workers: u64,

    /// Time that a message between data centres takes in one direction, such as 80ms
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: jiff::SignedDuration,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve(args) => serve(*args).await,
        Command::Simulate { out, seed } => simulation::run(&out, seed),
        Command::DemoOrigin { listen } => demo::serve(&listen).await,
    }
}

async fn serve(args: Serve) -> anyhow::Result<()> {
    let settings = Settings::load(&args.rooms)?;
    let mut config = args.host.load()?;
    // The hosts are those of the rooms, which can change. What another site may make a browser send to the application is for the
    // application to check, as it would be without a waiting room.
    config.server.program_checks_site = true;
    let layout = Layout {
        data_centres: usize::try_from(args.data_centres)?,
        workers: usize::try_from(args.workers)?,
        link: Link {
            delay: args.delay.try_into().context("--delay")?,
        },
    };
    let origin = Origin::new(settings.origin.clone())?;
    let front = Front {
        file: args.rooms,
        layout,
        hosts: config.server.hosts.clone(),
        trusted: config.server.trusted_proxies.clone(),
        speaks_tls: config.server.tls.certificate.is_some(),
        needs_token: config.server.access == AccessPolicy::Token,
    };
    abide::Host::from_config(config)
        .object::<DataCentre>()
        .object::<World>()
        .object::<TicketCounter>()
        .router(move |env| router(Edge::new(env, front, settings, origin)))
        .serve()
        .await?;
    Ok(())
}
