//! Notices of an instance to other objects: its directory, its children, its parent.
//!
//! Contract: a notice is written in the transaction of its cause, and sent until it was received: at least once.
//! Receiving it twice has the same effect as once.

use std::time::Duration;

use abide::{Env, Error, ErrorKind, Result, Stub};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Failure, Listed, WorkflowError,
    directory::ListedVersion,
    failure, limits,
    object::{Order, WorkflowDirectory, WorkflowInstance},
    rows::NoticeRow,
};
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
    fn version(&self) -> ListedVersion {
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

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
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

/// The timeout of a notice.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The object of an instance.
pub(super) fn object_name(workflow: &str, id: &str) -> String {
    format!("{workflow}/{id}")
}

/// Sends it once.
pub(super) async fn tell(env: Env, teller: Sender, notice: NoticeRow) -> NoticeResult {
    let clock = env.clock().clone();
    let late = abide::clock::time_limit(&*clock, PATIENCE);
    let fate = tokio::select! {
        biased;
        fate = try_to_tell(&env, teller, &notice) => fate.unwrap_or_else(NoticeOutcome::Again),
        () = late => NoticeOutcome::Again(Error::with_kind(ErrorKind::Timeout, "no response")),
    };
    NoticeResult {
        id: notice.id,
        attempts: notice.attempts,
        fate,
    }
}

async fn try_to_tell(env: &Env, teller: Sender, notice: &NoticeRow) -> Result<NoticeOutcome> {
    let instances = env.object::<WorkflowInstance>();
    let instance = |workflow: &str, id: &str| instances.get_by_name(&object_name(workflow, id));
    let directory = || {
        env.object::<WorkflowDirectory>()
            .get_by_name(&teller.workflow)
    };
    match notice.kind.as_str() {
        LIST => {
            let number = teller.version;
            let version = teller.version();
            directory().list_instance(teller.listed, version).await?;
            Ok(NoticeOutcome::Listed(number))
        }
        FORGET => {
            let version = teller.version();
            directory().forget(teller.id, version).await?;
            Ok(NoticeOutcome::Forgotten)
        }
        START => {
            let child: Child = from_json(&notice.payload)?;
            let parent = Parent {
                workflow: teller.workflow,
                id: teller.id,
            };
            let stub = instance(&child.workflow, &notice.target);
            let (workflow, id) = (child.workflow, notice.target.clone());
            let order = Order {
                workflow: workflow.clone(),
                id: id.clone(),
                input: child.input,
                parent: Some(parent),
            };
            match stub.start(order).await {
                // It ended in a future that was undone for its parent, and has told it then.
                Ok(known) if known.duplicate && known.status.is_end() => {
                    result_of_child(&stub, id).await
                }
                Ok(_) => Ok(NoticeOutcome::Started(workflow, id)),
                Err(WorkflowError::Object(error)) => Err(error),
                Err(refused) => Ok(NoticeOutcome::NoChild(
                    id,
                    Failure::permanent(refused.to_string()),
                )),
            }
        }
        ASK => {
            let child: Child = from_json(&notice.payload)?;
            let stub = instance(&child.workflow, &notice.target);
            result_of_child(&stub, notice.target.clone()).await
        }
        CANCEL => {
            let child: Child = from_json(&notice.payload)?;
            let reason = format!("its parent `{}` has finished", teller.id);
            let stub = instance(&child.workflow, &notice.target);
            ended_is_well(stub.cancel(reason).await)
        }
        RESULT => {
            let told: ChildResult = from_json(&notice.payload)?;
            let stub = instance(&told.parent.workflow, &told.parent.id);
            ended_is_well(stub.child_ended(teller.id, told.result).await)
        }
        kind => Err(Error::with_kind(
            ErrorKind::Damaged,
            format!("a workflow's notice is of kind `{kind}`"),
        )),
    }
}

/// Asks a child for its result; if it has none yet, it will tell.
async fn result_of_child(child: &Stub<WorkflowInstance>, id: String) -> Result<NoticeOutcome> {
    match child.result(Duration::ZERO).await {
        Ok(Some(result)) => Ok(NoticeOutcome::ChildEnded(id, result_json(&result))),
        Ok(None) => Ok(NoticeOutcome::Done),
        Err(WorkflowError::NotFound { .. }) => {
            let gone = format!("the child `{id}` has ended and is no longer kept");
            Ok(NoticeOutcome::NoChild(id, Failure::permanent(gone)))
        }
        Err(error) => Err(error.into()),
    }
}

/// An object that has finished, or is no longer kept, need not receive it.
fn ended_is_well<T>(answer: Result<T, WorkflowError>) -> Result<NoticeOutcome> {
    match answer {
        Ok(_) | Err(WorkflowError::NotFound { .. } | WorkflowError::Ended { .. }) => {
            Ok(NoticeOutcome::Done)
        }
        Err(error) => Err(error.into()),
    }
}
