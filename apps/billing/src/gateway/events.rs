//! What a gateway's webhooks are trusted by.

use abide::http::HeaderMap;
use abide::outbox::handlers::{NotVerified, Secret, verify};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{GatewayEvent, RefundEvent};
use crate::{
    Time,
    broken::{Variant, broken},
};

/// Seconds by which the gateway's clock may differ from ours, and for which a webhook that somebody has seen may be
/// repeated: a copy is heard once.
const TOLERANCE: u64 = 300;

/// What the gateway signs its webhooks with, as Standard Webhooks: the newest first, two while one is replaced. To be
/// shared with [`HostBuilder::with`](abide::server::HostBuilder::with).
#[derive(Clone, Debug)]
pub struct EventSecrets(Vec<Secret>);

/// What a webhook of the gateway is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Told {
    /// A payment.
    Payment(GatewayEvent),
    /// A refund.
    Refund(RefundEvent),
}

/// Why a webhook was not heard.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EventError {
    /// Somebody else may have sent it, or it is old.
    #[error(transparent)]
    NotVerified(#[from] NotVerified),
    /// It is signed, and says something else.
    #[error("{0}")]
    Invalid(String),
}

impl EventSecrets {
    /// These.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self(secrets.into_iter().collect())
    }

    /// What a webhook that came at a time says. The body is what was received, byte by byte.
    pub fn read(&self, headers: &HeaderMap, body: &[u8], now: Time) -> Result<Told, EventError> {
        match verify(&self.0, headers, body, now.seconds(), tolerance()) {
            Err(_) if broken(Variant::SignatureUnchecked) => {}
            verified => drop(verified?),
        }
        serde_json::from_slice(body).map_err(|_| {
            EventError::Invalid("It is no event of a payment, nor of a refund.".to_owned())
        })
    }
}

fn tolerance() -> u64 {
    if broken(Variant::OldEventHeard) {
        return u64::MAX;
    }
    TOLERANCE
}
