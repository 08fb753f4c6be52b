//! Notices of an instance to other objects: its directory, its children, its parent.
//!
//! Contract: a notice is written in the transaction of its cause, and sent until it was received: at least once.
//! Receiving it twice has the same effect as once.

use std::time::Duration;

use abide::{Env, Error, ErrorKind, Result, Stub};

use super::{
    Failure, WorkflowError,
    notice::{
        ASK, CANCEL, Child, ChildResult, FORGET, LIST, NoticeOutcome, NoticeResult, Parent, RESULT,
        START, Sender, from_json, object_name, result_json,
    },
    object::{Order, WorkflowDirectory, WorkflowInstance},
    rows::NoticeRow,
};

/// The timeout of a notice.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

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
