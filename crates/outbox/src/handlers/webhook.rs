//! Kind `webhook`: a signed event for another server.
//!
//! Contract: follows [Standard
//! Webhooks](https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). `webhook-id`
//! is the idempotency key, by which a receiver can detect duplicates; the body is the same on every attempt. Secrets
//! come from the handler's [`Secrets`] and are not stored in any row. A 2xx response delivers; 410 fails at once; all
//! others, including redirects and 404, are retried as long as the schedule says.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use abide::{
    Body, Request,
    http::{HeaderMap, HeaderName, StatusCode, header},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::Sha256;
use thiserror::Error;

use super::{
    address::{endpoint, origin, target, uri, without_query},
    answer, json, limits,
};
use crate::{Deliver, Delivery, Failure, RetryPolicy, Submitted};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// An event as a message. The receiver gets `{"type":…,"timestamp":…,"data":…}`.
///
/// ```
/// use abide::{
///     outbox::handlers::{StaticSecrets, Webhook, WebhookDelivery},
///     outbox::{Deliver, Outbox, OutboxError, Registry},
/// };
/// use serde_json::json;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let secrets = StaticSecrets::new()
///     .with("https://example.com/hooks", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?]);
/// let registry = Registry::new().with(WebhookDelivery::new(secrets));
/// # Ok(())
/// # }
///
/// fn tell(outbox: &Outbox) -> Result<(), OutboxError> {
///     let event = Webhook::new("https://example.com/hooks", "seat.taken", &json!({ "seat": "14C" }))?;
///     WebhookDelivery::enqueue(outbox, &event)?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The receiver's URL.
    pub endpoint: String,
    /// The event type, in words separated by dots: `invoice.paid`.
    #[serde(rename = "type")]
    pub event: String,
    /// The event's data.
    pub data: Box<RawValue>,
}

impl Webhook {
    /// An event.
    pub fn new(
        endpoint: impl Into<String>,
        event: impl Into<String>,
        data: &(impl Serialize + ?Sized),
    ) -> abide::Result<Self> {
        Ok(Self {
            endpoint: endpoint.into(),
            event: event.into(),
            data: json(data)?,
        })
    }
}

/// A secret that a sender and a receiver share: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text is not a secret of Standard Webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a webhook's secret is `whsec_` and 24 to 64 bytes in base64")]
pub struct NoSecret;

impl FromStr for Secret {
    type Err = NoSecret;

    fn from_str(text: &str) -> Result<Self, NoSecret> {
        let text = text.strip_prefix("whsec_").ok_or(NoSecret)?;
        Self::new(STANDARD.decode(text).map_err(|_| NoSecret)?)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// The secret with these bytes, 24 to 64 that are hard to guess.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NoSecret> {
        let bytes = bytes.into();
        let fits = limits::SECRET_BYTES.contains(&bytes.len());
        fits.then_some(Self(bytes)).ok_or(NoSecret)
    }

    /// The text to give to the receiver. Nothing else shows the secret.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", STANDARD.encode(&self.0))
    }

    /// The headers of a webhook that is sent at a time, in seconds since 1970, without an outbox, as [`verify`] expects
    /// them. `id` is one line of text without a dot.
    pub fn headers(&self, id: &str, now: i64, body: &[u8]) -> [(HeaderName, String); 3] {
        let timestamp = now.to_string();
        let signature = self.sign(id, &timestamp, body);
        [
            (ID, id.to_owned()),
            (TIMESTAMP, timestamp),
            (SIGNATURE, signature),
        ]
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }

    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let signature = self.mac(id, timestamp, body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(signature))
    }
}

/// The source of the secrets of endpoints. A function `Fn(&str) -> Vec<Secret>` implements it.
pub trait Secrets: Send + Sync + 'static {
    /// The secrets of an endpoint, the newest first. While a secret is being replaced there are two, and each signs.
    /// Without any, an event is refused. It is called on every attempt and must not block.
    fn of(&self, endpoint: &str) -> Vec<Secret>;
}

impl<F: Fn(&str) -> Vec<Secret> + Send + Sync + 'static> Secrets for F {
    fn of(&self, endpoint: &str) -> Vec<Secret> {
        self(endpoint)
    }
}

/// Secrets that do not change while the program runs.
#[derive(Clone, Debug, Default)]
pub struct StaticSecrets(HashMap<String, Vec<Secret>>);

