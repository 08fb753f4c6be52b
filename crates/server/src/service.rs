//! What runs beside the objects: listeners, and upkeep.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use abide_storage::MemoryAccount;
use axum::Router;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::MissedTickBehavior};

use crate::{
    HostError, ListenAddress, ServerConfig,
    access::Access,
    client::Clients,
    gateway::{Gateway, Slots, StopAfter},
    limits, telemetry,
    tls::Tls,
};

/// A gateway's task and its stop signal. If dropped without `stop`, it ends immediately.
#[derive(Debug)]
pub(crate) struct Service {
    task: JoinHandle<()>,
    stop: watch::Sender<StopAfter>,
    /// Reloads the certificate when it changes.
    upkeep: Option<Background>,
}

impl Service {
    /// The connections' memory is charged to the account, if there is one.
    pub(crate) fn start(
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

    pub(crate) async fn stop(self, grace: Duration) -> Result<(), HostError> {
        drop(self.upkeep);
        self.stop.send_replace(Some(grace));
        self.task.await.map_err(|_| HostError::Panicked)
    }
}

pub(crate) async fn listen(
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
pub(crate) struct Background(JoinHandle<()>);

impl Background {
    /// Puts histogram samples into their buckets periodically, so that they do not accumulate between scrapes.
    pub(crate) fn metrics_upkeep() -> Self {
        Self(tokio::spawn(async {
            let mut tick = tokio::time::interval(limits::METRICS_UPKEEP);
            loop {
                tick.tick().await;
                telemetry::metrics_handle().run_upkeep();
            }
        }))
    }

    /// Polls for new and revoked tokens, so that no request has to, and ends streams of tokens that are no longer
    /// valid.
    pub(crate) fn tokens_upkeep(access: Access) -> Self {
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
