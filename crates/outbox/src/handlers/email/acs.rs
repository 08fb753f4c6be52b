//! Email through the API of Azure Communication Services.
//!
//! Contract: an email is an operation of the service, whose id (`Operation-Id`) is derived from the idempotency key. If
//! a response was lost, the handler first asks the service for that operation, and sends the email again, with the same
//! id, only if the service does not know it. An accepted submission is polled until it finishes, even if the response
//! was 429 or 5xx. Every request is signed with the access key, and none goes to another server.
//!
//! The headers of [repeatable requests](https://learn.microsoft.com/rest/api/communication/repeatable-requests) are not
//! sent: the service remembers those for only 5 minutes, repeats a refusal, and permanently refuses requests that were
//! first sent longer ago.

use std::fmt;

use abide::{
    Body, Request,
    http::{HeaderName, Method, StatusCode, header},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use serde::Serialize;
use sha2::{Digest, Sha256};
use url::{Position, Url};

use super::{Email, invalid, mail::mailbox};
use crate::{
    Deliver, Delivery, Failure, Polled, Submitted,
    handlers::{
        address::{target, uri},
        answer::{self, Answer},
        operation,
    },
};

const API_VERSION: &str = "2023-03-31";

const OPERATION_ID: HeaderName = HeaderName::from_static("operation-id");
const DATE: HeaderName = HeaderName::from_static("x-ms-date");
const CONTENT_HASH: HeaderName = HeaderName::from_static("x-ms-content-sha256");

/// Sends [`Email`]s through Azure Communication Services. The sender's display name comes from the service's settings,
/// and inline images need an [API version](Self::api_version) that supports them.
///
/// ```
/// use abide::{
///     outbox::handlers::{AcsDelivery, Email},
///     outbox::{Deliver, Outbox, OutboxError, Registry},
/// };
///
/// # fn example() -> abide::Result<()> {
/// let service = AcsDelivery::from_connection_string(
///     "endpoint=https://seats.europe.communication.azure.com/;accesskey=c2VjcmV0",
/// )?;
/// let registry = Registry::new().with(service);
/// # Ok(())
/// # }
///
/// fn tell(outbox: &Outbox) -> Result<(), OutboxError> {
///     let mail = Email::new("seats@example.com", "Your seat").to("ada@example.org").text("14C");
///     AcsDelivery::enqueue(outbox, &mail)?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct AcsDelivery {
    endpoint: Url,
    key: Vec<u8>,
    api_version: String,
}

impl AcsDelivery {
    /// A service by its endpoint and its access key in base64, as the portal shows them.
    pub fn new(endpoint: &str, access_key: &str) -> abide::Result<Self> {
        let mut endpoint = target(endpoint).map_err(invalid)?;
        endpoint.set_path("/");
        endpoint.set_query(None);
        let key = STANDARD
            .decode(access_key)
            .map_err(|_| invalid("the access key is not valid base64"))?;
        Ok(Self {
            endpoint,
            key,
            api_version: API_VERSION.to_owned(),
        })
    }

    /// A service by its connection string: `endpoint=https://…;accesskey=…`.
    pub fn from_connection_string(text: &str) -> abide::Result<Self> {
        let part = |name: &str| {
            let mut parts = text.split(';').filter_map(|part| part.split_once('='));
            let found = parts.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found
                .map(|(_, value)| value.trim())
                .ok_or_else(|| invalid(format!("the connection string has no `{name}=`")))
        };
        Self::new(part("endpoint")?, part("accesskey")?)
    }

    /// Uses another API version than 2023-03-31.
    #[must_use]
    pub fn api_version(mut self, version: impl Into<String>) -> Self {
        self.api_version = version.into();
        self
    }

    fn url(&self, path: &str) -> Result<Url, Failure> {
        let found = self.endpoint.join(path);
        let mut url = found.map_err(|error| Failure::permanent(error.to_string()))?;
        url.query_pairs_mut()
            .append_pair("api-version", &self.api_version);
        Ok(url)
    }

    /// A request with the service's signature.
    fn request(
        &self,
        delivery: &Delivery,
        method: &Method,
        url: &Url,
        body: Vec<u8>,
    ) -> Result<Request, String> {
        let date = http_date(delivery.now())?;
        let hash = STANDARD.encode(Sha256::digest(&body));
        let signature = self.signature(method, url, &date, &hash);
        Request::builder()
            .method(method)
            .uri(uri(url)?)
            .header(DATE, date)
            .header(CONTENT_HASH, hash)
            .header(
                header::AUTHORIZATION,
                format!(
                    "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={signature}"
                ),
            )
            .body(Body::from(body))
            .map_err(|error| error.to_string())
    }

