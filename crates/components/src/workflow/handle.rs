//! The handle of a workflow's instances.

use std::{fmt, marker::PhantomData, time::Duration};

use abide::{Env, Stub};
use serde::Serialize;

use super::{
    Ended, Filter, InstanceRecord, Order, Page, Started, StepName, StepRecord, Workflow,
    WorkflowDirectory, WorkflowError, WorkflowInstance, limits, notice::object_name,
};

/// What tells an event from others: the id that its source gave it, for example `EventKey(&webhook.id)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKey<'a>(pub &'a str);

/// The instances of a workflow: starts, inspects and controls them, and sends them events. Clones are cheap and refer
/// to the same workflow.
///
/// A retryable error of kind [`Object`](WorkflowError::Object) may be retried: every operation is idempotent, except
/// [`send_event`](Self::send_event), for which there is [`send_event_once`](Self::send_event_once).
pub struct Workflows<W> {
    env: Env,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> Workflows<W> {
    /// The instances of a workflow on this node.
    pub fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            workflow: PhantomData,
        }
    }

    /// Starts an instance. The same id with the same input starts it once; the result says whether it existed.
    ///
    /// When this returns, the instance is on disk and will run, even after a crash.
    pub async fn start(&self, id: &str, input: &W::Input) -> Result<Started, WorkflowError> {
        self.instance(id).start(Self::order(id, input)?).await
    }

    /// The state of an instance.
    pub async fn status(&self, id: &str) -> Result<InstanceRecord, WorkflowError> {
        self.instance(id).record().await
    }

    /// The result of an instance, if it has finished.
    pub async fn result(&self, id: &str) -> Result<Ended<W::Output>, WorkflowError> {
        self.wait(id, Duration::ZERO).await
    }

    /// Waits for the result of an instance, for at most [`limits::MAX_PATIENCE`].
    pub async fn wait(
        &self,
        id: &str,
        patience: Duration,
    ) -> Result<Ended<W::Output>, WorkflowError> {
        match self.instance(id).result(patience).await? {
            None => Ok(Ended::No),
            Some(Err(failure)) => Ok(Ended::Failed(failure)),
            Some(Ok(output)) => match serde_json::from_str(&output) {
                Ok(output) => Ok(Ended::Completed(output)),
                Err(error) => Err(WorkflowError::Invalid(format!(
                    "the result of instance `{id}` is not one of workflow `{}`: {error}",
                    W::NAME
                ))),
            },
        }
    }

    /// The steps of an instance after one of them (0 for the first), in the order in which they were requested; at most
    /// [`limits::MAX_PAGE`].
    pub async fn history(&self, id: &str, after: i64) -> Result<Vec<StepRecord>, WorkflowError> {
        self.instance(id).history(after, limits::MAX_PAGE).await
    }

    /// The result of a step, as JSON; `None` if it has none. The second step of a name is `("name", 2)`.
    pub async fn output(
        &self,
        id: &str,
        step: impl Into<StepName>,
    ) -> Result<Option<String>, WorkflowError> {
        self.instance(id).output(step.into()).await
    }

    /// Sends an event to an instance, which keeps it until it is consumed.
    pub async fn send_event(
        &self,
        id: &str,
        name: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<(), WorkflowError> {
        let payload = to_json(payload)?;
        let instance = self.instance(id);
        instance.send_event(name.to_owned(), payload).await
    }

    /// The same, but only once for each key within 24 hours: for sources that repeat events, such as webhooks.
    pub async fn send_event_once(
        &self,
        id: &str,
        key: EventKey<'_>,
        name: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<(), WorkflowError> {
        let payload = to_json(payload)?;
        let instance = self.instance(id).with_idempotency_key(key.0);
        instance.send_event(name.to_owned(), payload).await
    }

    /// Sends an event to an instance, and starts it with this input if none with this id exists: both are on disk, or
    /// neither. An existing instance keeps its input.
    ///
    /// # Errors
    /// [`WorkflowError::Ended`] if the instance has ended.
    pub async fn start_with_event(
        &self,
        id: &str,
        input: &W::Input,
        name: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<Started, WorkflowError> {
        let order = Self::order(id, input)?;
        let instance = self.instance(id);
        instance
            .start_with_event(order, name.to_owned(), to_json(payload)?)
            .await
    }

    /// The same, but the event is added only once for each key within 24 hours.
    pub async fn start_with_event_once(
        &self,
        id: &str,
        input: &W::Input,
        key: EventKey<'_>,
        name: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<Started, WorkflowError> {
        let order = Self::order(id, input)?;
        let instance = self.instance(id).with_idempotency_key(key.0);
        instance
            .start_with_event(order, name.to_owned(), to_json(payload)?)
            .await
    }

    /// Cancels an instance, at its next request: running steps can observe it and finish. A stuck instance ends at
    /// once.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<(), WorkflowError> {
        self.instance(id).cancel(reason.to_owned()).await
    }

    /// Pauses an instance: nothing new begins. Running attempts finish, and their results are kept; events are kept,
    /// too.
    pub async fn pause(&self, id: &str) -> Result<(), WorkflowError> {
        self.instance(id).pause().await
    }

    /// Resumes a paused instance, or a stuck one whose program was fixed.
    pub async fn resume(&self, id: &str) -> Result<(), WorkflowError> {
        self.instance(id).resume().await
    }

    /// Repeats a step of an instance, and everything that was requested after the step's result, whether or not the
    /// instance has finished. The second step of a name is `("name", 2)`. Steps before it last continued as new are no
    /// longer available.
    pub async fn restart_from(
        &self,
        id: &str,
        step: impl Into<StepName>,
    ) -> Result<(), WorkflowError> {
        self.instance(id).restart(step.into()).await
    }

    /// Instances of the workflow, newest first: by status, and by when they were started or last changed. An instance
    /// is listed before its first step begins; a change of its status is listed soon after it.
    pub async fn list(&self, filter: Filter) -> Result<Page, WorkflowError> {
        let directory = self.env.object::<WorkflowDirectory>().get_by_name(W::NAME);
        Ok(directory.page(filter).await?)
    }

    fn order(id: &str, input: &W::Input) -> Result<Order, WorkflowError> {
        Ok(Order {
            workflow: W::NAME.to_owned(),
            id: id.to_owned(),
            input: to_json(input)?,
            parent: None,
        })
    }

    fn instance(&self, id: &str) -> Stub<WorkflowInstance> {
        let name = object_name(W::NAME, id);
        self.env.object::<WorkflowInstance>().get_by_name(&name)
    }
}

fn to_json(value: &(impl Serialize + ?Sized)) -> Result<String, WorkflowError> {
    serde_json::to_string(value).map_err(|error| WorkflowError::Invalid(error.to_string()))
}

impl<W> Clone for Workflows<W> {
    fn clone(&self) -> Self {
        Self {
            env: self.env.clone(),
            workflow: PhantomData,
        }
    }
}

impl<W: Workflow> fmt::Debug for Workflows<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workflows").field(&W::NAME).finish()
    }
}
