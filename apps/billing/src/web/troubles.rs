//! What has failed and waits for an operator.

use abide::{
    Env,
    server::{ApiError, UrlPath},
};
use abide::{
    schedule::{self, Phase},
    workflow::{
        Filter, InstanceRecord, Listed, Status, StepKind, StepName, StepState, Workflow,
        WorkflowError, Workflows,
    },
};
use axum::Json;
use serde::{Deserialize, Serialize};

use super::{
    answer::{ById, told},
    id, upkeep,
};
use crate::{
    Time, clock,
    payment::{Payment, Refunding},
    resources::{FailedTimer, Subscription, failed_timers},
};

/// Maximum number of listed payments, refunds and timers: of failed ones, and of stuck ones.
const LISTED: usize = 100;

/// How long it may take until a failed timer is recorded among its subscription's timers.
const SETTLED_MILLIS: i64 = 10 * 60 * 1_000;

/// What waits for an operator.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Troubles {
    /// Payments that continue only if an operator resumes them, the latest first.
    pub(crate) payments: Vec<Failed>,
    /// The same for refunds.
    pub(crate) refunds: Vec<Failed>,
    /// Timers of subscriptions that were given up, or have failed for a long time, newest first.
    pub(crate) timers: Vec<FailedTimer>,
    /// Whether there are more than listed.
    pub(crate) more: bool,
    /// Changes that the read model rejects.
    pub(crate) dead: i64,
}

/// A payment that does not continue on its own.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failed {
    /// The payment intent.
    id: String,
    /// `failed`, or `stuck` if the program must be fixed first.
    status: Status,
    /// Why.
    error: Option<String>,
    /// Since when it has been in this state.
    since: Time,
}

impl From<Listed> for Failed {
    fn from(payment: Listed) -> Self {
        Self {
            id: payment.id,
            status: payment.status,
            error: payment.error,
            since: Time(payment.updated_at),
        }
    }
}

impl From<InstanceRecord> for Failed {
    fn from(payment: InstanceRecord) -> Self {
        Self {
            id: payment.id,
            status: payment.status,
            error: payment.error,
            since: Time(payment.updated_at),
        }
    }
}

pub(super) async fn show(env: Env) -> Result<Json<Troubles>, ApiError> {
    Ok(Json(all(&env).await?))
}

/// The current list, or a recent one.
pub(super) async fn all(env: &Env) -> Result<Troubles, ApiError> {
    let mut troubles = Troubles {
        dead: upkeep::lag(env).await?.dead,
        ..Troubles::default()
    };
    for status in [Status::Failed, Status::Stuck] {
        let (payments, more) = of_status::<Payment>(env, status).await?;
        troubles.payments.extend(payments);
        troubles.more |= more;
        let (refunds, more) = of_status::<Refunding>(env, status).await?;
        troubles.refunds.extend(refunds);
        troubles.more |= more;
    }
    let failed = failed_timers(env)
        .list(i64::try_from(LISTED).unwrap_or(i64::MAX))
        .await?;
    troubles.more |= failed.len() == LISTED;
    let now = Time::now(&**env.clock());
    for timer in failed {
        if has_failed(env, &timer).await? {
            troubles.timers.push(timer);
        } else if timer.since.plus(SETTLED_MILLIS) < now {
            let forgotten = failed_timers(env).forget(timer.subscription, timer.timer);
            forgotten.await?;
        }
    }
    Ok(troubles)
}

/// Workflows with a status, and whether there are more.
async fn of_status<W: Workflow>(
    env: &Env,
    status: Status,
) -> Result<(Vec<Failed>, bool), ApiError> {
    let wanted = Filter::default().status(status).limit(LISTED);
    let page = Workflows::<W>::new(env).list(wanted).await;
    let page = page.map_err(abide::Error::from)?;
    let found = page.instances.into_iter().map(Failed::from).collect();
    Ok((found, page.next.is_some()))
}

/// Returns whether a timer is still failing.
async fn has_failed(env: &Env, failed: &FailedTimer) -> Result<bool, ApiError> {
    let subscription = env.object::<Subscription>();
    let subscription = subscription.get_by_name(&failed.subscription);
    let timers = subscription.timers().await.map_err(told)?;
    let mut timers = timers.iter();
    Ok(timers.any(|timer| timer.name == failed.timer && clock::is_in_trouble(timer)))
}

