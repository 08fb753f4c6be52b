//! The services that send mails.

use std::fmt;

use abide::{Error, ErrorKind, Result};
use abide::{
    outbox::handlers::{AcsDelivery, Email, SmtpDelivery},
    outbox::{GiveUp, OutboxOptions, Pace, Registry},
};

use crate::Mailing;

/// The service that takes the mails.
#[derive(Clone)]
pub enum Sender {
    /// Azure Communication Services.
    Acs {
        /// `https://NAME.communication.azure.com`.
        endpoint: String,
        /// Its access key, in base64.
        key: String,
    },
    /// A mail server.
    Smtp {
        /// `smtp://` or `smtps://`, with credentials if required.
        url: String,
    },
}

impl fmt::Debug for Sender {
    /// Without secrets: a URL may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acs { endpoint, .. } => write!(f, "Acs({endpoint})"),
            Self::Smtp { .. } => write!(f, "Smtp"),
        }
    }
}

/// The sender's address.
#[derive(Clone, Debug)]
pub struct Author(String);

impl Author {
    /// Parses an address with an optional name: `Outbox <outbox@example.com>`.
    pub fn parse(address: &str) -> Result<Self> {
        let mail = Email::new(address, "subject")
            .to("ada@example.com")
            .text("text");
        match mail.check() {
            Ok(()) => Ok(Self(address.to_owned())),
            Err(why) => Err(Error::with_kind(ErrorKind::Input, why)),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.0
    }
}

/// The options of `--classic`: 15 mails and 20 polls every 10 s, and none is given up.
pub fn classic() -> OutboxOptions {
    OutboxOptions::default()
        .pace(Pace::CLASSIC)
        .give_up(GiveUp::Never)
}

/// The handlers of the program: mails through this service, and lists that become mails.
pub fn registry(sender: &Sender) -> Result<Registry> {
    let registry = Registry::new().with_fan_out(Mailing);
    Ok(match sender {
        Sender::Acs { endpoint, key } => registry.with(AcsDelivery::new(endpoint, key)?),
        Sender::Smtp { url } => registry.with(SmtpDelivery::new(url)?),
    })
}