impl StaticSecrets {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an endpoint's secrets, the newest first.
    #[must_use]
    pub fn with(
        mut self,
        endpoint: impl Into<String>,
        secrets: impl IntoIterator<Item = Secret>,
    ) -> Self {
        self.0.entry(endpoint.into()).or_default().extend(secrets);
        self
    }
}

impl Secrets for StaticSecrets {
    fn of(&self, endpoint: &str) -> Vec<Secret> {
        self.0.get(endpoint).cloned().unwrap_or_default()
    }
}

/// Sends [`Webhook`]s, by [Svix's schedule](RetryPolicy::webhooks).
#[derive(Clone)]
pub struct WebhookDelivery {
    secrets: Arc<dyn Secrets>,
    retry: RetryPolicy,
}

impl WebhookDelivery {
    /// A handler that signs with these secrets.
    pub fn new(secrets: impl Secrets) -> Self {
        Self {
            secrets: Arc::new(secrets),
            retry: RetryPolicy::webhooks(),
        }
    }

    /// Sets another retry schedule.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    fn secrets(&self, endpoint: &str) -> Result<Vec<Secret>, String> {
        let secrets = self.secrets.of(endpoint);
        if secrets.is_empty() {
            return Err(format!(
                "there is no secret for the endpoint {}",
                without_query(endpoint)
            ));
        }
        Ok(secrets)
    }

    fn request(&self, delivery: &Delivery, event: &Webhook) -> Result<Request, String> {
        let body = body(event, delivery.created_at())?;
        let id = delivery.idempotency_key();
        let timestamp = delivery.now().div_euclid(1_000).to_string();
        let signatures: Vec<String> = self
            .secrets(&event.endpoint)?
            .iter()
            .map(|secret| secret.sign(id, &timestamp, body.as_bytes()))
            .collect();
        Request::post(uri(&target(&event.endpoint)?)?)
            .header(header::CONTENT_TYPE, "application/json")
            .header(ID, id)
            .header(TIMESTAMP, timestamp)
            .header(SIGNATURE, signatures.join(" "))
            .body(Body::from(body))
            .map_err(|error| error.to_string())
    }
}

impl Deliver for WebhookDelivery {
    type Payload = Webhook;

    const KIND: &'static str = "webhook";

    fn check(&self, event: &Webhook) -> Result<(), String> {
        uri(&target(&event.endpoint)?)?;
        if !(1..=limits::MAX_EVENT_BYTES).contains(&event.event.len()) {
            return Err(format!(
                "the event's type has {} bytes; 1 to {} are allowed",
                event.event.len(),
                limits::MAX_EVENT_BYTES
            ));
        }
        self.secrets(&event.endpoint).map(drop)
    }

    /// The endpoint: a failing one delays no other, even of the same host.
    fn destination(&self, event: &Webhook) -> String {
        endpoint(&event.endpoint)
    }

    fn origin(&self, event: &Webhook) -> Option<String> {
        Some(origin(&event.endpoint))
    }

    fn summary(&self, event: &Webhook) -> String {
        format!("{} to {}", event.event, without_query(&event.endpoint))
    }

    /// Receivers detect duplicates by `webhook-id`.
    fn keeps_key(&self) -> bool {
        true
    }

    fn retry(&self) -> Option<RetryPolicy> {
        Some(self.retry.clone())
    }

    async fn submit(&self, delivery: &Delivery, event: &Webhook) -> Result<Submitted, Failure> {
        let request = self.request(delivery, event).map_err(Failure::permanent)?;
        let answer = answer::send(delivery, request).await?;
        match answer.status {
            status if status.is_success() => Ok(Submitted::Done),
            StatusCode::GONE => Err(Failure::permanent(
                "410 Gone: the receiver wants no more webhooks at this endpoint",
            )),
            _ => Err(answer.passing_failure()),
        }
    }
}

impl fmt::Debug for WebhookDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookDelivery")
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// The same at every attempt.
fn body(event: &Webhook, created_at: i64) -> Result<String, String> {
    #[derive(Serialize)]
    struct Body<'a> {
        r#type: &'a str,
        timestamp: String,
        data: &'a RawValue,
    }
    let timestamp = Timestamp::from_millisecond(created_at).map_err(|error| error.to_string())?;
    serde_json::to_string(&Body {
        r#type: &event.event,
        timestamp: timestamp.to_string(),
        data: &event.data,
    })
    .map_err(|error| error.to_string())
}

