//! What the owner sees of the outbox.

use abide::outbox::{Change, Counts, Destination, Record};
use serde::{Deserialize, Serialize};

/// The outbox, a page of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Mails by status.
    pub counts: Counts,
    /// The mail server, and whether it is left alone for a while.
    pub destinations: Vec<Destination>,
    /// Newest first.
    pub mails: Vec<Record>,
    /// Where the next page begins, if there is one.
    pub next: Option<i64>,
}

/// A mail that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// What is known of it.
    pub mail: Record,
    /// To whom it is, and about what, as things are now; nothing if there is nobody left to tell.
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
