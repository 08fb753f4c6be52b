//! The admin listener's answers.
//!
//! Contract: `/healthz` is 200 while the process can answer at all; `/readyz` is 200 while requests are welcome and
//! otherwise 503 with the reasons; `/metrics` is Prometheus' text format with the current values. `/alarms` lists
//! alarms and runs those again that were given up. `/objects` restores objects to an earlier moment, forks and repairs them, and reaches their components; `/quarantined` lists those that need it. Who may do what, see [`guard`]. Errors have
//! the form that [`ApiError`] has everywhere.

mod alarms;
mod components;
mod guard;
mod health;
mod recovery;
mod socket;
mod target;

pub(crate) use socket::AdminSocket;

use std::{sync::Arc, time::Duration};

use axum::{Router, middleware};

use crate::{ApiError, readiness::Readiness, site::Site};

/// What the admin listener answers. `open_metrics`: metrics are for everybody who reaches it.
/// `body_timeout`: how long a body may take.
pub(crate) fn router(
    readiness: &Arc<Readiness>,
    open_metrics: bool,
    body_timeout: Duration,
) -> Router {
    let operators = |routes: Router<Arc<Readiness>>| {
        guard::operators(
            routes.with_state(Arc::clone(readiness)),
            Arc::clone(readiness),
            body_timeout,
        )
    };
    let metrics = if open_metrics {
        health::metrics_route().with_state(Arc::clone(readiness))
    } else {
        operators(health::metrics_route())
    };
    Router::new()
        .merge(health::routes().with_state(Arc::clone(readiness)))
        .merge(metrics)
        .merge(operators(
            alarms::routes()
                .merge(components::routes())
                .merge(recovery::routes()),
        ))
        .fallback(async || {
            ApiError::not_found(
                "not_found",
                "The admin listener answers /healthz, /readyz, /metrics, /alarms, /objects and /quarantined.",
            )
        })
}

/// Refuses what a page of another site may have made a browser send.
pub(crate) fn checked(router: Router, site: Site) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(site), guard::site))
}
