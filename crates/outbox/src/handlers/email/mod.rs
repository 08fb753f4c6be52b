//! Kind `email`: emails, and two handlers that send them.

mod acs;
mod mail;
mod mime;
mod smtp;
mod wire;

use abide::{Error, ErrorKind};

pub use acs::AcsDelivery;
pub use mail::{Attachment, Email};
pub use smtp::SmtpDelivery;

/// The error for an invalid service or relay.
fn invalid(text: impl Into<String>) -> Error {
    Error::with_kind(ErrorKind::Input, text.into())
}