/// Resumes a payment that has failed, from the failed step, or is stuck.
pub(super) async fn resume(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Failed>, ApiError> {
    id::check("pi", &id)?;
    resumed::<Payment>(&env, &id).await
}

/// The same for a refund.
pub(super) async fn resume_refund(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Failed>, ApiError> {
    id::check("re", &id)?;
    resumed::<Refunding>(&env, &id).await
}

async fn resumed<W: Workflow>(env: &Env, id: &str) -> Result<Json<Failed>, ApiError> {
    let workflows = Workflows::<W>::new(env);
    let record = workflows.status(id).await.map_err(unresumed)?;
    match record.status {
        Status::Failed => {
            let step = failed_step(&workflows, id).await?;
            workflows.restart_from(id, step).await
        }
        Status::Stuck => workflows.resume(id).await,
        status => {
            return Err(ApiError::conflict(
                "not_allowed",
                format!("{id} is {status}: only a failed or stuck workflow can be resumed."),
            ));
        }
    }
    .map_err(unresumed)?;
    let record = workflows.status(id).await.map_err(unresumed)?;
    Ok(Json(record.into()))
}

/// The failed step of a payment: the latest. A wait for an event that timed out is not a failure.
async fn failed_step<W: Workflow>(
    workflows: &Workflows<W>,
    id: &str,
) -> Result<StepName, ApiError> {
    let (mut after, mut failed) = (0, None);
    loop {
        let steps = workflows.history(id, after).await.map_err(unresumed)?;
        let is_last = steps.len() < abide::limits::workflow::MAX_PAGE;
        for step in steps {
            after = step.id;
            if step.kind == StepKind::Step && step.state == StepState::Failed {
                failed = Some(StepName::from(&step));
            }
        }
        if is_last {
            break;
        }
    }
    failed.ok_or_else(|| ApiError::conflict("not_allowed", "None of its steps has failed."))
}

fn unresumed(error: WorkflowError) -> ApiError {
    match error {
        WorkflowError::NotFound { .. } => {
            ApiError::not_found("not_found", "There is no such resource.")
        }
        error => abide::Error::from(error).into(),
    }
}

#[derive(Serialize)]
pub(super) struct Timers {
    timers: Vec<Timer>,
}

/// A timer of a subscription.
#[derive(Serialize)]
struct Timer {
    name: String,
    phase: Phase,
    /// When it fires next, or is retried.
    due: Option<Time>,
    /// The latest error, if it has not succeeded since.
    error: Option<String>,
}

impl From<schedule::Timer> for Timer {
    fn from(timer: schedule::Timer) -> Self {
        let run = timer.run.as_ref();
        let due = run.and_then(|run| run.fire_at).or(timer.due_at);
        Self {
            due: due.map(Time),
            phase: timer.phase,
            error: timer.run.and_then(|run| run.last_error),
            name: timer.name,
        }
    }
}

/// The timers of a subscription, including failed ones.
pub(super) async fn timers(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Timers>, ApiError> {
    id::check("sub", &id)?;
    let subscription = env.object::<Subscription>().get_by_name(&id);
    // A subscription that was never created has no timers.
    subscription.get_state().await.map_err(told)?;
    let timers = subscription.timers().await.map_err(told)?;
    let timers = timers.into_iter().map(Timer::from).collect();
    Ok(Json(Timers { timers }))
}

/// The timer of a subscription.
#[derive(Deserialize)]
pub(super) struct OneTimer {
    id: String,
    name: String,
}

/// Retries a failed timer.
pub(super) async fn retry_timer(
    env: Env,
    UrlPath(OneTimer { id, name }): UrlPath<OneTimer>,
) -> Result<Json<Timers>, ApiError> {
    id::check("sub", &id)?;
    let subscription = env.object::<Subscription>().get_by_name(&id);
    let timers = subscription.retry_timer(name).await.map_err(told)?;
    let timers = timers.into_iter().map(Timer::from).collect();
    Ok(Json(Timers { timers }))
}
