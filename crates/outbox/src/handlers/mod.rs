//! Handlers for common kinds of messages. Each is a [`Deliver`](crate::Deliver) with its payload type; a
//! [`Registry`](crate::Registry) contains those that a program needs, and programs in other languages enqueue their
//! payloads as JSON.
//!
//! | Kind | Payload | Handler | Receivers detect duplicates by |
//! |---|---|---|---|
//! | `http` | [`HttpCall`] | [`HttpDelivery`] | `Idempotency-Key` |
//! | `webhook` | [`Webhook`] | [`WebhookDelivery`] | `webhook-id` |
//! | `email` | [`Email`] | [`SmtpDelivery`] | `Message-ID` |
//! | `email` | [`Email`] | [`AcsDelivery`] | `Operation-Id` |
//! | `call` | [`ObjectCall`] | [`CallDelivery`] | the object itself: applied once |
//!
//! # The outcome of an attempt
//!
//! | The receiver | The message |
//! |---|---|
//! | takes it | is sent |
//! | accepts it and names an operation (`Operation-Location`) | is asked about until the operation ends |
//! | cannot be reached, or is busy (408, 425, 429, 503 with `Retry-After`; SMTP 4xx) | is tried again, after `Retry-After` if it says so |
//! | may have had it (a broken connection, a time limit, other 5xx, a 409 after these) | is tried again with the same key, and marked `unknown` |
//! | will never take it (redirects, other 4xx; SMTP 5xx; an address that the node forbids) | becomes a dead letter at once |
//!
//! A webhook's receiver may be mended: whatever it answers is tried again, but for 410.
//!
//! Requests leave through [`Env::fetch`](abide::Env::fetch), under the address policy of the node's settings. SMTP relays
//! are named by the program, not by messages, and are not under it.

#[cfg(feature = "server")]
mod address;
#[cfg(feature = "server")]
mod answer;
mod call;
#[cfg(feature = "smtp")]
mod email;
#[cfg(feature = "server")]
mod http;
#[doc(hidden)]
pub mod limits;
#[cfg(feature = "server")]
mod operation;
#[cfg(feature = "server")]
mod webhook;

use abide::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

pub use call::{CallDelivery, ObjectCall};
#[cfg(feature = "smtp")]
pub use email::{AcsDelivery, Attachment, Email, SmtpDelivery};
#[cfg(feature = "server")]
pub use http::{HttpBody, HttpCall, HttpDelivery};
#[cfg(feature = "server")]
pub use webhook::{
    NoSecret, NotVerified, Secret, Secrets, StaticSecrets, Webhook, WebhookDelivery, verify,
};

/// A value as the JSON of a payload, so it is sent exactly as given, to the last digit.
fn json(value: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>> {
    to_raw_value(value).map_err(|error| {
        Error::with_kind(
            ErrorKind::Input,
            format!("it cannot be serialized as JSON: {error}"),
        )
    })
}
