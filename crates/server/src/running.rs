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
use abide_storage::{ArchiveOptions, MemoryAccount, MemoryBudget, SqlLimits, Store, StoreOptions};
use axum::Router;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};

use crate::{
    Config, ConfigError, HostBuilder, HostError, ListenAddress, ServerConfig, TlsConfig,
    access::{Access, AccessPolicy},
    admin::{self, AdminSocket, Reach},
    client::Clients,
    cluster::Membership,
    descriptors,
    front::{self, Endpoint, Listener},
    gateway::{Gateway, Slots, StopAfter},
    guard,
    history::{Copier, Place},
    host::StartHook,
    json_rpc, limits, metric,
    readiness::Readiness,
    request_log::logged,
    routes, telemetry,
    tls::Tls,
    websocket::{Hub, KeepAlive, OwnedHub, upgrading},
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
        // The end of a node's part in a cluster fails its log.
        biased;
        why = host.core.excluded() => {
            tracing::error!("{why}");
            let _ = tokio::time::timeout(limits::FAILED_LOG_GRACE * 2, host.stop(limits::FAILED_LOG_GRACE)).await;
            return Err(HostError::Cluster(why));
        }
        () = host.core.node.wait_failed() => {
            tracing::error!("the commit log could not be written; stopping: restart to recover");
            // The log is closed permanently: a clean shutdown is not possible, and nothing acknowledged depends on it.
            let _ = tokio::time::timeout(limits::FAILED_LOG_GRACE * 2, host.stop(limits::FAILED_LOG_GRACE)).await;
            return Err(HostError::LogFailed);
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

/// The router's information about the listeners.
struct Listeners {
    /// Anyone who reaches the router may call it.
    open: bool,
    endpoint: Endpoint,
    admin: Option<Endpoint>,
    /// Where clients of other nodes are sent.
    url: Option<String>,
}

/// The URL at which clients reach a listener, as far as that is known.
fn advertised(config: &Config, addr: SocketAddr) -> Option<String> {
    let scheme = config.server.tls.scheme();
    if config.cluster.advertise.is_some() || config.cluster.postgres.is_none() {
        return config.cluster.advertise.clone();
    }
    let ip = addr.ip();
    if ip.is_unspecified() || ip.is_loopback() {
        tracing::warn!(
            "other nodes cannot tell clients of other machines where this one is: set cluster.advertise to its URL"
        );
    }
    (!ip.is_unspecified()).then(|| format!("{scheme}://{addr}"))
}

/// The store that the settings ask for.
pub(crate) fn store_options(config: &Config) -> StoreOptions {
    StoreOptions::default()
        .segment_bytes(config.storage.segment_bytes)
        .checkpoint_bytes(config.storage.checkpoint_bytes)
        .checkpoint_interval(config.storage.checkpoint_interval)
        .cache_kib(usize::try_from(config.storage.cache_bytes >> 10).unwrap_or(usize::MAX))
        .max_object_bytes(config.storage.max_object_bytes)
        .max_bytes(config.storage.max_bytes)
        .sql(
            SqlLimits::default()
                .parameters(config.storage.max_parameters)
                .columns(config.storage.max_columns)
                .value_bytes(usize::try_from(config.storage.max_value_bytes).unwrap_or(usize::MAX)),
        )
        .archive(
            ArchiveOptions::default()
                .enabled(config.archive.enabled)
                .retention(config.archive.retention)
                .max_bytes(config.archive.max_bytes)
                .hydration_rate(config.archive.hydration_rate)
                .local_bytes(config.archive.local_bytes),
        )
        .await_copy(config.archive.sync)
        .memory(config.memory.counted())
}

/// A store and the node on it.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) node: Node,
    grace: Duration,
    pub(crate) copier: Option<Copier>,
    pub(crate) membership: Option<Membership>,
}

/// Opens the data directory of a node that has all objects.
fn open(
    builder: &HostBuilder,
    config: &Config,
    options: StoreOptions,
    place: Option<&Place>,
) -> Result<Store, HostError> {
    let dir = &config.data.dir;
    if builder.has_directory && config.data.is_of_cluster() {
        return Err(HostError::Cluster(format!(
            "{} belongs to a node of a cluster: set cluster.postgres, or give another data directory",
            dir.display()
        )));
    }
    let store = Store::open(Arc::clone(&builder.disk), dir, options)?;
    if store.is_for_inspection() {
        return Err(HostError::ForInspection(dir.clone()));
    }
    // Before any object acts: it may be another node's turn.
    if let Some(place) = place {
        place.check(dir, &store)?;
    }
    Ok(store)
}

impl Core {
    /// Opens the data directory, replays its log and starts the node, off the async threads.
    async fn start(
        builder: HostBuilder,
        sockets: Hub,
        listeners: Listeners,
        readiness: &Arc<Readiness>,
    ) -> Result<(Self, Access, Router), HostError> {
        let readiness = Arc::clone(readiness);
        blocking(move || {
            let config = builder.config.clone();
            let mut options = store_options(&config);
            if let Some(clock) = builder.clock.clone() {
                options = options.unix_millis(Arc::new(move || clock.unix_millis()));
            }
            if builder.disk.others_may_read(&config.data.dir) {
                tracing::warn!(
                    dir = %config.data.dir.display(),
                    "other users of this machine can read the data directory: run `chmod 700` on it, unless this is intended"
                );
            }
            let place = Place::of(&config.archive)?;
            if place.is_none() && config.archive.sync {
                let text = "archive.sync needs archive.url: there is no store to wait for";
                return Err(ConfigError::new(text).into());
            }
            if place.is_some() && !builder.has_directory {
                let text = "archive.url needs a data directory: this host's objects are on a disk of the program";
                return Err(ConfigError::new(text).into());
            }
            let membership = Membership::join(&config, place.as_ref(), listeners.url, &options)?;
            let store = if let Some(membership) = &membership {
                membership.store().clone()
            } else {
                options = options.remote_runs(place.as_ref().map(Place::remote_runs));
                open(&builder, &config, options, place.as_ref())?
            };
            let (mut builder, access) = builder.share_access(listeners.open)?;
            let audited = std::mem::take(&mut builder.audited_calls);
            let front = builder.front.take();
            let clock = builder.clock.clone();
            let (mut node, make_router) =
                builder.configure_node(Node::builder(store.clone()), &sockets);
            if let Some(membership) = &membership {
                node = membership.configure(node, clock);
            }
            let node = node.start()?;
            let copier = place
                .filter(|_| membership.is_none())
                .map(|place| place.start(&config.data.dir, store.clone()));
            let copier = copier.transpose()?;
            if let Some(membership) = &membership {
                membership.follow(&node);
            }
            let mut router = make_router(node.env().clone());
            routes::log("server", &router);
            if config.rpc.enabled {
                let calls = json_rpc::protected_router(node.env(), &access, audited);
                let calls = Router::new().nest("/rpc", calls);
                routes::log("server", &calls);
                // Before the program's own router, which may have routes of the same form.
                router = calls.fallback_service(router);
            }
            if let Some(page) = front {
                let access = access.clone();
                let front = front::router(
                    Listener::Clients {
                        page,
                        admin: listeners.admin,
                    },
                    listeners.endpoint,
                    !listeners.open,
                    readiness,
                    move || Ok(access.clone()),
                );
                routes::log("server", &front);
                router = front.fallback_service(router);
            }
            Ok((
                Self {
                    store,
                    node,
                    grace: config.server.shutdown_grace,
                    copier,
                    membership,
                },
                access,
                router,
            ))
        })
        .await
    }

    /// Returns once another node has taken the history over, with what to do.
    async fn superseded(&self) -> String {
        match &self.copier {
            Some(copier) => copier.superseded().await,
            None => std::future::pending().await,
        }
    }

    /// Returns once the node is no longer a part of its cluster, with the reason.
    async fn excluded(&self) -> String {
        match &self.membership {
            Some(membership) => membership.ended().await,
            None => std::future::pending().await,
        }
    }

    async fn run_start_hooks(self, hooks: Vec<StartHook>) -> Result<Self, HostError> {
        for hook in hooks {
            if let Err(error) = hook(self.node.env().clone()).await {
                if let Err(error) = self.stop(Duration::ZERO).await {
                    tracing::warn!(%error, "after a start hook had failed, the host could not be stopped cleanly");
                }
                return Err(HostError::StartHook(error));
            }
        }
        Ok(self)
    }

    async fn stop(self, grace: Duration) -> Result<(), HostError> {
        let Self {
            store,
            node,
            copier,
            membership,
            ..
        } = self;
        if let Some(copier) = &copier {
            copier.stop_proving();
        }
        // A handler that never awaits keeps its objects open. Everything acknowledged is in the log, which the next
        // start replays.
        let stopped = node.shutdown(grace).await;
        drop(node);
        if let Some(membership) = membership {
            // What was committed is in the cluster's database. A handler that does not end commits nothing more.
            membership.leave().await;
            // It waits for its threads.
            let member = (membership, store);
            blocking(move || {
                drop(member);
                Ok(())
            })
            .await?;
            return Ok(stopped?);
        }
        stopped?;
        if let Some(copier) = copier {
            let archiving = store.clone();
            // What keeps it from being archived, closing reports.
            if blocking(move || Ok(archiving.checkpoint()?)).await.is_ok() {
                copier.finish(grace.max(limits::LAST_COPY)).await;
            }
        }
        blocking(move || Ok(store.close()?)).await
    }
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, HostError> + Send + 'static,
) -> Result<R, HostError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(HostError::Panicked))
}

