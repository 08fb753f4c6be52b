//! The admin listener's answers: `/healthz`, `/readyz`, `/metrics`.
//!
//! Contract: `/healthz` is 200 while the process can answer at all; `/readyz` is 200 while requests are welcome and
//! otherwise 503 with the reasons; `/metrics` is Prometheus' text format with the figures of this moment.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header};
use serde_json::json;

use crate::{ApiError, metric, readiness::Readiness, telemetry};

/// The admin listener's router.
pub(crate) fn router(readiness: Arc<Readiness>) -> Router {
    Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(async || {
            ApiError::not_found(
                "not_found",
                "The admin listener answers /healthz, /readyz and /metrics.",
            )
        })
        .with_state(readiness)
}

async fn readyz(State(readiness): State<Arc<Readiness>>) -> Response {
    let reasons = readiness.reasons();
    if reasons.is_empty() {
        Json(json!({ "status": "ready" })).into_response()
    } else {
        let body = Json(json!({ "status": "unavailable", "reasons": reasons }));
        (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
    }
}

async fn metrics(State(readiness): State<Arc<Readiness>>) -> Response {
    if let Some((store, node)) = readiness.parts() {
        node.publish_metrics();
        metric::take_store(&store.stats());
    }
    let text = telemetry::metrics_handle().render();
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response()
}
