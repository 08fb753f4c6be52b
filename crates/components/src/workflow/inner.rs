//! The state that the parts of an instance's object share.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use abide::{Ctx, Result};
use tokio::sync::Notify;

use super::{
    Failure, Listed, Status, StepKind, WorkflowError, WorkflowOptions, WorkflowRegistry,
    attempt::Cancel,
    failure, metrics,
    notice::{self, Child, ChildResult, NoticeOutcome, NoticeResult, Parent, Sender},
    rows::{Instance, Rows},
};
use abide_component::steps_back;
use abide_component::worker::Worker;

/// The component of an instance, and of a directory, for operators.
pub(super) const NAME: &str = "workflow";

/// One instance's object.
pub(super) struct Inner {
    pub(super) ctx: Ctx,
    pub(super) registry: Arc<WorkflowRegistry>,
    pub(super) options: WorkflowOptions,
    pub(super) rows: Rows,
    /// Drives the instance.
    pub(super) worker: Worker,
    /// Wakes the callers that wait for the instance's result.
    pub(super) ended: Notify,
    /// What attempts see of a cancellation.
    pub(super) cancel: RefCell<Rc<Cancel>>,
}

impl Inner {
    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }

    /// Sets the alarm that continues the work if the task stops.
    pub(super) fn guard(&self) -> Result<()> {
        self.worker.guard(self.options.recovery)
    }

    /// If the clock was set back, moves waits earlier by as much, and returns by how much.
    pub(super) fn mind_clock(&self, instance: &Instance, now: i64) -> Result<Option<i64>> {
        let Some(step) = steps_back::noticed(&self.ctx, NAME, instance.set_back, now) else {
            return Ok(None);
        };
        self.rows.save_set_back(step.sum)?;
        if step.by == 0 {
            return Ok(None);
        }
        self.rows.bring_nearer(step.by, now)?;
        Ok(Some(step.by))
    }

    /// The instance continues with an empty history. Children that it waited for are canceled.
    pub(super) fn begin_anew(&self, input: &str) -> Result<()> {
        for (workflow, child) in self.rows.open_children(None)? {
            self.cancel_child(workflow, &child)?;
        }
        self.rows.begin_anew(input, self.now())
    }

    /// Sets another status, and notifies the directory.
    pub(super) fn set_status(
        &self,
        instance: &Instance,
        status: Status,
        error: Option<&str>,
    ) -> Result<()> {
        let now = self.now();
        self.rows.set_status(status, error, now)?;
        metrics::reached(&instance.workflow, status);
        self.rows
            .add_notice(notice::LIST, &instance.workflow, "", now)?;
        if status.is_end() {
            self.ended.notify_waiters();
        }
        Ok(())
    }

    /// The instance has finished. Waiters are notified, and children that it no longer waits for are canceled.
    pub(super) fn end(&self, instance: &Instance, result: &Result<String, Failure>) -> Result<()> {
        let now = self.now();
        for (workflow, child) in self.rows.open_children(None)? {
            self.cancel_child(workflow, &child)?;
        }
        self.rows.abandon(now)?;
        let status = match result {
            Ok(_) => Status::Completed,
            Err(failure) if failure.is_canceled() && instance.cancel.is_some() => Status::Canceled,
            Err(_) => Status::Failed,
        };
        let failure = result.as_ref().err().map(failure::to_json);
        self.rows
            .set_value("output", result.as_ref().ok().map(String::as_str))?;
        self.rows.set_value("failure", failure.as_deref())?;
        let error = match (status, result) {
            (Status::Canceled, _) => instance.cancel.clone(),
            (_, Err(failure)) => Some(failure.message().to_owned()),
            _ => None,
        };
        self.set_status(instance, status, error.as_deref())?;
        self.tell_parent(instance, result)
    }

    fn tell_parent(&self, instance: &Instance, result: &Result<String, Failure>) -> Result<()> {
        let Some(parent) = &instance.parent else {
            return Ok(());
        };
        let parent: Parent = serde_json::from_str(parent).map_err(abide::Error::from_std)?;
        let result = notice::result_json(result);
        let target = parent.id.clone();
        let told = notice::to_json(&ChildResult { parent, result })?;
        self.rows
            .add_notice(notice::RESULT, &target, &told, self.now())
    }

    /// A child is no longer awaited.
    pub(super) fn cancel_child(&self, workflow: String, child: &str) -> Result<()> {
        if self.rows.has_notice(notice::START, child)? {
            // It may have been started with its response still in flight: it is canceled when that arrives.
            return Ok(());
        }
        let payload = notice::to_json(&Child {
            workflow,
            input: String::new(),
        })?;
        self.rows
            .add_notice(notice::CANCEL, child, &payload, self.now())
    }

    /// The sender's current state.
    pub(super) fn teller(&self, instance: &Instance) -> Sender {
        Sender {
            workflow: instance.workflow.clone(),
            id: instance.id.clone(),
            timeline: self.ctx.timeline().id().to_string(),
            version: instance.version,
            listed: Listed {
                id: instance.id.clone(),
                status: instance.status,
                error: instance.error.clone(),
                created_at: instance.created_at,
                updated_at: instance.updated_at,
            },
        }
    }

    /// Writes the result of a notice.
    pub(super) fn heard(&self, heard: NoticeResult) -> Result<()> {
        let Some(instance) = self.rows.instance()? else {
            return Ok(());
        };
        let now = self.now();
        match heard.fate {
            NoticeOutcome::Started(workflow, child) => {
                self.rows.remove_notice(heard.id)?;
                if self.rows.awaits_child(&child)? && !instance.status.is_end() {
                    return Ok(());
                }
                self.cancel_child(workflow, &child)
            }
            NoticeOutcome::Listed(version) => {
                self.rows.set_told(version)?;
                if version == instance.version {
                    self.rows.remove_notice(heard.id)
                } else {
                    self.rows.put_off(heard.id, now)
                }
            }
            // Only if it has not been restarted, and ended again, meanwhile.
            NoticeOutcome::Forgotten
                if instance.status.is_end() && self.rows.is_notice(heard.id)? =>
            {
                self.ctx.storage().delete_all()
            }
            // An instance that was removed from the directory but runs was restarted meanwhile, and is listed again.
            NoticeOutcome::Done | NoticeOutcome::Forgotten => self.rows.remove_notice(heard.id),
            NoticeOutcome::ChildEnded(child, result) => {
                self.rows.remove_notice(heard.id)?;
                if self.rows.awaits_child(&child)? {
                    self.rows.add_event(StepKind::Child, &child, &result, now)?;
                }
                Ok(())
            }
            NoticeOutcome::NoChild(child, failure) => {
                self.rows.remove_notice(heard.id)?;
                let result = format!("{{\"Err\":{}}}", failure::to_json(&failure));
                self.rows.add_event(StepKind::Child, &child, &result, now)
            }
            NoticeOutcome::Again(error) => {
                tracing::debug!(instance = instance.id, %error, "a notice of a workflow is sent again");
                let due = now.saturating_add(notice::wait(heard.attempts));
                self.rows.put_off(heard.id, due)
            }
        }
    }

    /// The instance, if it has not ended.
    pub(super) fn running(&self) -> Result<Instance, WorkflowError> {
        let instance = self.instance()?;
        if instance.status.is_end() {
            return Err(WorkflowError::Ended {
                id: instance.id,
                status: instance.status,
            });
        }
        Ok(instance)
    }

    pub(super) fn instance(&self) -> Result<Instance, WorkflowError> {
        self.rows
            .instance()?
            .ok_or_else(|| WorkflowError::NotFound {
                id: self.id_by_name(),
            })
    }

    /// The id, from the object's name.
    fn id_by_name(&self) -> String {
        let name = self.ctx.name().unwrap_or_default();
        name.split_once('/')
            .map_or(name.clone(), |(_, id)| id.to_owned())
    }
}