/// A gateway's task and its stop signal. If dropped without `stop`, it ends immediately.
#[derive(Debug)]
struct Service {
    task: JoinHandle<()>,
    stop: watch::Sender<StopAfter>,
    /// Reloads the certificate when it changes.
    upkeep: Option<Background>,
}

impl Service {
    /// The connections' memory is charged to the account, if there is one.
    fn start(
        listener: TcpListener,
        router: Router,
        config: &ServerConfig,
        slots: Arc<Slots>,
        tls: Option<Arc<Tls>>,
        proxy_protocol: bool,
        memory: Option<Arc<MemoryAccount>>,
    ) -> Self {
        let (stop, told) = watch::channel(None);
        let upkeep = tls
            .clone()
            .map(|tls| Background(tokio::spawn(tls.keep_fresh())));
        let clients = Clients::new(config, proxy_protocol);
        let gateway = Gateway::new(listener, router, config, slots, clients, tls, memory);
        Self {
            task: tokio::spawn(gateway.run(told)),
            stop,
            upkeep,
        }
    }

    async fn stop(self, grace: Duration) -> Result<(), HostError> {
        drop(self.upkeep);
        self.stop.send_replace(Some(grace));
        self.task.await.map_err(|_| HostError::Panicked)
    }
}

async fn listen(
    setting: &'static str,
    address: &ListenAddress,
) -> Result<(TcpListener, SocketAddr), HostError> {
    let failed = |source| HostError::Listen {
        setting,
        address: address.clone(),
        source,
    };
    let listener = TcpListener::bind(address.as_str()).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok((listener, addr))
}

/// A task that ends when this is dropped.
#[derive(Debug)]
struct Background(JoinHandle<()>);

impl Background {
    /// Puts histogram samples into their buckets periodically, so that they do not accumulate between scrapes.
    fn metrics_upkeep() -> Self {
        Self(tokio::spawn(async {
            let mut tick = tokio::time::interval(limits::METRICS_UPKEEP);
            loop {
                tick.tick().await;
                telemetry::metrics_handle().run_upkeep();
            }
        }))
    }
}

impl Background {
    /// Polls for new and revoked tokens, so that no request has to, and ends streams of tokens that are no longer
    /// valid.
    fn tokens_upkeep(access: Access) -> Self {
        Self(tokio::spawn(async move {
            let mut tick = tokio::time::interval(limits::TOKENS_REFRESH);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let access = access.clone();
                let looked = tokio::task::spawn_blocking(move || access.store().refresh());
                if let Ok(Err(error)) = looked.await {
                    tracing::debug!(%error, "cannot read the tokens");
                }
            }
        }))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
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
