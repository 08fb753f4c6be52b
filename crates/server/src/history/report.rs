//! The state of the copy, for the front page.

use serde::Serialize;

/// See the module.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The store, as `archive.url` names it.
    pub(crate) place: String,
    /// For how many seconds acknowledged commits may have existed on this machine alone; 0 while everything is copied.
    pub(crate) unsaved_seconds: u64,
    /// Why copying fails now, if it does.
    pub(crate) failing: Option<String>,
    /// Within how many seconds everything in the copy was proven; none if it is not proven.
    pub(crate) proven_seconds: Option<u64>,
    /// What differs from this node.
    pub(crate) differences: Vec<String>,
}
