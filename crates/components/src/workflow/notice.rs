//! What an instance tells other objects, as it is stored.

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Failure, Listed, directory::ListedVersion, failure, limits};
use abide_component::{doubled, numbers::millis};

/// The instance's status, for the directory: the target is the workflow, and there is no payload.
pub(super) const LIST: &str = "list";
/// Removal of the instance, for the directory.
pub(super) const FORGET: &str = "forget";
/// Start of a child: the target is its id, the payload a [`Child`].
pub(super) const START: &str = "start";
/// Cancellation of a child: the target is its id, the payload a [`Child`] without input.
pub(super) const CANCEL: &str = "cancel";
/// A question to a child after a restore of its parent, which may have forgotten the child's result: the target is the
/// child's id, the payload a [`Child`] without input.
pub(super) const ASK: &str = "ask";
/// The result, for the parent: the target is the parent's id, the payload [`ChildResult`].
pub(super) const RESULT: &str = "result";

/// A child to start or to cancel.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Child {
    pub(super) workflow: String,
    pub(super) input: String,
}

/// The parent of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's workflow.
    pub workflow: String,
    /// The parent's id.
    pub id: String,
}

/// A child's result, as its parent receives it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChildResult {
    pub(super) parent: Parent,
    pub(super) result: String,
}

/// The result of a notice.
pub(super) struct NoticeResult {
    pub(super) id: i64,
    pub(super) attempts: u32,
    pub(super) fate: NoticeOutcome,
}

pub(super) enum NoticeOutcome {
    /// It was received.
    Done,
    /// A child of a workflow, with an id, exists.
    Started(String, String),
    /// The directory knows this version.
    Listed(i64),
    /// The directory has removed the instance.
    Forgotten,
    /// The child of this id has ended with this result.
    ChildEnded(String, String),
    /// It will never be accepted: the child of this id cannot be started.
    NoChild(String, Failure),
    /// It must be sent again.
    Again(Error),
}

/// The sender.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) workflow: String,
    pub(super) id: String,
    pub(super) timeline: String,
    pub(super) version: i64,
    pub(super) listed: Listed,
}

impl Sender {
    pub(super) fn version(&self) -> ListedVersion {
        ListedVersion {
            timeline: self.timeline.clone(),
            number: self.version,
        }
    }
}

/// The result of an instance, as its parent stores it.
pub(super) fn result_json(result: &Result<String, Failure>) -> String {
    match result {
        Ok(output) => format!("{{\"Ok\":{output}}}"),
        Err(failure) => format!("{{\"Err\":{}}}", failure::to_json(failure)),
    }
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(Error::from_std)
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::with_kind(
            ErrorKind::Damaged,
            format!("a notice of a workflow: {error}"),
        )
    })
}

/// The wait until a notice is sent again.
pub(super) fn wait(attempts: u32) -> i64 {
    millis(doubled(
        limits::TELL_BACKOFF,
        limits::TELL_MAX_BACKOFF,
        attempts,
    ))
}

/// The object of an instance.
pub(super) fn object_name(workflow: &str, id: &str) -> String {
    format!("{workflow}/{id}")
}
