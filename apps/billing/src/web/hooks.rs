//! The endpoints of webhooks in JSON.

use abide::{
    Env,
    server::{ApiError, IdempotencyKey, JsonBody, UrlPath},
};
use axum::{Json, http::StatusCode};
use serde::Serialize;

use super::{
    answer::{ById, told},
    id,
};
use crate::hooks::{Endpoint, NewEndpoint, Registered, endpoints};

const PREFIX: &str = "we";

#[derive(Serialize)]
pub(super) struct Listed {
    endpoints: Vec<Endpoint>,
}

pub(super) async fn register(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(new): JsonBody<NewEndpoint>,
) -> Result<(StatusCode, Json<Registered>), ApiError> {
    let id = id::fresh(PREFIX, key.as_deref())?;
    let endpoints = match key {
        Some(key) => endpoints(&env).with_idempotency_key(key),
        None => endpoints(&env),
    };
    let registered = endpoints.register(id, new).await.map_err(told)?;
    Ok((StatusCode::CREATED, Json(registered)))
}

pub(super) async fn list(env: Env) -> Result<Json<Listed>, ApiError> {
    let endpoints = endpoints(&env).list().await?;
    Ok(Json(Listed { endpoints }))
}

pub(super) async fn show(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Endpoint>, ApiError> {
    id::check(PREFIX, &id)?;
    Ok(Json(endpoints(&env).show(id).await.map_err(told)?))
}

pub(super) async fn remove(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Endpoint>, ApiError> {
    id::check(PREFIX, &id)?;
    Ok(Json(endpoints(&env).remove(id).await.map_err(told)?))
}
