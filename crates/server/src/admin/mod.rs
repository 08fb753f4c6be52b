//! The admin listener's answers.
//!
//! Contract: `/healthz` is 200 while the process can answer at all; `/readyz` is 200 while requests are welcome and
//! otherwise 503 with the reasons; `/metrics` is Prometheus' text format with the current values. `/alarms` lists
//! alarms and runs those again that were given up. `/objects` restores objects to an earlier moment, forks and repairs them; `/quarantined` lists those that need it. What changes something asks for a header, see [`guard`]. Errors have
//! the form that [`ApiError`] has everywhere.

mod alarms;
mod guard;
mod health;
mod recovery;
mod target;

use std::sync::Arc;

use axum::{Router, middleware};

use crate::{ApiError, readiness::Readiness, site::Site};

/// The admin listener's router.
pub(crate) fn router(readiness: Arc<Readiness>, site: Site) -> Router {
    Router::new()
        .merge(health::routes())
        .merge(alarms::routes())
        .merge(recovery::routes())
        .layer(middleware::from_fn(guard::changes))
        .fallback(async || {
            ApiError::not_found(
                "not_found",
                "The admin listener answers /healthz, /readyz, /metrics, /alarms, /objects and /quarantined.",
            )
        })
        .with_state(readiness)
        .layer(middleware::from_fn_with_state(Arc::new(site), guard::site))
}
