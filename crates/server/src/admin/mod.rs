//! The admin listener.
//!
//! Contract: `/healthz` is 200 while the process can answer at all. `/readyz` is 200 while the node accepts requests,
//! and otherwise 503 with the reasons. `/metrics` is Prometheus' text format with the current values. `/alarms` lists
//! and reruns alarms. `/objects` restores, forks and repairs objects, and serves their components; `/quarantined` lists
//! objects that need a repair, `/dormant` those that wait for their activation; `/cuts` lists all objects as of one moment, for an
//! export. For the required permissions see [`guard`]. Errors have the form of [`ApiError`].

mod alarms;
mod components;
mod exports;
mod guard;
mod health;
mod import;
mod recovery;
mod socket;
mod target;

pub(crate) use socket::AdminSocket;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Router, middleware};

use crate::{
    ApiError, Config,
    access::AccessPolicy,
    front::{self, Endpoint, Listener},
    readiness::Readiness,
    site::Site,
};
pub(crate) use target::unavailable;

/// How the admin listener can be reached.
pub(crate) struct Reach {
    /// Metrics are open to anyone who reaches it.
    open_metrics: bool,
    /// Its other routes need a token.
    needs_token: bool,
    endpoint: Endpoint,
    /// Where `admin.sock` is, if there is one.
    data_dir: Option<PathBuf>,
}

impl Reach {
    /// At a TCP address.
    pub(crate) fn tcp(addr: SocketAddr, config: &Config, has_directory: bool) -> Self {
        let open = config.admin.access == AccessPolicy::Open;
        Self {
            open_metrics: open || addr.ip().is_loopback(),
            needs_token: !open,
            endpoint: Endpoint::tcp(addr, &config.admin.tls, &config.server),
            data_dir: has_directory.then(|| absolute(&config.data.dir)),
        }
    }

    /// At the socket in the data directory.
    pub(crate) fn socket(config: &Config) -> Self {
        Self {
            open_metrics: true,
            needs_token: false,
            endpoint: Endpoint::local(),
            data_dir: Some(absolute(&config.data.dir)),
        }
    }
}

/// The directory as an absolute path.
fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

/// The routes of the admin listener. `body_timeout` limits the time for a body.
pub(crate) fn router(readiness: &Arc<Readiness>, reach: Reach, body_timeout: Duration) -> Router {
    let operators = |routes: Router<Arc<Readiness>>| {
        guard::operators(
            routes.with_state(Arc::clone(readiness)),
            Arc::clone(readiness),
            body_timeout,
        )
    };
    let access = Arc::clone(readiness);
    let front = front::router(
        Listener::Admin {
            data_dir: reach.data_dir,
            open_metrics: reach.open_metrics,
        },
        reach.endpoint,
        reach.needs_token,
        Arc::clone(readiness),
        move || access.access().ok_or_else(unavailable),
    );
    let metrics = if reach.open_metrics {
        health::metrics_route().with_state(Arc::clone(readiness))
    } else {
        operators(health::metrics_route())
    };
    Router::new()
        .merge(health::routes().with_state(Arc::clone(readiness)))
        .merge(metrics)
        .merge(front)
        .merge(operators(
            alarms::routes()
                .merge(components::routes())
                .merge(exports::routes())
                .merge(recovery::routes()),
        ))
        .merge(guard::streamed(
            import::routes(body_timeout).with_state(Arc::clone(readiness)),
            Arc::clone(readiness),
        ))
        .fallback(async || {
            ApiError::not_found(
                "not_found",
                "The admin listener answers /, /healthz, /readyz, /metrics, /alarms, /objects, /cuts, /dormant and /quarantined.",
            )
        })
}

/// Rejects requests that a page of another site may have made a browser send.
pub(crate) fn checked(router: Router, site: Site) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(site), guard::site))
}
