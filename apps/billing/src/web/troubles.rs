//! What does not go on by itself, and waits for a person.

use abide::{
    Env,
    server::{ApiError, UrlPath},
};
use abide::{
    schedule::{self, Phase},
    workflow::{
        Filter, InstanceRecord, Listed, Status, StepKind, StepName, StepState, Workflow,
        WorkflowError, Workflows, limits,
    },
};
use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};

use super::{
    answer::{ById, told},
    id, upkeep,
};
use crate::{
    Time,
    broken::{Variant, broken},
    clock,
    payment::{Payment, Refunding},
    resources::{FailedTimer, Subscription, failed_timers},
};

/// Payments, refunds and timers that are listed, at most: of those that failed, and of those that are stuck.
const LISTED: usize = 100;

/// How long a timer that is given up may take to stand so among its subscription's timers.
const SETTLED_MILLIS: i64 = 10 * 60 * 1_000;

/// What waits for a person.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Troubles {
    /// Payments that go on only if somebody has them resumed, those that were begun last first.
    pub(crate) payments: Vec<Failed>,
    /// Refunds of which the same is so.
    pub(crate) refunds: Vec<Failed>,
    /// Timers of subscriptions that were given up, or are tried in vain for long, the newest first.
    pub(crate) timers: Vec<FailedTimer>,
    /// Whether there are more of them than are listed.
    pub(crate) more: bool,
    /// Changes that the read model does not take.
    pub(crate) dead: i64,
}

/// A payment that does not go on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failed {
    /// The payment intent.
    id: String,
    /// `failed`, or `stuck` if the program has to be mended first.
    status: Status,
    /// Why.
    error: Option<String>,
    /// Since when.
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

pub(super) async fn show(State(env): State<Env>) -> Result<Json<Troubles>, ApiError> {
    Ok(Json(all(&env).await?))
}

/// What there is, now or a moment ago.
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
        .await??;
    troubles.more |= failed.len() == LISTED;
    let now = Time::now(&**env.clock());
    for timer in failed {
        if has_failed(env, &timer).await? {
            troubles.timers.push(timer);
        } else if timer.since.plus(SETTLED_MILLIS) < now {
            let forgotten = failed_timers(env).forget(timer.subscription, timer.timer);
            forgotten.await??;
        }
    }
    Ok(troubles)
}

/// Workflows of a status, and whether there are more of them.
async fn of_status<W: Workflow>(
    env: &Env,
    status: Status,
) -> Result<(Vec<Failed>, bool), ApiError> {
    let wanted = Filter {
        status: Some(status),
        limit: LISTED,
        ..Filter::default()
    };
    let page = Workflows::<W>::new(env).list(wanted).await;
    let page = page.map_err(abide::Error::from)?;
    let found = page.instances.into_iter().map(Failed::from).collect();
    Ok((found, page.next.is_some()))
}

/// Whether a timer is still in trouble.
async fn has_failed(env: &Env, failed: &FailedTimer) -> Result<bool, ApiError> {
    let subscription = env.object::<Subscription>();
    let subscription = subscription.get_by_name(&failed.subscription);
    let timers = subscription.timers().await?.map_err(told)?;
    let stands = |timer: &schedule::Timer| {
        let is_seen = !broken(Variant::TimerUnseen);
        timer.name == failed.timer && clock::is_in_trouble(timer) && is_seen
    };
    Ok(timers.iter().any(stands))
}

/// Has a payment go on that has failed, from the step that failed, or is stuck.
pub(super) async fn resume(
    State(env): State<Env>,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Failed>, ApiError> {
    id::check("pi", &id)?;
    resumed::<Payment>(&env, &id).await
}

/// The same of a refund.
pub(super) async fn resume_refund(
    State(env): State<Env>,
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
                format!("{id} is {status}: only what has failed or is stuck is resumed."),
            ));
        }
    }
    .map_err(unresumed)?;
    let record = workflows.status(id).await.map_err(unresumed)?;
    Ok(Json(record.into()))
}

/// The step that a payment has failed with: the last of those that failed. Waiting in vain for an event is no failure.
async fn failed_step<W: Workflow>(
    workflows: &Workflows<W>,
    id: &str,
) -> Result<StepName, ApiError> {
    let (mut after, mut failed) = (0, None);
    loop {
        let steps = workflows.history(id, after).await.map_err(unresumed)?;
        let is_last = steps.len() < limits::MAX_PAGE;
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
    /// When it goes off next, or is tried again.
    due: Option<Time>,
    /// What went wrong last, if it has not gone well since.
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

/// What happens to a subscription by itself, and what of it has failed.
pub(super) async fn timers(
    State(env): State<Env>,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Timers>, ApiError> {
    id::check("sub", &id)?;
    let subscription = env.object::<Subscription>().get_by_name(&id);
    // What was never created has no timers.
    subscription.get_state().await?.map_err(told)?;
    let timers = subscription.timers().await?.map_err(told)?;
    let timers = timers.into_iter().map(Timer::from).collect();
    Ok(Json(Timers { timers }))
}

/// The timer of a subscription.
#[derive(Deserialize)]
pub(super) struct OneTimer {
    id: String,
    name: String,
}

/// Has a timer that has failed tried again.
pub(super) async fn retry_timer(
    State(env): State<Env>,
    UrlPath(OneTimer { id, name }): UrlPath<OneTimer>,
) -> Result<Json<Timers>, ApiError> {
    id::check("sub", &id)?;
    let subscription = env.object::<Subscription>().get_by_name(&id);
    let timers = subscription.retry_timer(name).await?.map_err(told)?;
    let timers = timers.into_iter().map(Timer::from).collect();
    Ok(Json(Timers { timers }))
}
