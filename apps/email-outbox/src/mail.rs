//! A mail as its page shows it.

use abide::outbox::{Change, Record, handlers::Email};
use serde::{Deserialize, Serialize};

/// A mail with its history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mail {
    /// Its record.
    pub record: Record,
    /// Its content.
    pub email: Email,
    /// What happened, oldest first.
    pub history: Vec<Change>,
}
