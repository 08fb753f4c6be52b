//! What does not go on by itself, and waits for a person.

use abide::{
    Env,
    server::{ApiError, UrlPath},
};
use abide_patterns::{
    schedule::{self, Phase},
    workflow::{
        Filter, InstanceRecord, Listed, Status, StepKind, StepName, StepState, WorkflowError,
        Workflows, limits,
    },
};
use axum::{Json, extract::State};
use serde::Serialize;

use super::{
    api::{ById, told},
    id, upkeep,
};
use crate::{Time, payment::Payment, resources::Subscription};

/// Payments that are listed, at most, of those that failed and of those that are stuck.
const LISTED: usize = 100;

/// What waits for a person.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Troubles {
    /// Payments that go on only if somebody has them resumed, those that were begun last first.
    pub(crate) payments: Vec<Failed>,
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
        let wanted = Filter {
            status: Some(status),
            limit: LISTED,
            ..Filter::default()
        };
        let page = Workflows::<Payment>::new(env).list(wanted).await;
        let page = page.map_err(abide::Error::from)?;
        troubles.more |= page.next.is_some();
        let payments = page.instances.into_iter().map(Failed::from);
        troubles.payments.extend(payments);
    }
    Ok(troubles)
}

/// Has a payment go on that has failed, from the step that failed, or is stuck.
pub(super) async fn resume(
    State(env): State<Env>,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Failed>, ApiError> {
    id::check("pi", &id)?;
    let payments = Workflows::<Payment>::new(&env);
    let payment = payments.status(&id).await.map_err(unresumed)?;
    match payment.status {
        Status::Failed => {
            let step = failed_step(&payments, &id).await?;
            payments.restart_from(&id, step).await
        }
        Status::Stuck => payments.resume(&id).await,
        status => {
            return Err(ApiError::conflict(
                "not_allowed",
                format!(
                    "The payment is {status}: only one that has failed or is stuck is resumed."
                ),
            ));
        }
    }
    .map_err(unresumed)?;
    let payment = payments.status(&id).await.map_err(unresumed)?;
    Ok(Json(payment.into()))
}

/// The step that a payment has failed with: the last of those that failed. Waiting in vain for an event is no failure.
async fn failed_step(payments: &Workflows<Payment>, id: &str) -> Result<StepName, ApiError> {
    let (mut after, mut failed) = (0, None);
    loop {
        let steps = payments.history(id, after).await.map_err(unresumed)?;
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
    failed
        .ok_or_else(|| ApiError::conflict("not_allowed", "None of the payment's steps has failed."))
}

fn unresumed(error: WorkflowError) -> ApiError {
    match error {
        WorkflowError::NotFound { .. } => {
            ApiError::not_found("not_found", "There is no such payment.")
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
