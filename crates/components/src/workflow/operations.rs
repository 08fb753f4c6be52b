//! Operator requests to instances of workflows, through the admin listener and the command.
//!
//! | Request below `/objects/WorkflowInstance/{workflow}%2F{id}/components/workflow` | Answer |
//! |---|---|
//! | `GET /` | 200 and the instance; 404 `no_such_instance` |
//! | `GET /steps?after=&limit=` | 200 and `{"steps":[…]}`, in the order in which they were asked for, from the first after another |
//! | `POST /pause`, `POST /resume` | 200 and the instance; 409 `instance_ended` |
//! | `POST /cancel` with `{"reason":TEXT}` | the same |
//! | `POST /restart` with `{"step":NAME,"occurrence":1}` | 200 and the instance, which does that step again and all that came after it; 404 `no_such_step` |
//!
//! | Request below `/objects/WorkflowDirectory/{workflow}/components/workflow` | Answer |
//! |---|---|
//! | `GET /instances?status=&after=&after_id=&limit=` | 200 and a page of instances, the latest first; `next` of a page is `after` and `after_id` of the one that follows |

use std::{future::ready, rc::Rc};

use abide::{Ctx, Request, Result, server::ApiError};
use serde::Deserialize;
use serde_json::json;

use super::inner::NAME;
use super::{Filter, Status, StepName, WorkflowDirectory, WorkflowError, WorkflowInstance, limits};
use abide_component::operating::{
    self, Answer, Verb, asked, body, json, no_operation, page, query,
};
use abide_component::texts::sentence;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedSteps {
    after: Option<i64>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedInstances {
    status: Option<Status>,
    after: Option<i64>,
    after_id: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancellation {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    step: String,
    #[serde(default = "first")]
    occurrence: u32,
}

fn first() -> u32 {
    1
}

impl WorkflowInstance {
    /// Serves operators through the object's component.
    pub(super) fn serve_operators(&self) -> Result<()> {
        let inner = Rc::clone(&self.inner);
        operating::serve(&self.inner.ctx, NAME, move |request| {
            let inner = Rc::clone(&inner);
            Self { inner }.operate(request)
        })
    }

    /// Answers an operator.
    pub(super) async fn operate(self, request: Request) -> Answer {
        let (verb, path) = asked(&request);
        match (verb, &*path) {
            (Verb::Read, "") => {}
            (Verb::Read, "steps") => {
                let wanted: WantedSteps = query(&request)?;
                let limit = page(wanted.limit, limits::MAX_PAGE)?;
                let after = wanted.after.unwrap_or_default();
                let steps = self.history(after, limit).await.map_err(refused)?;
                return Ok(json(&json!({ "steps": steps })));
            }
            (Verb::Change, "pause") => self.pause().await.map_err(refused)?,
            (Verb::Change, "resume") => self.resume().await.map_err(refused)?,
            (Verb::Change, "cancel") => {
                let Cancellation { reason } = body(request).await?;
                self.cancel(reason).await.map_err(refused)?;
            }
            (Verb::Change, "restart") => {
                let Restart { step, occurrence } = body(request).await?;
                let step = StepName::from((step.as_str(), occurrence));
                self.restart(step).await.map_err(refused)?;
            }
            _ => return Err(no_operation("An instance of a workflow")),
        }
        Ok(json(&self.record().await.map_err(refused)?))
    }
}

impl WorkflowDirectory {
    /// Serves operators through the object's component.
    pub(super) fn serve_operators(&self, ctx: &Ctx) -> Result<()> {
        let directory = Rc::clone(&self.directory);
        operating::serve(ctx, NAME, move |request| {
            let directory = Rc::clone(&directory);
            ready(Self { directory }.operate(&request))
        })
    }

    /// Answers an operator.
    pub(super) fn operate(&self, request: &Request) -> Answer {
        let (verb, path) = asked(request);
        if (verb, &*path) != (Verb::Read, "instances") {
            return Err(no_operation("A directory of workflows"));
        }
        let wanted: WantedInstances = query(request)?;
        let filter = Filter {
            status: wanted.status,
            after: wanted
                .after
                .map(|after| (after, wanted.after_id.unwrap_or_default())),
            limit: page(wanted.limit, limits::MAX_PAGE)?,
            ..Filter::default()
        };
        Ok(json(&self.directory.page(&filter)?))
    }
}

fn refused(error: WorkflowError) -> ApiError {
    let text = sentence(&error);
    match error {
        WorkflowError::NotFound { .. } => ApiError::not_found("no_such_instance", text),
        WorkflowError::NoStep { .. } => ApiError::not_found("no_such_step", text),
        WorkflowError::Ended { .. } => ApiError::conflict("instance_ended", text),
        error => abide::Error::from(error).into(),
    }
}
