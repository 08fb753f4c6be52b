//! Hosts with the benches' objects, on a real directory, without the defaults that would disturb a figure.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    str::FromStr,
    time::Duration,
};

use abide::{
    ClassOptions,
    server::{Host, HostBuilder, ListenAddress, LocalHost, object_router},
};
use abide::{
    outbox::handlers::HttpDelivery,
    outbox::service,
    outbox::{Deliver, OutboxOptions, Registry},
};
use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::{
    ours::bank::Bank,
    ours::objects::{Busy, Counter, Family, Room, Table},
    ours::outcomes::Payer,
    ours::subscription,
    ours::values::Values,
    process::{self, Half},
};

/// Longer than any bench: nothing is evicted unless the bench asks for it.
const NO_EVICTION: Duration = Duration::from_hours(24);

fn builder(dir: &Path) -> HostBuilder {
    let options = || ClassOptions::default().idle_timeout(NO_EVICTION);
    subscription::install(Host::builder(dir))
        .object_with::<Bank>(options())
        .object_with::<Counter>(options())
        .object_with::<Table>(options())
        .object_with::<Family>(options())
        .object_with::<Payer>(options())
        .object_with::<Values>(options())
}

/// A host in this process, without listeners, and the async runtime that its callers use.
pub(crate) struct Local {
    pub(crate) runtime: Runtime,
    pub(crate) host: LocalHost,
}

impl Local {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        Self::of(builder(dir))
    }

    pub(crate) fn of(host: HostBuilder) -> Result<Self> {
        let runtime = runtime()?;
        let host = runtime
            .block_on(host.start_local())
            .context("cannot start the host")?;
        Ok(Self { runtime, host })
    }

    /// Ends cleanly: everything is in the objects' files.
    pub(crate) fn shutdown(self) -> Result<()> {
        self.runtime
            .block_on(self.host.shutdown())
            .context("the host did not end cleanly")
    }
}

/// Serves the counter at `/count/NAME` until standard input closes. Prints the address.
pub(crate) fn serve_counter(dir: &Path) -> Result<()> {
    let host = builder(dir)
        .router(|env| axum::Router::new().nest("/count", object_router::<Counter>(&env)));
    serve(host)
}

/// Serves outboxes at `/outbox/NAME/` until standard input closes. Prints the address.
pub(crate) fn serve_outboxes(dir: &Path) -> Result<()> {
    let registry = Registry::new()
        .with(HttpDelivery::new())
        .open_to_clients(HttpDelivery::KIND);
    let options = OutboxOptions::default()
        // More than a run enqueues.
        .max_queued(1_000_000_000);
    serve(service::install(Host::builder(dir), registry, options).router(service::router))
}

/// Serves objects that work at `/busy/NAME/ROUNDS`, on the server's half of the cores, until standard input closes.
/// Prints the address.
pub(crate) fn serve_busy(dir: &Path) -> Result<()> {
    let _kept = process::keep_to(Half::Server)?;
    let host = Host::builder(dir)
        .object::<Busy>()
        .router(|env| axum::Router::new().nest("/busy", object_router::<Busy>(&env)));
    serve(host)
}

/// Serves a bank at `/bank/bank` until standard input closes. Prints the address.
pub(crate) fn serve_bank(dir: &Path, accounts: usize) -> Result<()> {
    let accounts = i64::try_from(accounts)?;
    let local = Local::start(dir)?;
    let bank = local.host.env().object::<Bank>().get_by_name("bank");
    local.runtime.block_on(bank.open(accounts))?;
    local.shutdown()?;
    serve(builder(dir).router(|env| axum::Router::new().nest("/bank", object_router::<Bank>(&env))))
}

fn serve(host: HostBuilder) -> Result<()> {
    serve_at(host, 0)
}

/// Serves at a port of 127.0.0.1, 0 for a free one, until standard input closes. Prints the address.
pub(crate) fn serve_at(host: HostBuilder, port: u16) -> Result<()> {
    let runtime = runtime()?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let host = host.configure(|config| {
        config.server.listen = listen.into();
        config.admin.listen = None;
    });
    let running = runtime
        .block_on(host.start())
        .context("cannot start the host")?;
    println!("{}", running.addr());
    wait_for_owner()?;
    runtime
        .block_on(running.shutdown())
        .context("the host did not end cleanly")
}

/// Where a server of rooms is reached, and where its metrics are.
pub(crate) struct Addresses {
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl FromStr for Addresses {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let (addr, admin) = line.split_once(' ').context("two addresses")?;
        Ok(Self {
            addr: addr.parse()?,
            admin: admin.parse()?,
        })
    }
}

/// Serves rooms of sockets at `/room/NAME/` until standard input closes. Prints the addresses.
pub(crate) fn serve_rooms(dir: &Path) -> Result<()> {
    let connections = process::descriptor_limit();
    let runtime = runtime()?;
    let host = Host::builder(dir)
        .object::<Room>()
        .configure(|config| {
            config.server.listen = ListenAddress::any_port();
            config.admin.listen = Some(ListenAddress::any_port());
            config.server.max_connections = connections;
            config.objects.idle_timeout = Duration::from_secs(1);
        })
        .router(|env| axum::Router::new().nest("/room", object_router::<Room>(&env)));
    let running = runtime
        .block_on(host.start())
        .context("cannot start the host")?;
    let admin = running.admin_addr().context("there is an admin listener")?;
    println!("{} {admin}", running.addr());
    wait_for_owner()?;
    runtime
        .block_on(running.shutdown())
        .context("the host did not end cleanly")
}

/// Returns when the bench that started this process closes the pipe or dies.
pub(crate) fn wait_for_owner() -> Result<()> {
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .context("cannot wait for the owner")?;
    Ok(())
}

pub(crate) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}
