//! The mails in JSON.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /api/mails` of `{"to":["…"],"subject":"…","text":"…"}` | 202 and `{"mail":1}`, or `{"list":1}` if there are several recipients. With an `Idempotency-Key` it is accepted once |
//! | `GET /api/mails?status=&before=&limit=` | 200 and `{"records":[…],"next":…}`, newest first |
//! | `GET /api/mails/{id}` | 200 and `{"record":{…},"email":{…},"history":[…]}` |
//! | `POST /api/mails/{id}/redrive` | 200 and the mail's record: it had failed, and is queued again |
//! | `DELETE /api/mails/{id}` | 200 and the mail's record: it is canceled, or discarded if it had failed |
//! | `GET /api/overview` | 200: counts, failing destinations, the newest lists |

use abide::outbox::{Page, Record};
use abide::{
    Env,
    server::{ApiError, IdempotencyKey, JsonBody, UrlPath, UrlQuery},
};
use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};

use crate::{
    Composed, Draft, Mail, Overview,
    mails::mails,
    request::{ById, Wanted, told},
};

pub(crate) fn router() -> Router<Env> {
    Router::new()
        .route("/mails", post(compose).get(list))
        .route("/mails/{id}", get(show).delete(drop_one))
        .route("/mails/{id}/redrive", post(redrive))
        .route("/overview", get(overview))
        .fallback(nowhere)
}

async fn nowhere() -> ApiError {
    ApiError::not_found("not_found", "There is no such resource.")
}

async fn compose(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(draft): JsonBody<Draft>,
) -> Result<(StatusCode, Json<Composed>), ApiError> {
    let mails = mails(&env);
    let mails = match key {
        Some(key) => mails.with_idempotency_key(key),
        None => mails,
    };
    let composed = mails.compose(draft).await.map_err(told)?;
    Ok((StatusCode::ACCEPTED, Json(composed)))
}

async fn list(env: Env, UrlQuery(wanted): UrlQuery<Wanted>) -> Result<Json<Page>, ApiError> {
    Ok(Json(mails(&env).list(wanted.filter()).await?))
}

async fn show(env: Env, UrlPath(ById { id }): UrlPath<ById>) -> Result<Json<Mail>, ApiError> {
    Ok(Json(mails(&env).show(id).await.map_err(told)?))
}

async fn redrive(env: Env, UrlPath(ById { id }): UrlPath<ById>) -> Result<Json<Record>, ApiError> {
    Ok(Json(mails(&env).redrive(id).await.map_err(told)?))
}

async fn drop_one(env: Env, UrlPath(ById { id }): UrlPath<ById>) -> Result<Json<Record>, ApiError> {
    Ok(Json(mails(&env).give_up(id).await.map_err(told)?))
}

async fn overview(env: Env) -> Result<Json<Overview>, ApiError> {
    Ok(Json(mails(&env).overview().await?))
}
