//! Restarting a run in the middle.
//!
//! Contract: everything before the result of the step stays, and so do independent results, which the run receives
//! again in the order of their times. The step, and everything that was requested after its result, is executed again.
//! A step with an unknown result keeps its idempotency key.

use abide::Result;

use super::{
    Status, StepKind, StepName, StepState, WorkflowError, failure,
    inner::Inner,
    notice,
    rows::{Instance, StepRow},
};

impl Inner {
    pub(super) fn restart(
        &self,
        instance: &Instance,
        step: &StepName,
    ) -> Result<(), WorkflowError> {
        let rows = &self.rows;
        let from = rows.step(step)?.ok_or_else(|| WorkflowError::NoStep {
            id: instance.id.clone(),
            step: step.to_string(),
        })?;
        let run = instance.run + 1;
        rows.set_run(run)?;
        // The first result that is no longer valid.
        let cut = from.seq.or(instance.canceled_seq).unwrap_or(i64::MAX);
        for step in rows.steps()? {
            let key_run = self.key_run(&step, run)?;
            if step.asked >= cut {
                rows.keep_key(&step.step(), (key_run != run).then_some(key_run))?;
                self.give_up(&step)?;
                rows.remove(step.id)?;
                continue;
            }
            let ends_anew = step.id == from.id || step.state == StepState::Canceled;
            let tries_anew = !step.has_result() && step.kind == StepKind::Step;
            if ends_anew || tries_anew {
                self.give_up(&step)?;
                rows.reset(step.id, key_run)?;
            } else if step.seq.is_some_and(|seq| seq > cut) {
                rows.take_back(step.id)?;
            }
        }
        rows.forget_versions(cut)?;
        if instance.canceled_seq.is_none_or(|canceled| canceled >= cut) {
            rows.set_cancel(None)?;
            rows.set_canceled(None, self.now())?;
        }
        // Its removal may be pending.
        rows.remove_notices(notice::FORGET)?;
        rows.set_value("output", None)?;
        rows.set_value("failure", None)?;
        Ok(self.set_status(instance, Status::Running, None)?)
    }

    fn give_up(&self, step: &StepRow) -> Result<()> {
        for (workflow, child) in self.rows.open_children(Some(step.id))? {
            self.cancel_child(workflow, &child)?;
        }
        Ok(())
    }

    /// The run in the key of a step that is executed again.
    fn key_run(&self, step: &StepRow, run: i64) -> Result<i64> {
        let unknown = match step.state {
            _ if step.kind != StepKind::Step => false,
            StepState::Done => false,
            StepState::Failed => {
                let (_, _, error) = self.rows.outcome(step.id)?;
                failure::from_json(&error.unwrap_or_default()).is_after_effect()
            }
            _ => step.attempts > 0,
        };
        Ok(if unknown { step.key_run } else { run })
    }
}
