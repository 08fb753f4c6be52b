//! A gateway over HTTP.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /v1/payments` of a [`Charge`] | 200 and a [`Payment`](super::Payment) |
//! | `POST /v1/payments/{id}/confirm`, `…/cancel` | the same |
//! | `GET /v1/payments/{id}` | the same |
//! | `POST /v1/refunds` of a [`RefundCharge`] | 200 and a [`Refund`] |
//! | `GET /v1/refunds/{id}` | the same |
//!
//! Each `POST` has an `Idempotency-Key`, each request `Authorization: Bearer`. 408, 425, 429, and 503 with
//! `Retry-After` mean that nothing was accepted. Any other 5xx, and a response that is interrupted or takes longer than
//! [`PATIENCE`], mean that it may have been. 401 means that our key is invalid, which an operator must fix. Other
//! unsuccessful responses are final. Redirects are not followed.

use std::{fmt, time::Duration};

use abide::{
    Body, Env, ErrorKind, NoRedirects, Request, Response,
    http::{HeaderMap, Method, StatusCode, header},
};
use http_body_util::{BodyExt, Limited};

use serde::{Serialize, de::DeserializeOwned};

use super::{Asking, Charge, Gateway, GatewayError, Refund, RefundCharge};

/// The time limit for a response, including its body.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum size of a response in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// Characters of a response that are quoted in errors.
const MAX_QUOTE: usize = 200;

/// An adapter to a gateway with the API above.
#[derive(Clone)]
pub struct HttpGateway {
    base: String,
    authorization: String,
}

impl HttpGateway {
    /// The gateway at `https://HOST[:PORT][/PATH]`, with our key.
    pub fn new(base: &str, key: &str) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            authorization: format!("Bearer {key}"),
        }
    }

    fn ask<T: DeserializeOwned + 'static>(
        &self,
        env: &Env,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<String>,
    ) -> Asking<T> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/v1{path}", self.base))
            .header(header::AUTHORIZATION, &self.authorization);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from));
        let env = env.clone();
        Box::pin(async move {
            let mut request = request.map_err(|error| GatewayError::Refused {
                text: error.to_string(),
            })?;
            request.extensions_mut().insert(NoRedirects);
            let clock = env.clock();
            tokio::select! {
                biased;
                answer = exchange(&env, request) => answer,
                () = clock.sleep_until(clock.now() + PATIENCE) => Err(GatewayError::Unknown {
                    text: format!("no response within {} s", PATIENCE.as_secs()),
                }),
            }
        })
    }
}

impl HttpGateway {
    fn post<T: DeserializeOwned + 'static>(
        &self,
        env: &Env,
        path: &str,
        key: &str,
        body: &impl Serialize,
    ) -> Asking<T> {
        match serde_json::to_string(body) {
            Ok(body) => self.ask(env, Method::POST, path, Some(key), Some(body)),
            Err(error) => {
                let text = error.to_string();
                Box::pin(async { Err(GatewayError::Refused { text }) })
            }
        }
    }
}

impl fmt::Debug for HttpGateway {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpGateway").field(&self.base).finish()
    }
}

impl Gateway for HttpGateway {
    fn create(&self, env: &Env, key: &str, charge: &Charge) -> Asking {
        self.post(env, "/payments", key, charge)
    }

    fn confirm(&self, env: &Env, key: &str, payment: &str) -> Asking {
        let path = format!("/payments/{payment}/confirm");
        self.ask(env, Method::POST, &path, Some(key), None)
    }

    fn cancel(&self, env: &Env, key: &str, payment: &str) -> Asking {
        let path = format!("/payments/{payment}/cancel");
        self.ask(env, Method::POST, &path, Some(key), None)
    }

    fn status(&self, env: &Env, payment: &str) -> Asking {
        let path = format!("/payments/{payment}");
        self.ask(env, Method::GET, &path, None, None)
    }

    fn refund(&self, env: &Env, key: &str, charge: &RefundCharge) -> Asking<Refund> {
        self.post(env, "/refunds", key, charge)
    }

    fn refund_status(&self, env: &Env, refund: &str) -> Asking<Refund> {
        let path = format!("/refunds/{refund}");
        self.ask(env, Method::GET, &path, None, None)
    }
}

async fn exchange<T: DeserializeOwned>(env: &Env, request: Request) -> Result<T, GatewayError> {
    let response = env.fetch(request).await.map_err(|error| {
        let text = error.message().to_owned();
        match error.kind() {
            // The client is overloaded, or the gateway was not reached, or its address is forbidden.
            ErrorKind::Overloaded | ErrorKind::Unavailable | ErrorKind::Forbidden => {
                GatewayError::Busy { text, after: None }
            }
            ErrorKind::Input | ErrorKind::Limit | ErrorKind::NotFound => {
                GatewayError::Refused { text }
            }
            _ => GatewayError::Unknown { text },
        }
    })?;
    understand(response).await
}

async fn understand<T: DeserializeOwned>(response: Response) -> Result<T, GatewayError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    if head.status.is_success() {
        let body = body.map_err(|error| GatewayError::Unknown {
            text: format!("its response was interrupted: {error}"),
        })?;
        return serde_json::from_slice(&body).map_err(|error| GatewayError::Unknown {
            text: format!("its response cannot be parsed: {error}"),
        });
    }
    let quote = body.unwrap_or_default();
    let quote: String = String::from_utf8_lossy(&quote)
        .chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_QUOTE)
        .collect();
    let text = format!("{}: {quote}", head.status);
    let after = retry_after(&head.headers);
    Err(match head.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
            GatewayError::Busy { text, after }
        }
        // This is not the fault of the customer's card.
        StatusCode::UNAUTHORIZED => {
            tracing::error!(text, "the gateway rejects our key");
            GatewayError::Busy { text, after }
        }
        StatusCode::SERVICE_UNAVAILABLE if after.is_some() => GatewayError::Busy { text, after },
        // An attempt whose answer was lost may still run there.
        StatusCode::CONFLICT => GatewayError::Unknown { text },
        status if status.is_server_error() => GatewayError::Unknown { text },
        _ => GatewayError::Refused { text },
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
