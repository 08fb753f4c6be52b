//! What is stored of a request, in addition to the tables of its components.

use serde::{Deserialize, Serialize};

use crate::Definition;

/// The keys of what is stored.
pub(super) const ID: &str = "id";
pub(super) const DEFINITION: &str = "definition";
pub(super) const PROGRESS: &str = "progress";

/// How far a request is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The first time, from which intervals are counted.
    pub(super) anchor: i64,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) paused: bool,
    /// Its only run was enqueued.
    pub(super) fired: bool,
    /// It was taken back.
    pub(super) canceled: bool,
    /// The runs up to this one were canceled, or belong to the earlier definition: none of them is retried.
    pub(super) taken_back: i64,
    pub(super) skipped: u64,
}

/// A request as it is stored.
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) definition: Definition,
    pub(super) progress: Progress,
}
