//! The rest of the API.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /api/requests?state=&before=&limit=` | 200 and `{"requests":[…],"next":…}`, newest first |
//! | `GET /api/counts` | 200 and how many requests are in each state |
//! | `GET /api/requests/{id}` | 200 and all that is known of it |
//! | `GET /api/requests/{id}/runs?before=&limit=` | 200 and `{"runs":[…],"next":…}`, newest first |
//! | `POST /api/requests/{id}/pause`, `/resume`, `/retry` | 200 and the request |
//! | `DELETE /api/requests/{id}` | 204 |

use std::collections::BTreeMap;

use abide::{
    Env,
    server::{ApiError, UrlPath, UrlQuery},
};
use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};

use crate::{
    Index, List, Runs, Shown,
    http::{ById, Wanted, WantedRuns},
    limits,
};

pub(crate) fn router() -> Router<Env> {
    Router::new()
        .route("/requests", get(list))
        .route("/counts", get(counts))
        .route("/requests/{id}", get(show).delete(cancel))
        .route("/requests/{id}/runs", get(runs))
        .route("/requests/{id}/pause", post(pause))
        .route("/requests/{id}/resume", post(resume))
        .route("/requests/{id}/retry", post(retry))
}

async fn list(env: Env, UrlQuery(wanted): UrlQuery<Wanted>) -> Result<Json<List>, ApiError> {
    Ok(Json(Index::new(&env).list(&wanted.filter()?).await?))
}

async fn counts(env: Env) -> Result<Json<BTreeMap<String, i64>>, ApiError> {
    Ok(Json(Index::new(&env).counts().await?))
}

async fn show(env: Env, UrlPath(by_id): UrlPath<ById>) -> Result<Json<Shown>, ApiError> {
    Ok(Json(by_id.request(&env)?.show().await?))
}

async fn runs(
    env: Env,
    UrlPath(by_id): UrlPath<ById>,
    UrlQuery(wanted): UrlQuery<WantedRuns>,
) -> Result<Json<Runs>, ApiError> {
    let limit = wanted.limit.unwrap_or(limits::PAGE);
    let runs = by_id.request(&env)?.runs(wanted.before, limit);
    Ok(Json(runs.await?))
}

async fn pause(env: Env, UrlPath(by_id): UrlPath<ById>) -> Result<Json<Shown>, ApiError> {
    Ok(Json(by_id.request(&env)?.pause().await?))
}

async fn resume(env: Env, UrlPath(by_id): UrlPath<ById>) -> Result<Json<Shown>, ApiError> {
    Ok(Json(by_id.request(&env)?.resume().await?))
}

async fn retry(env: Env, UrlPath(by_id): UrlPath<ById>) -> Result<Json<Shown>, ApiError> {
    Ok(Json(by_id.request(&env)?.retry().await?))
}

async fn cancel(env: Env, UrlPath(by_id): UrlPath<ById>) -> Result<StatusCode, ApiError> {
    by_id.request(&env)?.cancel().await?;
    Ok(StatusCode::NO_CONTENT)
}
