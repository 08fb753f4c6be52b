//! Every bound of the built-in handlers, in one place, with the source of its number.

use std::time::Duration;

pub use abide_component::limits::{
    ANSWER_PATIENCE, MAX_ANSWER_BYTES, MAX_QUOTED_BYTES, MAX_URL_BYTES,
};

/// Headers of a request, and of an e-mail.
pub const MAX_HEADERS: usize = 64;

/// Bytes of all headers of a request: what servers commonly take.
pub const MAX_HEADER_BYTES: usize = 16 << 10;

/// Bytes that an SMTP relay may say in one attempt, TLS included: many times what its answers to 100 recipients have.
pub const MAX_RELAY_BYTES: usize = 1 << 20;

/// Recipients of an e-mail: what every SMTP server takes (RFC 5321, section 4.5.3.1.8).
pub const MAX_RECIPIENTS: usize = 100;

/// Characters of an e-mail's subject and of its other header values: they fit one line (RFC 5322, section 2.1.1).
pub const MAX_HEADER_VALUE: usize = 900;

/// Attachments of an e-mail.
pub const MAX_ATTACHMENTS: usize = 50;

/// Bytes of a webhook's event type.
pub const MAX_EVENT_BYTES: usize = 128;

/// Bytes of a webhook's secret (Standard Webhooks).
pub const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// How long after its first attempt a call of another object is repeated. The receiver remembers keys for 24 hours, if
/// they are not too many.
pub const MAX_CALL_AGE: Duration = Duration::from_hours(23);
