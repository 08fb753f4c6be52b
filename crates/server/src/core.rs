//! The store of a host, the node on it, and their part in a cluster.
//!
//! Contract: it starts with the data directory, whose log is replayed, or by joining the cluster; then the node starts. It stops in the
//! reverse order: handlers finish, then everything is durable and the directory is closed, or its objects are left to other nodes.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use abide_runtime::Node;
use abide_storage::{ArchiveOptions, SqlLimits, Store, StoreOptions};
use axum::Router;

use crate::{
    Config, ConfigError, HostBuilder, HostError,
    access::Access,
    cluster::Membership,
    front::{self, Endpoint, Listener},
    history::{Copier, Place},
    host::StartHook,
    json_rpc, limits,
    readiness::Readiness,
    routes,
    websocket::Hub,
};

/// The router's information about the listeners.
pub(crate) struct Listeners {
    /// Anyone who reaches the router may call it.
    pub(crate) open: bool,
    pub(crate) endpoint: Endpoint,
    pub(crate) admin: Option<Endpoint>,
    /// Where clients of other nodes are sent.
    pub(crate) url: Option<String>,
}

/// The URL at which clients reach a listener, as far as that is known.
pub(crate) fn advertised(config: &Config, addr: SocketAddr) -> Option<String> {
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
    pub(crate) grace: Duration,
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
    pub(crate) async fn start(
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
    pub(crate) async fn superseded(&self) -> String {
        match &self.copier {
            Some(copier) => copier.superseded().await,
            None => std::future::pending().await,
        }
    }

    /// Returns once nothing is acknowledged any more, with the reason.
    pub(crate) async fn failed(&self) -> HostError {
        self.node.wait_failed().await;
        // The end of a node's part in a cluster fails its log, and is known before.
        let end = self.membership.as_ref().and_then(Membership::end);
        end.map_or(HostError::LogFailed, HostError::Cluster)
    }

    pub(crate) async fn run_start_hooks(self, hooks: Vec<StartHook>) -> Result<Self, HostError> {
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

    pub(crate) async fn stop(self, grace: Duration) -> Result<(), HostError> {
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
