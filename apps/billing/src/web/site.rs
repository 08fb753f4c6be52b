//! The handlers of the pages.

use abide::{
    Env,
    outcomes::Until,
    server::{ApiError, UrlPath, UrlQuery},
};
use axum::response::Html;
use serde::Deserialize;
use serde_json::Value;

use super::{
    answer::told,
    id,
    lists::must_be_a_state,
    page::{Failed, html},
    troubles, upkeep,
};
use crate::{
    BillingError, Time,
    machines::SUBSCRIPTION,
    pages::{
        self,
        view::{Step, Subscription},
    },
    read::{PAGE, Reader},
    resources,
};

/// Maximum number of outcomes in a timeline.
const STEPS: usize = 1_000;

#[derive(Deserialize)]
pub(super) struct Wanted {
    state: Option<String>,
    after: Option<String>,
}

pub(super) async fn nowhere() -> Failed {
    ApiError::not_found("not_found", "There is no such page.").into()
}

pub(super) async fn overview(env: Env) -> Result<Html<String>, Failed> {
    let reader = env.require::<Reader>()?;
    let view = reader.overview(Time::now(&**env.clock())).await?;
    let lag = upkeep::lag(&env).await?;
    let troubles = troubles::all(&env).await?;
    Ok(html(pages::overview(&view, lag, &troubles)))
}

pub(super) async fn subscriptions(
    env: Env,
    wanted: Result<UrlQuery<Wanted>, ApiError>,
) -> Result<Html<String>, Failed> {
    let UrlQuery(wanted) = wanted?;
    let state = wanted.state.as_deref().filter(|state| !state.is_empty());
    if let Some(state) = state {
        must_be_a_state(&SUBSCRIPTION, state)?;
    }
    let reader = env.require::<Reader>()?;
    let after = wanted.after.unwrap_or_default();
    let rows = reader.subscriptions(state, &after).await?;
    let next = rows.last().filter(|_| rows.len() == PAGE);
    let next = next.map(|row| row.id.clone());
    Ok(html(pages::subscriptions(state, &rows, next.as_deref())))
}

#[derive(Deserialize)]
pub(super) struct ById {
    id: String,
}

/// One subscription: its state and chain from its object; its invoices from the read model, if available.
pub(super) async fn subscription(
    env: Env,
    path: Result<UrlPath<ById>, ApiError>,
) -> Result<Html<String>, Failed> {
    let UrlPath(ById { id }) = path?;
    id::check("sub", &id)?;
    let object = env.object::<resources::Subscription>().get_by_name(&id);
    let entitlement = match object.entitlement().await {
        Err(missing @ BillingError::NotFound { .. }) => return Err(told(missing).into()),
        known => known,
    };
    // A subscription that cannot catch up is shown as it is: this page is where an operator sees why.
    let view = object.get_state_at(Until::End).await.map_err(told)?;
    let after = (view.seq - i64::try_from(STEPS).unwrap_or(i64::MAX)).max(0);
    let history = object.get_history(after, STEPS).await.map_err(told)?;
    let reader = env.require::<Reader>()?;
    let invoices = reader.invoices(&id).await.unwrap_or_default();
    let facts = view.data.as_object().into_iter().flatten();
    let facts = facts.filter(|(_, value)| !is_nothing(value));
    let facts = facts
        .map(|(name, value)| (name.clone(), pages::short(name, value)))
        .collect();
    let steps = history.into_iter().rev().map(|event| Step {
        at: Time(event.entry.ts),
        data: event.entry.data().unwrap_or_default(),
        action: event.entry.action,
        outcome: event.entry.outcome,
        state: event.state,
    });
    Ok(html(pages::subscription(&Subscription {
        id,
        state: view.state,
        facts,
        entitled: entitlement.ok().map(|entitlement| entitlement.entitled),
        steps: steps.collect(),
        invoices,
    })))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
