//! The lifecycle of a host: start, serve, stop.
//!
//! Contract. Start: the admin listener comes up first (`/readyz` reports `starting`), then the data directory is locked
//! and its log replayed, then the node starts, then the start hooks run, then clients are accepted. Stop: readiness turns
//! off, the gateway stops accepting and lets requests finish, the node lets handlers finish, the store makes everything
//! durable and closes, all within `server.shutdown_grace` except the last step, which is never cut short. If the log
//! fails, responses in progress get a moment, then the host ends with [`HostError::LogFailed`]; it does not try to
//! continue.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use abide_runtime::{Env, Node};
use abide_storage::MemoryBudget;
use axum::Router;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use crate::{
    HostBuilder, HostError, TlsConfig,
    access::{Access, AccessPolicy},
    admin::{self, AdminSocket, Reach},
    core::{Core, Listeners, advertised},
    descriptors,
    front::Endpoint,
    gateway::Slots,
    guard, limits, metric,
    readiness::Readiness,
    request_log::logged,
    routes,
    service::{Background, Service, listen},
    telemetry,
    tls::Tls,
    websocket::{KeepAlive, OwnedHub, upgrading},
};

/// The objects of a host without listeners.
#[derive(Debug)]
pub struct LocalHost {
    env: Env,
    router: Router,
    core: Core,
    access: Access,
    readiness: Arc<Readiness>,
    /// The sockets that objects have opened.
    sockets: OwnedHub,
}

impl LocalHost {
    pub(crate) async fn start(mut builder: HostBuilder) -> Result<Self, HostError> {
        let hooks = std::mem::take(&mut builder.start_hooks);
        let config = builder.config.clone();
        let sockets = OwnedHub::new(KeepAlive::of(&config.websocket));
        let readiness = Arc::new(Readiness::starting());
        let listeners = Listeners {
            // Only this process can reach it.
            open: config.server.access != AccessPolicy::Token,
            endpoint: Endpoint::local(),
            admin: None,
            url: config.cluster.advertise.clone(),
        };
        let (core, access, router) =
            Core::start(builder, sockets.hub().clone(), listeners, &readiness).await?;
        let core = core.run_start_hooks(hooks).await?;
        let slots = Slots::new(config.server.max_connections);
        readiness.serving(&core, access.clone(), slots);
        let router = upgrading(router, sockets.hub().clone());
        Ok(Self {
            access,
            env: core.node.env().clone(),
            router: guard::guarded(router, &config.server, &core.store.memory().account()),
            core,
            readiness,
            sockets,
        })
    }

    /// The node, with which a program restores, forks and repairs objects and lists their alarms.
    pub fn node(&self) -> &Node {
        &self.core.node
    }

    /// The objects.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Tokens and the audit log. With the setting `server.access = "token"`
    /// ([`AccessPolicy::Token`]) protected routes need a token, as they do where others can reach them.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The router that the host's listener would use: call it as a `tower` service.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Returns when the node is idle on a stopped test clock: [`Node::settle`].
    ///
    /// # Errors
    /// With the objects that do not rest, and what keeps them busy.
    pub async fn settle(&self) -> abide_runtime::Result<()> {
        self.core.node.settle().await
    }

    /// Lets handlers finish, makes everything durable, closes the data directory.
    pub async fn shutdown(self) -> Result<(), HostError> {
        let Self {
            env,
            router,
            sockets,
            core,
            readiness,
            access,
        } = self;
        readiness.shutting_down();
        drop((env, router, access));
        let deadline = Instant::now() + core.grace;
        sockets.hub().close(core.grace).await;
        core.stop(deadline.saturating_duration_since(Instant::now()))
            .await
    }
}

/// A running host.
#[derive(Debug)]
pub struct RunningHost {
    addr: SocketAddr,
    admin_addr: Option<SocketAddr>,
    env: Env,
    core: Core,
    readiness: Arc<Readiness>,
    gateway: Service,
    sockets: OwnedHub,
    /// The admin listener's service, if there is one.
    admin: Option<Service>,
    admin_socket: Option<AdminSocket>,
    /// The URL schemes of the listener and of the admin listener.
    schemes: [&'static str; 2],
    access: Access,
    upkeep: [Background; 2],
}

impl RunningHost {
    pub(crate) async fn start(mut builder: HostBuilder) -> Result<Self, HostError> {
        let hooks = std::mem::take(&mut builder.start_hooks);
        let config = builder.config.clone();
        descriptors::raise_limit();
        telemetry::metrics_handle();
        metric::describe();
        let upkeep = Background::metrics_upkeep();
        let readiness = Arc::new(Readiness::starting());
        let (admin, admin_addr) = match &config.admin.listen {
            None => (None, None),
            Some(address) => {
                let (listener, addr) = listen("admin.listen", address).await?;
                let reach = Reach::tcp(addr, &config, builder.has_directory);
                let router = admin::router(&readiness, reach, config.server.body_timeout);
                routes::log("admin", &router);
                let router = admin::checked(router, config.server.site());
                let router = logged(router, config.log.access);
                (
                    Some(Service::start(
                        listener,
                        router,
                        &config.server,
                        Slots::new(config.server.max_connections),
                        Tls::load(&config.admin.tls)?,
                        config.admin.proxy_protocol,
                        None,
                    )),
                    Some(addr),
                )
            }
        };
        let tls = Tls::load(&config.server.tls)?;
        // Before the data directory is opened: an invalid address is reported immediately, not after a long replay.
        let (listener, addr) = listen("server.listen", &config.server.listen).await?;
        let sockets = OwnedHub::new(KeepAlive::of(&config.websocket));
        let has_directory = builder.has_directory;
        let listeners = Listeners {
            open: config.server.is_open(addr),
            endpoint: Endpoint::tcp(addr, &config.server.tls, &config.server),
            admin: admin_addr.map(|addr| Endpoint::tcp(addr, &config.admin.tls, &config.server)),
            url: advertised(&config, addr),
        };
        let (core, access, router) =
            Core::start(builder, sockets.hub().clone(), listeners, &readiness).await?;
        // A host in memory has no tokens before it starts.
        if has_directory && access.has_no_valid_token()? {
            core.stop(Duration::ZERO).await?;
            return Err(HostError::NoToken { address: addr });
        }
        let core = core.run_start_hooks(hooks).await?;
        let admin_socket = if has_directory {
            let reach = Reach::socket(&config);
            let router = admin::router(&readiness, reach, config.server.body_timeout);
            Some(AdminSocket::start(&config.data.dir, router)?)
        } else {
            None
        };
        let env = core.node.env().clone();
        let router = upgrading(router, sockets.hub().clone());
        let memory = core.store.memory().account();
        let slots = Slots::new(config.server.max_connections);
        metric::connection_limit(config.server.max_connections);
        let gateway = Service::start(
            listener,
            logged(
                guard::guarded(router, &config.server, &memory),
                config.log.access,
            ),
            &config.server,
            Arc::clone(&slots),
            tls,
            config.server.proxy_protocol,
            Some(memory),
        );
        let tokens = Background::tokens_upkeep(access.clone());
        readiness.serving(
            &core,
            access.with_open(config.admin.access == AccessPolicy::Open),
            slots,
        );
        Ok(Self {
            addr,
            admin_addr,
            env,
            core,
            readiness,
            gateway,
            sockets,
            admin,
            admin_socket,
            schemes: [&config.server.tls, &config.admin.tls].map(TlsConfig::scheme),
            access,
            upkeep: [upkeep, tokens],
        })
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address for health and metrics, unless disabled.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin_addr
    }

