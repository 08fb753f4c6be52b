//! Kind `email`: mails, and two ways to send them.

mod acs;
mod mail;
mod mime;
mod smtp;
mod wire;

use abide::{Error, ErrorKind};

pub use acs::AcsDelivery;
pub use mail::{Attachment, Email};
pub use smtp::SmtpDelivery;

/// What a program is told of a service or a relay that cannot be.
fn invalid(text: impl Into<String>) -> Error {
    Error::with_kind(ErrorKind::Input, text.into())
}
