//! `/healthz`, `/readyz`, `/metrics`: the health of the process.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header};
use serde_json::json;

use crate::{metric, readiness::Readiness, telemetry};

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(readyz))
}

/// The route of metrics.
pub(super) fn metrics_route() -> Router<Arc<Readiness>> {
    Router::new().route("/metrics", get(metrics))
}

async fn readyz(State(readiness): State<Arc<Readiness>>) -> Response {
    let reasons = readiness.reasons();
    let (status, mut body) = if reasons.is_empty() {
        (StatusCode::OK, json!({ "status": "ready" }))
    } else {
        let body = json!({ "status": "unavailable", "reasons": reasons });
        (StatusCode::SERVICE_UNAVAILABLE, body)
    };
    let warnings = readiness.warnings();
    if !warnings.is_empty() {
        body["warnings"] = json!(warnings);
    }
    (status, Json(body)).into_response()
}

async fn metrics(State(readiness): State<Arc<Readiness>>) -> Response {
    let render = || telemetry::metrics_handle().render();
    let text = match readiness.parts() {
        Some((store, node)) => node.publish_metrics(|| {
            metric::publish_store(&store.stats());
            if let Some(copier) = readiness.copier() {
                copier.publish_metrics();
            }
            render()
        }),
        None => render(),
    };
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response()
}
