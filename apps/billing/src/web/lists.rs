//! Lists of resources in JSON, from the read model.

use abide::outcomes::Declaration;
use abide::{
    Env,
    server::{ApiError, UrlQuery},
};
use axum::{Json, Router, routing::get};
use serde_json::{Value, json};

use crate::{
    machines::{CUSTOMER, INVOICE, PAYMENT_INTENT, PRICE, PRODUCT, REFUND, SUBSCRIPTION, states},
    read::{Filter, MAX_PAGE, Reader},
};

/// The kinds by path segment, with the name of their list field.
const KINDS: [(&str, &str, Declaration); 7] = [
    ("/products", "products", PRODUCT),
    ("/prices", "prices", PRICE),
    ("/customers", "customers", CUSTOMER),
    ("/subscriptions", "subscriptions", SUBSCRIPTION),
    ("/invoices", "invoices", INVOICE),
    ("/payment-intents", "payment_intents", PAYMENT_INTENT),
    ("/refunds", "refunds", REFUND),
];

/// `GET /{kind}` of each kind.
pub(super) fn router() -> Router<Env> {
    KINDS.into_iter().fold(Router::new(), |router, kind| {
        let (path, field, machine) = kind;
        let list = move |env, filter| list(field, machine, env, filter);
        router.route(path, get(list))
    })
}

/// Rejects an unknown state of a kind.
pub(super) fn must_be_a_state(machine: &Declaration, state: &str) -> Result<(), ApiError> {
    if states(machine).any(|known| known == state) {
        return Ok(());
    }
    let known: Vec<&str> = states(machine).collect();
    let kind = machine.name.replace('_', " ");
    let article = if kind.starts_with('i') { "An" } else { "A" };
    let text = format!(
        "{article} {kind} is never “{state}”: it is one of {}.",
        known.join(", ")
    );
    Err(ApiError::bad_request("no_such_state", text))
}

async fn list(
    field: &'static str,
    machine: Declaration,
    env: Env,
    UrlQuery(filter): UrlQuery<Filter>,
) -> Result<Json<Value>, ApiError> {
    if let Some(state) = &filter.state {
        must_be_a_state(&machine, state)?;
    }
    if filter
        .limit
        .is_some_and(|limit| !(1..=MAX_PAGE).contains(&limit))
    {
        let text = format!("A page may have 1 to {MAX_PAGE} resources.");
        return Err(ApiError::bad_request("no_such_page", text));
    }
    let reader = env.require::<Reader>()?;
    let (items, next) = reader.list(machine.name, &filter).await?;
    Ok(Json(json!({ field: items, "next": next })))
}
