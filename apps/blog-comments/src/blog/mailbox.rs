//! The owner's view of the outbox.

use abide::outbox::{Change, Counts, Destination, Record};
use serde::{Deserialize, Serialize};

/// The outbox, a page of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Mails by status.
    pub counts: Counts,
    /// The mail server, and whether it is paused.
    pub destinations: Vec<Destination>,
    /// Newest first.
    pub mails: Vec<Record>,
    /// The start of the next page, if any.
    pub next: Option<i64>,
}

/// A mail that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// What is known of it.
    pub mail: Record,
    /// The recipient and the subject as of now; `None` if the recipient no longer wants the mail.
    pub about: Option<(String, String)>,
}

/// One mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDetails {
    /// What is known of it.
    pub mail: Record,
    /// What happened to it, oldest first.
    pub history: Vec<Change>,
}
