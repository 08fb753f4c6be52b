//! The limits of the built-in handlers, each with the source of its number.

use std::time::Duration;

pub use abide_component::limits::{
    ANSWER_PATIENCE, MAX_ANSWER_BYTES, MAX_QUOTED_BYTES, MAX_URL_BYTES,
};

/// Headers of a request, and of an email.
pub const MAX_HEADERS: usize = 64;

/// Bytes of all headers of a request: commonly accepted by servers.
pub const MAX_HEADER_BYTES: usize = 16 << 10;

/// Bytes that are read from an SMTP relay in one attempt, TLS included: many times the replies for 100 recipients.
pub const MAX_RELAY_BYTES: usize = 1 << 20;

/// Recipients of an email: what every SMTP server accepts (RFC 5321, section 4.5.3.1.8).
pub const MAX_RECIPIENTS: usize = 100;

/// Characters of an email's subject and of its other header values: they fit one line (RFC 5322, section 2.1.1).
pub const MAX_HEADER_VALUE: usize = 900;

/// Attachments of an email.
pub const MAX_ATTACHMENTS: usize = 50;

/// Bytes of a webhook's event type.
pub const MAX_EVENT_BYTES: usize = 128;

/// Bytes of a webhook's secret (Standard Webhooks).
pub const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// How long after its first attempt a call of another object is retried. The receiver remembers keys for 24 hours, if
/// there are not too many.
pub const MAX_CALL_AGE: Duration = Duration::from_hours(23);
