//! The receivers of webhooks.

use abide::outbox::Deliver;
use abide::outbox::handlers::{Secret, Webhook, WebhookDelivery};
use serde::{Deserialize, Serialize};

use super::{TYPES, limits};
use crate::{Time, states::Refusal};

/// The registration of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEndpoint {
    /// Where notices go: `https://…`.
    pub url: String,
    /// The requested types; `*` and an empty list mean all types.
    #[serde(default)]
    pub events: Vec<String>,
    /// The signing secret, `whsec_` and 24 to 64 bytes in base64; generated if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// An endpoint, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its id, which is the name of its outbox too.
    pub id: String,
    /// Where notices go.
    pub url: String,
    /// The requested types, sorted; empty for all.
    pub events: Vec<String>,
    /// When it was registered.
    pub created_at: Time,
}

/// An endpoint as shown once, on registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The endpoint.
    #[serde(flatten)]
    pub endpoint: Endpoint,
    /// The signing secret of its notices.
    pub secret: String,
}

impl Endpoint {
    /// Returns whether it receives this type.
    pub fn wants(&self, event: &str) -> bool {
        self.events.is_empty() || self.events.iter().any(|wanted| wanted == event)
    }
}

impl NewEndpoint {
    /// The endpoint and its secret. Rejects invalid input.
    pub(super) fn register(self, id: String, at: Time) -> Result<(Endpoint, Secret), Refusal> {
        let mut events = self.events;
        for event in &events {
            if event != "*" && !TYPES.contains(&event.as_str()) {
                return Err(Refusal::Invalid(format!(
                    "There is no event type “{event}”. The types are {}.",
                    TYPES.join(", ")
                )));
            }
        }
        if events.iter().any(|event| event == "*") {
            events.clear();
        }
        events.sort_unstable();
        events.dedup();
        let secret = match self.secret {
            Some(text) => text.parse().ok(),
            None => fresh(),
        };
        let secret: Secret = secret.ok_or_else(|| {
            Refusal::Invalid("A secret must be `whsec_` and 24 to 64 bytes in base64.".to_owned())
        })?;
        check(&self.url, &secret)?;
        let endpoint = Endpoint {
            id,
            url: self.url,
            events,
            created_at: at,
        };
        Ok((endpoint, secret))
    }
}

#[allow(clippy::disallowed_methods, reason = "a secret must be unpredictable")]
fn fresh() -> Option<Secret> {
    let mut bytes = [0; limits::SECRET_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Secret::new(bytes).ok()
}

/// Rejects a URL that cannot receive webhooks.
fn check(url: &str, secret: &Secret) -> Result<(), Refusal> {
    let secret = secret.clone();
    let handler = WebhookDelivery::new(move |_: &str| vec![secret.clone()]);
    let webhook = Webhook::new(url, TYPES[0], &());
    let webhook = webhook.map_err(|error| Refusal::Invalid(error.to_string()))?;
    handler.check(&webhook).map_err(Refusal::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(url: &str, events: &[&str], secret: Option<&str>) -> Result<Endpoint, String> {
        let new = NewEndpoint {
            url: url.into(),
            events: events.iter().copied().map(str::to_owned).collect(),
            secret: secret.map(str::to_owned),
        };
        let registered = new.register("we_1".into(), Time(7));
        registered
            .map(|(endpoint, _)| endpoint)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_endpoint_wants_what_it_has_named_or_everything() {
        let some = register(
            "https://example.com",
            &["invoice.paid", "invoice.paid"],
            None,
        );
        let some = some.unwrap();
        assert_eq!(some.events, ["invoice.paid"]);
        assert!(some.wants("invoice.paid") && !some.wants("invoice.created"));
        for all in [&["invoice.paid", "*"][..], &[]] {
            let all = register("https://example.com", all, None).unwrap();
            assert!(TYPES.iter().all(|event| all.wants(event)));
        }
    }

    #[test]
    fn what_could_never_be_told_is_refused() {
        let url = "https://example.com";
        for refused in [
            register("example.com", &[], None),
            register("ftp://example.com", &[], None),
            register("https://ada:secret@example.com", &[], None),
            register(url, &["invoice.lost"], None),
            register(url, &[], Some("secret")),
        ] {
            assert!(refused.unwrap_err().len() > 20);
        }
        register(url, &[], Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).unwrap();
    }

    #[test]
    fn no_two_endpoints_have_the_same_secret() {
        assert_ne!(fresh().unwrap().reveal(), fresh().unwrap().reveal());
    }
}