    fn signature(&self, method: &Method, url: &Url, date: &str, hash: &str) -> String {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        mac.update(format!("{method}\n{path}\n{date};{host};{hash}").as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }

    fn submission(
        &self,
        delivery: &Delivery,
        url: &Url,
        id: &str,
        mail: &Email,
    ) -> Result<Request, String> {
        let body = serde_json::to_vec(&Sent::new(mail)?).map_err(|error| error.to_string())?;
        let mut request = self.request(delivery, &Method::POST, url, body)?;
        for (name, value) in [
            (header::CONTENT_TYPE, "application/json"),
            (OPERATION_ID, id),
        ] {
            let value = value
                .parse()
                .map_err(|_| format!("`{value}` cannot be sent"))?;
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }

    /// Polls an operation.
    async fn ask(&self, delivery: &Delivery, operation: &Url) -> Result<Answer, Failure> {
        let request = self
            .request(delivery, &Method::GET, operation, Vec::new())
            .map_err(Failure::permanent)?;
        answer::send(delivery, request).await
    }
}

impl Deliver for AcsDelivery {
    type Payload = Email;

    const KIND: &'static str = "email";

    fn check(&self, mail: &Email) -> Result<(), String> {
        mail.check()
    }

    /// The service.
    fn destination(&self, _: &Email) -> String {
        self.endpoint.origin().ascii_serialization()
    }

    fn summary(&self, mail: &Email) -> String {
        mail.summary()
    }

    async fn submit(&self, delivery: &Delivery, mail: &Email) -> Result<Submitted, Failure> {
        let id = operation_id(delivery.idempotency_key());
        let own = self.url(&format!("/emails/operations/{id}"))?;
        if delivery.unknown() {
            let answer = self.ask(delivery, &own).await?;
            match answer.status {
                StatusCode::NOT_FOUND => {}
                status if status.is_success() => return Ok(operation::accepted(&own, &answer)),
                _ => return Err(answer.failure()),
            }
        }
        let url = self.url("/emails:send")?;
        let request = self
            .submission(delivery, &url, &id, mail)
            .map_err(Failure::permanent)?;
        let answer = answer::send(delivery, request).await?;
        let named = operation::named(&answer, &url).map(|operation| {
            let operation = operation?;
            operation::same_origin(&operation, &self.endpoint)?;
            Ok(operation)
        });
        match operation::begun(&answer, named)? {
            Some(operation) => Ok(operation::accepted(&operation, &answer)),
            // The id names the operation. "Already exists" means that an earlier attempt began it.
            None if answer.status.is_success() || answer.status == StatusCode::CONFLICT => {
                Ok(operation::accepted(&own, &answer))
            }
            None => Err(answer.failure()),
        }
    }

    async fn poll(
        &self,
        delivery: &Delivery,
        _: &Email,
        operation: &str,
    ) -> Result<Polled, Failure> {
        let operation = target(operation).map_err(Failure::permanent)?;
        operation::same_origin(&operation, &self.endpoint).map_err(Failure::permanent)?;
        let answer = self.ask(delivery, &operation).await?;
        operation::told(&answer, None)
    }
}

/// An id in the service's format (RFC 9562, version 8), the same for the same key.
fn operation_id(key: &str) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(key)[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

fn http_date(unix_millis: i64) -> Result<String, String> {
    let at = Timestamp::from_millisecond(unix_millis).map_err(|error| error.to_string())?;
    DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&at)
        .map_err(|error| error.to_string())
}

impl fmt::Debug for AcsDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcsDelivery")
            .field("endpoint", &self.endpoint.as_str())
            .field("api_version", &self.api_version)
            .finish_non_exhaustive()
    }
}

/// An email in the service's format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    sender_address: String,
    content: Content<'a>,
    recipients: Recipients,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<SentAttachment<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to: Vec<SentAddress>,
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    headers: &'a std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
}

#[derive(Serialize)]
struct Recipients {
    to: Vec<SentAddress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<SentAddress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<SentAddress>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentAddress {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentAttachment<'a> {
    name: &'a str,
    content_type: &'a str,
    content_in_base64: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_id: Option<&'a str>,
}

impl<'a> Sent<'a> {
    fn new(mail: &'a Email) -> Result<Self, String> {
        let attachment = |file: &'a super::Attachment| SentAttachment {
            name: &file.name,
            content_type: &file.content_type,
            content_in_base64: &file.content_base64,
            content_id: file.content_id.as_deref(),
        };
        Ok(Self {
            sender_address: mailbox(&mail.from)?.email.to_string(),
            content: Content {
                subject: &mail.subject,
                plain_text: mail.text.as_deref(),
                html: mail.html.as_deref(),
            },
            recipients: Recipients {
                to: addresses(&mail.to)?,
                cc: addresses(&mail.cc)?,
                bcc: addresses(&mail.bcc)?,
            },
            attachments: mail.attachments.iter().map(attachment).collect(),
            reply_to: addresses(mail.reply_to.as_slice())?,
            headers: &mail.headers,
        })
    }
}

fn addresses(given: &[String]) -> Result<Vec<SentAddress>, String> {
    let address = |text: &String| {
        let found = mailbox(text)?;
        Ok(SentAddress {
            address: found.email.to_string(),
            display_name: found.name,
        })
    };
    given.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_s_id_is_a_uuid_that_the_key_decides() {
        let id = operation_id("key_1");
        assert_eq!(id, operation_id("key_1"));
        assert_ne!(id, operation_id("key_2"));
        let lengths: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&id[14..15], "8", "its version: {id}");
        assert!("89ab".contains(&id[19..20]), "its variant: {id}");
    }

    #[test]
    fn a_connection_string_has_an_endpoint_and_a_key_that_is_not_shown() {
        let text = "endpoint=https://seats.communication.azure.com/;accesskey=c2VjcmV0PQ==";
        let service = AcsDelivery::from_connection_string(text).unwrap();
        assert_eq!(
            service.destination(&Email::default()),
            "https://seats.communication.azure.com"
        );
        assert_eq!(service.key, b"secret=");
        assert!(!format!("{service:?}").contains("secret"));
        for bad in [
            "endpoint=https://x.test",
            "accesskey=c2VjcmV0",
            "endpoint=x;accesskey=!",
        ] {
            assert!(AcsDelivery::from_connection_string(bad).is_err(), "{bad}");
        }
    }
}
