//! The destination of batches.

use std::time::Duration;

use abide::{
    Body, Env, Request,
    http::{Method, Uri, header},
};
use thiserror::Error;

use crate::Batch;

/// The service that receives batches, and how long posts are collected for it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Accepts `POST` of a JSON array, with an `Idempotency-Key`.
    pub url: Uri,
    /// The time from the first post of a batch until it is sent.
    pub window: Duration,
}

/// Why a batch was not accepted. It is retried.
#[derive(Debug, Error)]
pub(crate) enum NotTaken {
    #[error("the upstream answered {0}")]
    Answered(abide::http::StatusCode),
    #[error("no response from the upstream: {0}")]
    Silent(#[from] abide::Error),
}

impl Upstream {
    /// Sends a batch. `Ok` if the upstream confirms that it has it.
    pub(crate) async fn send(&self, env: &Env, batch: &Batch) -> Result<(), NotTaken> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", &batch.key)
            .body(Body::from(batch.body()))
            .map_err(abide::Error::from)?;
        let answer = env.fetch(request).await?;
        if answer.status().is_success() {
            Ok(())
        } else {
            Err(NotTaken::Answered(answer.status()))
        }
    }
}
