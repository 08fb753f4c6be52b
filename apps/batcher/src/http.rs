//! The HTTP API.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /batches/{name}` with any JSON or text | 202 and `{"id":7,"queued":3}`: it is stored and will be delivered; `queued` is the number of waiting posts, including this one |
//! | `GET /batches/{name}` | 200 and `{"waiting":3,"due":…,"batch":null}` |
//!
//! A post that is JSON is sent on as it is, any other text as a JSON string. With the content type `application/json`, only JSON is
//! accepted; with `text/plain` or another `text/…`, the post is a string, whatever it contains.

use abide::{
    Env, Stub,
    server::{
        ApiError, JsonBody, TextBody, UrlPath,
        access::{Access, Need},
    },
};
use axum::{
    Json, Router,
    extract::{FromRequest, Request},
    http::{StatusCode, header::CONTENT_TYPE},
    routing::post,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Accepted, Batcher, BatcherError, MAX_POST, Queue};

/// The program's routes, open to any caller.
pub fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let router = Router::new()
        .route("/batches/{name}", post(take).get(look))
        .with_state(env);
    access.protect(router, |route| {
        Need::by_method(route.method).object("Batcher", route.param("name"))
    })
}

#[derive(Deserialize)]
struct BatchPath {
    name: String,
}

async fn take(
    env: Env,
    UrlPath(path): UrlPath<BatchPath>,
    Post(body): Post,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    if body.len() > MAX_POST {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "post_too_large",
            format!(
                "A post may have at most {MAX_POST} bytes; this one has {}.",
                body.len()
            ),
        ));
    }
    let accepted = batcher(&env, &path).post(body).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// A post, as JSON.
struct Post(String);

impl<S: Send + Sync> FromRequest<S> for Post {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("application/json") {
            let JsonBody(json) = JsonBody::<Box<RawValue>>::from_request(request, state).await?;
            return Ok(Self(json.get().to_owned()));
        }
        let TextBody(text) = TextBody::from_request(request, state).await?;
        let is_text = kind.starts_with("text/");
        Ok(Self(match serde_json::from_str::<&RawValue>(&text) {
            Ok(json) if !is_text => json.get().to_owned(),
            _ => serde_json::Value::from(text).to_string(),
        }))
    }
}

async fn look(env: Env, UrlPath(path): UrlPath<BatchPath>) -> Result<Json<Queue>, ApiError> {
    Ok(Json(batcher(&env, &path).queue().await?))
}

fn batcher(env: &Env, path: &BatchPath) -> Stub<Batcher> {
    env.object::<Batcher>().get_by_name(&path.name)
}

impl From<BatcherError> for ApiError {
    fn from(error: BatcherError) -> Self {
        let text = error.to_string();
        match error {
            BatcherError::Full => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "queue_full", text).retry_soon()
            }
            BatcherError::Storage(error) => error.into(),
        }
    }
}
