//! Refunds and credit notes in JSON.

use abide::{
    Env,
    server::{ApiError, IdempotencyKey, JsonBody, UrlPath},
};
use axum::Json;
use serde::{Deserialize, Serialize};

use super::{
    answer::{ById, Created, created, object, told},
    id,
};
use crate::{
    Money,
    resources::{Invoice, NewCreditNote, NewPaymentRefund, PaymentIntent, Refund},
    states::{self, CreditNote, RefundTo, Refunded},
};

/// The requested refund: everything if no amount is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    amount: Option<Money>,
    #[serde(default)]
    to: RefundTo,
    reason: Option<String>,
}

/// The id of a subresource, determined by the idempotency key, if there is one.
fn beneath(prefix: &str, parent: &str, key: Option<&str>) -> Result<String, ApiError> {
    let key = key.map(|key| format!("{parent}\n{key}"));
    id::fresh(prefix, key.as_deref())
}

pub(super) async fn create(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(wanted): JsonBody<Wanted>,
) -> Created {
    let refund = beneath("re", &id, key.as_deref())?;
    let intent = object!(env, PaymentIntent, "pi", &id, key);
    let wanted = NewPaymentRefund {
        refund: refund.clone(),
        amount: wanted.amount,
        to: wanted.to,
        reason: wanted.reason,
        credit_note: None,
    };
    let new = intent.refund(wanted).await.map_err(told)?;
    let refund = env.object::<Refund>().get_by_name(&refund);
    Ok(created(refund.create(new).await.map_err(told)?))
}

#[derive(Serialize)]
pub(super) struct Refunds {
    refunds: Vec<Refunded>,
    /// The amount that can still be refunded.
    left: Money,
}

pub(super) async fn list(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Refunds>, ApiError> {
    let intent = object!(env, PaymentIntent, "pi", &id);
    let view = intent.get_state().await.map_err(told)?;
    let live: states::PaymentIntent = view.live().map_err(told)?;
    let paid = live.refundable().map_err(|refusal| told(refusal.into()))?;
    let left = if view.state == "succeeded" {
        paid
    } else {
        Money::zero(paid.currency())
    };
    let refunds = live.refunds.into_values().collect();
    Ok(Json(Refunds { refunds, left }))
}

pub(super) async fn credit(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(wanted): JsonBody<Wanted>,
) -> Created {
    let note = beneath("cn", &id, key.as_deref())?;
    let invoice = object!(env, Invoice, "in", &id, key);
    let new = NewCreditNote {
        id: note,
        amount: wanted.amount,
        to: wanted.to,
        reason: wanted.reason,
    };
    Ok(created(invoice.credit(new).await.map_err(told)?))
}

#[derive(Serialize)]
pub(super) struct CreditNotes {
    credit_notes: Vec<CreditNote>,
    /// The amount that can still be credited.
    left: Money,
}

pub(super) async fn credit_notes(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<CreditNotes>, ApiError> {
    let invoice = object!(env, Invoice, "in", &id);
    let view = invoice.get_state().await.map_err(told)?;
    let live: states::Invoice = view.live().map_err(told)?;
    let left = live.creditable(&view.state);
    let left = left.map_err(|refusal| told(refusal.into()))?;
    let credit_notes = live.credit_notes.into_values().collect();
    Ok(Json(CreditNotes { credit_notes, left }))
}
