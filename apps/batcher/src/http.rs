//! The HTTP API.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /batches/{name}` with any JSON | 202 and `{"id":7,"queued":3}`: it is stored and will be delivered; `queued` is the number of waiting posts, including this one |
//! | `GET /batches/{name}` | 200 and `{"waiting":3,"due":…,"batch":null}` |

use abide::{
    Env, Stub,
    server::{
        ApiError, JsonBody, UrlPath,
        access::{Access, Need},
    },
};
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
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
    State(env): State<Env>,
    UrlPath(path): UrlPath<BatchPath>,
    JsonBody(body): JsonBody<Box<RawValue>>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let body = body.get();
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
    let accepted = batcher(&env, &path).post(body.to_owned()).await??;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

async fn look(
    State(env): State<Env>,
    UrlPath(path): UrlPath<BatchPath>,
) -> Result<Json<Queue>, ApiError> {
    Ok(Json(batcher(&env, &path).queue().await??))
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