    /// The node, with which a program restores, forks and repairs objects and lists their alarms.
    pub fn node(&self) -> &Node {
        &self.core.node
    }

    /// The objects.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns when the node is idle on a stopped test clock: [`Node::settle`].
    ///
    /// # Errors
    /// With the objects that do not rest, and what keeps them busy.
    pub async fn settle(&self) -> abide_runtime::Result<()> {
        self.core.node.settle().await
    }

    /// Tokens and the audit log.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The host's memory budget and its usage.
    pub fn memory(&self) -> &MemoryBudget {
        self.core.store.memory()
    }

    /// Shuts down cleanly: requests in flight finish within `server.shutdown_grace`, then everything is made durable
    /// and the data directory is closed.
    pub async fn shutdown(self) -> Result<(), HostError> {
        let grace = self.core.grace;
        self.stop(grace).await
    }

    async fn stop(self, grace: Duration) -> Result<(), HostError> {
        let Self {
            env,
            core,
            readiness,
            gateway,
            sockets,
            admin,
            admin_socket,
            upkeep,
            ..
        } = self;
        let deadline = Instant::now() + grace;
        readiness.shutting_down();
        drop(env);
        let (gateway, ()) = tokio::join!(gateway.stop(grace), sockets.hub().close(grace));
        if let Some(socket) = admin_socket {
            socket.stop().await;
        }
        let core = core
            .stop(deadline.saturating_duration_since(Instant::now()))
            .await;
        if let Some(admin) = admin {
            admin.stop(Duration::ZERO).await?;
        }
        drop(upkeep);
        gateway.and(core)
    }
}

/// [`HostBuilder::serve`].
pub(crate) async fn serve(builder: HostBuilder) -> Result<(), HostError> {
    // Whatever the program, its libraries and its children write is for its own user, wherever it is started.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    telemetry::start_logs(&builder.config.log);
    let mut signals = Signals::listen()?;
    let host = tokio::select! {
        host = builder.start() => host?,
        () = signals.next() => end_at_once(),
    };
    announce(&host);
    let name = tokio::select! {
        failure = host.core.failed() => {
            tracing::error!("{failure}");
            // The log is closed permanently: a clean shutdown is not possible, and nothing acknowledged depends on it.
            let _ = tokio::time::timeout(limits::FAILED_LOG_GRACE * 2, host.stop(limits::FAILED_LOG_GRACE)).await;
            return Err(failure);
        }
        why = host.core.superseded() => {
            tracing::error!("{why}");
            host.shutdown().await?;
            return Err(HostError::History(why));
        }
        () = signals.next() => "signal",
    };
    tracing::info!(
        cause = name,
        "stopping after requests in flight have finished"
    );
    tokio::select! {
        ended = host.shutdown() => ended,
        () = signals.next() => end_at_once(),
    }
}

/// Ends the process: replay, checkpoint and a hanging disk cannot be interrupted, and everything acknowledged is in the
/// log.
fn end_at_once() -> ! {
    tracing::warn!("stopped immediately by a signal; the next start recovers from the log");
    // The shell convention for a program ended by SIGINT.
    std::process::exit(130)
}

/// Prints the host's addresses. A closed standard output is not a reason to stop.
fn announce(host: &RunningHost) {
    let mut out = io::stdout().lock();
    let [public, admin_scheme] = host.schemes;
    let _ = writeln!(out, "listening on {public}://{}", host.addr);
    if let Some(admin) = host.admin_addr {
        let _ = writeln!(out, "health and metrics on {admin_scheme}://{admin}");
    }
    let _ = out.flush();
}

/// The signals that stop a process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, HostError> {
        let listen = |kind| signal(kind).map_err(HostError::Signals);
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
