//! How a run leaves: the outbox's handler for HTTP requests, with a signature as Standard Webhooks has it.
//!
//! Contract: every attempt at a run carries the same `Idempotency-Key`, which is also its `webhook-id`. The secret of each
//! origin is derived from the program's key, so a request to one receiver cannot be replayed to another as genuine.

use abide::{
    outbox::handlers::{HttpBody, HttpCall, HttpDelivery, Secret},
    outbox::{Deliver, Delivery, Failure, Polled, Registry, Submitted},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use url::Url;

/// The headers of a signature.
pub(crate) const SIGNATURE_HEADERS: [&str; 3] =
    ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// The program's key, from which each receiver's secret is derived.
#[derive(Clone)]
pub struct SigningKey(String);

impl SigningKey {
    /// Any text that is hard to guess; at least 24 bytes.
    pub fn new(text: String) -> anyhow::Result<Self> {
        anyhow::ensure!(
            text.len() >= 24,
            "the signing key has {} bytes: give it at least 24 that are hard to guess, such as `openssl rand -base64 32` prints",
            text.len()
        );
        Ok(Self(text))
    }

    /// The secret that a URL's receiver shares with this program: that of its scheme, host and port.
    pub fn secret(&self, url: &str) -> anyhow::Result<Secret> {
        let url = Url::parse(url)?;
        anyhow::ensure!(
            matches!(url.scheme(), "http" | "https"),
            "`{url}` does not begin with http:// or https://"
        );
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes())?;
        mac.update(url.origin().ascii_serialization().as_bytes());
        Ok(Secret::new(mac.finalize().into_bytes().to_vec())?)
    }
}

/// The handlers of the outboxes.
pub fn registry(key: Option<SigningKey>) -> Registry {
    Registry::new().with(SignedHttp {
        http: HttpDelivery::new(),
        key,
    })
}

/// The handler of kind `http`, which signs what it sends if the program has a key.
struct SignedHttp {
    http: HttpDelivery,
    key: Option<SigningKey>,
}

impl SignedHttp {
    fn sign(&self, delivery: &Delivery, call: &HttpCall) -> anyhow::Result<HttpCall> {
        let mut call = call.clone();
        if let Some(key) = &self.key {
            let body = match &call.body {
                None => Vec::new(),
                Some(HttpBody::Json(json)) => json.get().into(),
                Some(HttpBody::Text(text)) => text.clone().into(),
                Some(HttpBody::Base64(text)) => STANDARD.decode(text)?,
            };
            let seconds = delivery.now().div_euclid(1_000);
            let secret = key.secret(&call.url)?;
            for (name, value) in secret.headers(delivery.idempotency_key(), seconds, &body) {
                call.headers.insert(name.to_string(), value);
            }
        }
        Ok(call)
    }
}

impl Deliver for SignedHttp {
    type Payload = HttpCall;

    const KIND: &'static str = HttpDelivery::KIND;

    fn check(&self, call: &HttpCall) -> Result<(), String> {
        self.http.check(call)
    }

    fn destination(&self, call: &HttpCall) -> String {
        self.http.destination(call)
    }

    fn summary(&self, call: &HttpCall) -> String {
        self.http.summary(call)
    }

    async fn submit(&self, delivery: &Delivery, call: &HttpCall) -> Result<Submitted, Failure> {
        let signed = self
            .sign(delivery, call)
            .map_err(|error| Failure::permanent(error.to_string()))?;
        self.http.submit(delivery, &signed).await
    }

    async fn poll(
        &self,
        delivery: &Delivery,
        call: &HttpCall,
        operation: &str,
    ) -> Result<Polled, Failure> {
        self.http.poll(delivery, call, operation).await
    }
}
