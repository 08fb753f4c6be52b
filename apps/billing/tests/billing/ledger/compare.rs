//! What engine and model have to agree on.

use billing::{Money, resource::View, states};
use serde::de::DeserializeOwned;

use crate::ledger::{model::Model, world::World};

fn data<T: DeserializeOwned>(view: &View) -> Result<T, String> {
    serde_json::from_value(view.data.clone()).map_err(|error| error.to_string())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, engine: &T, model: &T) -> Result<(), String> {
    if engine == model {
        return Ok(());
    }
    Err(format!(
        "{what}: {engine:?} in the engine, {model:?} in the model"
    ))
}

/// The state, whether there is service, and what the next invoice has beside its period.
pub(crate) async fn state(world: &World) -> Result<states::Subscription, String> {
    let view = world.subscription().get_state().await;
    let view = view.map_err(|error| error.to_string())?;
    let model = &world.model;
    same("the state", &&*view.state, &model.phase.name())?;
    let live: states::Subscription = data(&view)?;
    let credit = live.carried.map_or(0, Money::amount);
    let pending: i64 = live.pending.iter().map(|line| line.amount.amount()).sum();
    same(
        "what waits for the next invoice",
        &(pending - credit),
        &model.account.balance,
    )?;
    if !model.is_billed_as_served() {
        return Err(format!("{} is not billed as it is served", view.state));
    }
    Ok(live)
}

/// A copy is no subscription: it provides nothing, and refuses every request.
async fn copies(world: &World) -> Result<(), String> {
    for copy in world.copies() {
        let entitlement = copy.entitlement().await;
        let entitlement = entitlement.map_err(|error| error.to_string())?;
        same("service of a copy", &entitlement.entitled, &false)?;
        same("the state of a copy", &entitlement.state.as_str(), &"copy")?;
        if copy.resume().await.is_ok() || copy.cancel(false).await.is_ok() {
            return Err("a copy takes what is asked of it".to_owned());
        }
    }
    Ok(())
}

/// All of it.
pub(crate) async fn all(world: &World) -> Result<(), String> {
    let live = state(world).await?;
    let entitlement = world.subscription().entitlement().await;
    let entitlement = entitlement.map_err(|error| error.to_string())?;
    same(
        "service",
        &entitlement.entitled,
        &world.model.phase.is_served(),
    )?;
    copies(world).await?;
    let checked = world.subscription().check().await;
    checked.map_err(|error| error.to_string())?;
    let timers = world.timers().await?;
    if let Some(failed) = timers
        .iter()
        .find(|timer| timer.phase == abide::schedule::Phase::Failed)
    {
        return Err(format!("a timer has failed: {failed:?}"));
    }
    if timers.iter().any(|timer| timer.spec.kind == "collect") {
        // An invoice is still to hear of something.
        return Ok(());
    }
    let owed: Vec<i64> = live
        .owed
        .values()
        .map(|owed| owed.amount.amount())
        .collect();
    same("debts", &owed.iter().sum(), &debts(&world.model))?;
    for (number, wanted) in &world.model.invoices {
        let view = world.invoice(*number).get_state().await;
        let view = view.map_err(|error| error.to_string())?;
        let invoice: states::Invoice = data(&view)?;
        let found = (invoice.due.map(Money::amount), &*view.state);
        let is = (Some(wanted.due), wanted.status.name());
        same(&format!("invoice {number}"), &found, &is)?;
        same(
            &format!("what invoice {number} gives back"),
            &invoice.surplus.map_or(0, Money::amount),
            &wanted.surplus,
        )?;
        // One may have been ordered and not begun when another one paid.
        let ordered = if wanted.is_owed() {
            wanted.begun
        } else {
            wanted.attempts
        };
        let attempts = invoice.attempts;
        if !(wanted.begun..=ordered).contains(&attempts)
            || wanted.is_owed() && wanted.begun < wanted.attempts
        {
            return Err(format!(
                "invoice {number} has {attempts} attempts in the engine, {wanted:?} in the model"
            ));
        }
    }
    let next = live.next;
    for number in 0..=next {
        if !world.model.invoices.contains_key(&number)
            && !world.model.forgotten.contains_key(&number)
            && world.invoice(number).get_state().await.is_ok()
        {
            return Err(format!(
                "the engine has an invoice {number}, the model has none"
            ));
        }
    }
    Ok(())
}

fn debts(model: &Model) -> i64 {
    let owed = model.invoices.values().filter(|invoice| invoice.is_owed());
    owed.map(|invoice| invoice.due).sum()
}
