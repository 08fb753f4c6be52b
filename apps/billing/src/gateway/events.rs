//! Verification of a gateway's webhooks.

use abide::http::HeaderMap;
use abide::outbox::handlers::{NotVerified, Secret, verify};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{GatewayEvent, RefundEvent};
use crate::Time;

/// Seconds by which the gateway's clock may differ from ours, and for which a captured webhook may be replayed: a copy
/// has no effect.
const TOLERANCE: u64 = 300;

/// The secrets for the gateway's Standard Webhooks signatures: the newest first, two during a rotation. Share it with
/// [`HostBuilder::with`](abide::server::HostBuilder::with).
#[derive(Clone, Debug)]
pub struct EventSecrets(Vec<Secret>);

/// The subject of a gateway webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Told {
    /// A payment.
    Payment(GatewayEvent),
    /// A refund.
    Refund(RefundEvent),
}

/// Why a webhook was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EventError {
    /// It may be from another sender, or is too old.
    #[error(transparent)]
    NotVerified(#[from] NotVerified),
    /// It is signed, but has unexpected content.
    #[error("{0}")]
    Invalid(String),
}

impl EventSecrets {
    /// These.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self(secrets.into_iter().collect())
    }

    /// The content of a webhook that arrived at a time. The body must be unmodified.
    pub fn read(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<Told, EventError> {
        verify(&self.0, headers, body, now.seconds(), TOLERANCE)?;
        serde_json::from_slice(body).map_err(|_| {
            EventError::Invalid("It is neither a payment event nor a refund event.".to_owned())
        })
    }
}