/// Why a received webhook is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotVerified {
    /// A header is missing, duplicated, or not text.
    #[error("header `{0}` is missing or unreadable")]
    Header(&'static str),
    /// It was signed too long ago, or in the future: it may be a replay.
    #[error("it was signed at another time")]
    Time,
    /// No secret produces one of its signatures.
    #[error("no signature matches")]
    Signature,
}

/// Verifies a received webhook and returns its id, which is the same for each of its attempts: a receiver that
/// remembers ids acts once. `body` is the exact received body; `now` is in seconds since 1970, and `tolerance` in
/// seconds (Standard Webhooks' libraries use 300).
pub fn verify<'a>(
    secrets: &[Secret],
    headers: &'a HeaderMap,
    body: &[u8],
    now: i64,
    tolerance: u64,
) -> Result<&'a str, NotVerified> {
    let (id, timestamp) = (one(headers, &ID)?, one(headers, &TIMESTAMP)?);
    let signatures = one(headers, &SIGNATURE)?;
    let signed_at: i64 = timestamp.parse().map_err(|_| NotVerified::Time)?;
    if signed_at.abs_diff(now) > tolerance {
        return Err(NotVerified::Time);
    }
    let given = signatures
        .split(' ')
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok());
    for signature in given {
        // In constant time.
        let fits = |secret: &Secret| {
            let mac = secret.mac(id, timestamp, body);
            mac.verify_slice(&signature).is_ok()
        };
        if secrets.iter().any(fits) {
            return Ok(id);
        }
    }
    Err(NotVerified::Signature)
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, NotVerified> {
    let mut values = headers.get_all(name).iter();
    let (value, more) = (values.next(), values.next());
    value
        .filter(|_| more.is_none())
        .and_then(|value| value.to_str().ok())
        .ok_or_else(|| {
            NotVerified::Header(match name {
                name if *name == ID => "webhook-id",
                name if *name == TIMESTAMP => "webhook-timestamp",
                _ => "webhook-signature",
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the reference libraries.
    const VECTOR: (&str, &str, &str, &[u8], &str) = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        br#"{"test": 2432232314}"#,
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );

    fn received(signatures: &str) -> HeaderMap {
        let (_, id, timestamp, ..) = VECTOR;
        let headers = [(ID, id), (TIMESTAMP, timestamp), (SIGNATURE, signatures)];
        headers
            .into_iter()
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_signature_is_that_of_the_reference_libraries() {
        let (secret, id, timestamp, body, signature) = VECTOR;
        let secret: Secret = secret.parse().unwrap();
        assert_eq!(secret.sign(id, timestamp, body), signature);
        let headers = secret.headers(id, timestamp.parse().unwrap(), body);
        let headers = headers.map(|(name, value)| (name, value.parse().unwrap()));
        assert_eq!(HeaderMap::from_iter(headers), received(signature));
    }

    #[test]
    fn a_receiver_only_trusts_recent_signatures_by_its_secrets() {
        let (secret, id, timestamp, body, signature) = VECTOR;
        let secret: Secret = secret.parse().unwrap();
        let other: Secret = format!("whsec_{}", STANDARD.encode([7; 32]))
            .parse()
            .unwrap();
        let now: i64 = timestamp.parse().unwrap();
        let both = [other.clone(), secret.clone()];
        let signed = received(signature);
        assert_eq!(verify(&both, &signed, body, now + 300, 300), Ok(id));
        for late in [now + 301, now - 301] {
            assert_eq!(
                verify(&both, &signed, body, late, 300),
                Err(NotVerified::Time)
            );
        }
        let no_fit = Err(NotVerified::Signature);
        assert_eq!(verify(&both, &signed, b"{}", now, 300), no_fit);
        assert_eq!(verify(&both[..1], &signed, body, now, 300), no_fit);
        assert_eq!(
            verify(&both, &received("v2,AAAA v1,="), body, now, 300),
            no_fit
        );

        // While a secret is being replaced there are two signatures.
        let two = format!("{} {signature}", other.sign(id, timestamp, body));
        for knows in [secret, other] {
            assert_eq!(verify(&[knows], &received(&two), body, now, 300), Ok(id));
        }
        assert_eq!(
            verify(&both, &HeaderMap::new(), body, now, 300),
            Err(NotVerified::Header("webhook-id"))
        );
    }

    #[test]
    fn a_secret_has_a_prefix_and_enough_bytes_and_is_not_shown() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        for no in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_*", &short] {
            assert_eq!(no.parse::<Secret>(), Err(NoSecret));
        }
        let secret: Secret = VECTOR.0.parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(secret.reveal(), VECTOR.0);
    }
}
