//! Delivery of a notice from an endpoint's outbox.
//!
//! Contract: a notice is signed for the endpoint as registered at the time of sending, and goes to the registered URL.
//! A notice with another URL is not sent.

use abide::{
    outbox::handlers::{NoSecret, Secret, Webhook, WebhookDelivery},
    outbox::{Deliver, Delivery, Failure, OutboxMessage, RetryPolicy, Submitted},
};
use serde::{Deserialize, Serialize};

use super::{Endpoint, Notice, endpoints};

/// A notice addressed to an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The endpoint's id.
    endpoint: String,
    /// What it is sent.
    webhook: Webhook,
}

/// Sends notices as [`Webhook`]s, signed with the endpoint's current secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoticeDelivery;

impl NoticeDelivery {
    /// A notice for an endpoint. It is one message, however often it is enqueued, and the notices of one resource keep
    /// their order.
    pub(super) fn notify(endpoint: &Endpoint, notice: &Notice) -> abide::Result<OutboxMessage> {
        let told = Told {
            endpoint: endpoint.id.clone(),
            webhook: Webhook::new(&endpoint.url, &notice.event, notice)?,
        };
        let message = Self::message(&told)?.ordering_key(&notice.resource.id);
        Ok(message.dedup_key(&notice.id))
    }
}

fn webhooks(secrets: Vec<Secret>) -> WebhookDelivery {
    WebhookDelivery::new(move |_: &str| secrets.clone())
}

impl Deliver for NoticeDelivery {
    type Payload = Told;

    const KIND: &'static str = "notice";

    fn destination(&self, told: &Told) -> String {
        webhooks(Vec::new()).destination(&told.webhook)
    }

    fn summary(&self, told: &Told) -> String {
        webhooks(Vec::new()).summary(&told.webhook)
    }

    fn retry(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy::webhooks())
    }

    async fn submit(&self, delivery: &Delivery, told: &Told) -> Result<Submitted, Failure> {
        let registered = endpoints(delivery.env()).registration(told.endpoint.clone());
        // This is a local failure: the receiver was not contacted.
        let registered = registered
            .await
            .map_err(|error| Failure::not_sent(error.to_string()))?;
        let (url, secret) = registered.ok_or_else(|| gone(&told.endpoint))?;
        if told.webhook.endpoint != url {
            return Err(Failure::permanent(format!(
                "the endpoint {} is registered with another URL, to which this notice does not belong",
                told.endpoint
            )));
        }
        let secret: Secret = secret
            .parse()
            .map_err(|error: NoSecret| Failure::permanent(error.to_string()))?;
        webhooks(vec![secret]).submit(delivery, &told.webhook).await
    }
}

/// It can never be delivered.
fn gone(endpoint: &str) -> Failure {
    Failure::permanent(format!("the endpoint {endpoint} was deleted"))
}
