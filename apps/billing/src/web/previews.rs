//! Previews in JSON.

use abide::{
    Env,
    server::{ApiError, JsonBody, UrlPath},
};
use axum::Json;
use serde::Serialize;

use super::{
    answer::{ById, Change, object, told},
    id,
};
use crate::{
    resources::Subscription,
    states::{Preview, Upcoming},
};

#[derive(Serialize)]
pub(super) struct Next {
    upcoming: Option<Upcoming>,
}

/// The next invoice, if nothing else happens.
pub(super) async fn upcoming(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Next>, ApiError> {
    let subscription = object!(env, Subscription, "sub", &id);
    let upcoming = subscription.upcoming().await.map_err(told)?;
    Ok(Json(Next { upcoming }))
}

/// The effect of a plan change, without making it.
pub(super) async fn change(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(change): JsonBody<Change>,
) -> Result<Json<Preview>, ApiError> {
    id::check("price", &change.price)?;
    let subscription = object!(env, Subscription, "sub", &id);
    let preview = subscription.preview(change.price, change.quantity).await;
    Ok(Json(preview.map_err(told)?))
}
