//! The resources in JSON: see `docs/billing.openapi.json`.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /v1/products`, `/v1/prices`, `/v1/customers`, `/v1/subscriptions` | 201 and the resource. With an `Idempotency-Key` it is created once |
//! | `GET /v1/{kind}/{id}` | 200 and the resource, from its object |
//! | `GET /v1/{kind}/{id}/history?after=&limit=` | 200 and `{"outcomes":[…]}`, oldest first |
//! | `POST /v1/products/{id}`, `/v1/customers/{id}` | 200 and the resource, changed |
//! | `DELETE /v1/products/{id}`, `/v1/prices/{id}`, `/v1/customers/{id}` | 200 and the resource, deleted |
//! | `POST /v1/customers/{id}/payment-method` | 200 and the customer |
//! | `POST /v1/subscriptions/{id}/change`, `…/cancel`, `…/keep`, `…/pause`, `…/resume` | 200 and the subscription |
//! | `GET /v1/subscriptions/{id}/entitlement` | 200: whether it gives its customer what they pay for, from its object |
//! | `GET /v1/subscriptions/{id}/timers` | 200: its timers, including failed ones |
//! | `GET /v1/{kind}?state=&customer=&subscription=&created_from=&created_before=&after=&limit=` | 200 and a page of the read model |
//! | `POST /v1/{kind}/{id}/metadata` | 200 and the resource, with these texts; `null` removes one |
//! | `GET /v1/subscriptions/{id}/upcoming-invoice` | 200: the next invoice, if nothing else happens |
//! | `POST /v1/subscriptions/{id}/change/preview` | 200: the effect of a change, without making it |
//! | `GET /v1/test-clock`, `POST /v1/test-clock/advance` | 200 and the time; 404 if the program uses the real clock |
//! | `POST /v1/invoices/{id}/pay` | 200 and the invoice; begins another payment |
//! | `POST /v1/invoices/{id}/void`, `…/give-up` | 200 and the invoice |
//! | `GET /v1/troubles` | 200: failed payments, refunds and timers, and changes that the read model has rejected |
//! | `POST /v1/payment-intents/{id}/resume`, `/v1/refunds/{id}/resume` | 200: resumes from the failed step |
//! | `POST /v1/subscriptions/{id}/timers/{name}/retry` | 200: retries a failed timer |
//! | `POST /v1/payment-intents/{id}/refunds` | 201 and the refund. With an `Idempotency-Key` it is created once |
//! | `GET /v1/payment-intents/{id}/refunds` | 200: the payment's refunds, and what is left of it |
//! | `POST /v1/invoices/{id}/credit-notes` | 201 and the invoice. With an `Idempotency-Key` it is created once |
//! | `GET /v1/invoices/{id}/credit-notes` | 200: the invoice's credit notes, and the amount that can still be credited |
//! | `POST /v1/webhook-endpoints` | 201, the endpoint and, only in this response, its secret |
//! | `GET /v1/webhook-endpoints`, `GET` and `DELETE /v1/webhook-endpoints/{id}` | 200 and the endpoint, or all |
//! | `POST /v1/gateway/events` | 204: the gateway's webhook was accepted. 401 if it is not signed |
//! | `GET /v1/{kind}/{id}/replay?until=` | 200 and a text: the chain and its resulting state |
//! | `GET /v1/{kind}/{id}/check` | 200 and `{"outcomes":…}`: the chain replays to the live state |
//! | `POST /v1/check` | 200 and a line of JSON for each step: the same of every resource |
//! | `GET /v1/read-model` | 200: the lag of the read model |
//! | `POST /v1/read-model/rebuild` | 200 and a line of JSON for each step: rebuilds it |
//!
//! `{kind}` is `products`, `prices`, `customers`, `subscriptions`, `invoices`, `payment-intents` or `refunds`. Money is
//! `{"amount":1250,"currency":"EUR"}` in the minor unit; every time is in milliseconds since 1970.

use abide::outcomes::{OutcomesError, Until};
use abide::{
    Env,
    server::{ApiError, IdempotencyKey, JsonBody, UrlPath, UrlQuery},
};
use axum::{
    Json, Router,
    http::header,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    answer::{ById, Change, Created, created, object, refused, told},
    hooks, id, lists,
    metadata::Annotated,
    previews, refunds, test_clock, troubles, upkeep,
};
use crate::{
    resource::{Event, View},
    resources::{
        Customer, Entitlement, Invoice, NewSubscription, OwnTerms, PaymentIntent, Price, Product,
        Refund, Subscription,
    },
    states::{Annotation, NewCustomer, NewPrice, NewProduct, SetPaymentMethod},
};

/// The `OpenAPI` description of the API.
pub const OPENAPI: &str = include_str!("../../../../docs/billing.openapi.json");

/// Outcomes in one response, unless another number is requested.
const HISTORY: usize = 100;

/// Maximum number of outcomes in one response.
const MAX_HISTORY: usize = 1_000;

pub(super) fn router() -> Router<Env> {
    Router::new()
        .route("/products", post(create_product))
        .route(
            "/products/{id}",
            get(show_product)
                .post(update_product)
                .delete(delete_product),
        )
        .route("/prices", post(create_price))
        .route("/prices/{id}", get(show_price).delete(delete_price))
        .route("/customers", post(create_customer))
        .route(
            "/customers/{id}",
            get(show_customer)
                .post(update_customer)
                .delete(delete_customer),
        )
        .route("/customers/{id}/payment-method", post(set_payment_method))
        .route("/subscriptions", post(create_subscription))
        .route("/subscriptions/{id}/change", post(change))
        .route("/subscriptions/{id}/cancel", post(cancel))
        .route("/subscriptions/{id}/keep", post(keep))
        .route("/subscriptions/{id}/pause", post(pause))
        .route("/subscriptions/{id}/resume", post(resume))
        .route("/subscriptions/{id}/entitlement", get(entitlement))
        .route("/invoices/{id}/pay", post(pay))
        .route("/invoices/{id}/void", post(void))
        .route("/invoices/{id}/give-up", post(give_up))
        .route("/webhook-endpoints", post(hooks::register).get(hooks::list))
        .route(
            "/webhook-endpoints/{id}",
            get(hooks::show).delete(hooks::remove),
        )
        .route("/subscriptions/{id}/timers", get(troubles::timers))
        .route(
            "/subscriptions/{id}/timers/{name}/retry",
            post(troubles::retry_timer),
        )
        .route("/payment-intents/{id}/resume", post(troubles::resume))
        .route("/refunds/{id}/resume", post(troubles::resume_refund))
        .route(
            "/payment-intents/{id}/refunds",
            post(refunds::create).get(refunds::list),
        )
        .route(
            "/invoices/{id}/credit-notes",
            post(refunds::credit).get(refunds::credit_notes),
        )
        .merge(lists::router())
        .route(
            "/subscriptions/{id}/upcoming-invoice",
            get(previews::upcoming),
        )
        .route("/subscriptions/{id}/change/preview", post(previews::change))
        .route("/test-clock", get(test_clock::show))
        .route("/test-clock/advance", post(test_clock::advance))
        .route("/{kind}/{id}/metadata", post(annotate))
        .route("/troubles", get(troubles::show))
        .route("/check", post(upkeep::check_all))
        .route("/read-model", get(upkeep::read_model))
        .route("/read-model/rebuild", post(upkeep::rebuild))
        .route("/{kind}/{id}", get(show))
        .route("/{kind}/{id}/replay", get(replay))
        .route("/{kind}/{id}/check", get(check))
        .route("/{kind}/{id}/history", get(history))
        .route("/openapi.json", get(describe))
        .fallback(nowhere)
}

async fn nowhere() -> ApiError {
    ApiError::not_found("not_found", "There is no such resource.")
}

async fn describe() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

#[derive(Deserialize)]
struct OfKind {
    kind: String,
    id: String,
}

impl OfKind {
    fn path(kind: &str, id: String) -> UrlPath<Self> {
        UrlPath(Self {
            kind: kind.to_owned(),
            id,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    #[serde(default)]
    after: i64,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct History {
    outcomes: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    at: When,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum When {
    Now,
    PeriodEnd,
}

/// Calls a method of any kind of resource.
macro_rules! of_kind {
    ($env:expr, $path:expr, $call:ident($($given:expr),*)) => {
        of_kind!($env, $path, None::<String>, $call($($given),*))
    };
    ($env:expr, $path:expr, $key:expr, $call:ident($($given:expr),*)) => {
        match &*$path.kind {
            "products" => object!($env, Product, "prod", &$path.id, $key).$call($($given),*).await,
            "prices" => object!($env, Price, "price", &$path.id, $key).$call($($given),*).await,
            "customers" => object!($env, Customer, "cus", &$path.id, $key).$call($($given),*).await,
            "subscriptions" => object!($env, Subscription, "sub", &$path.id, $key).$call($($given),*).await,
            "invoices" => object!($env, Invoice, "in", &$path.id, $key).$call($($given),*).await,
            "payment-intents" => object!($env, PaymentIntent, "pi", &$path.id, $key).$call($($given),*).await,
            "refunds" => object!($env, Refund, "re", &$path.id, $key).$call($($given),*).await,
            _ => return Err(nowhere().await),
        }
        .map_err(told)?
    };
}

async fn show(env: Env, UrlPath(path): UrlPath<OfKind>) -> Result<Json<View>, ApiError> {
    Ok(Json(of_kind!(env, path, get_state())))
}

async fn show_product(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    show(env, OfKind::path("products", id)).await
}

async fn show_price(env: Env, UrlPath(ById { id }): UrlPath<ById>) -> Result<Json<View>, ApiError> {
    show(env, OfKind::path("prices", id)).await
}

async fn show_customer(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    show(env, OfKind::path("customers", id)).await
}

/// Changes the metadata of a resource.
async fn annotate(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(path): UrlPath<OfKind>,
    JsonBody(metadata): JsonBody<Annotation>,
) -> Result<Json<View>, ApiError> {
    let _: View = of_kind!(env, path, get_state());
    Ok(Json(of_kind!(env, path, key, annotate(metadata))))
}

async fn history(
    env: Env,
    UrlPath(path): UrlPath<OfKind>,
    UrlQuery(wanted): UrlQuery<After>,
) -> Result<Json<History>, ApiError> {
    let limit = wanted.limit.unwrap_or(HISTORY);
    if wanted.after < 0 || limit > MAX_HISTORY {
        let text = format!(
            "A page starts after an outcome from 0 on, and has at most {MAX_HISTORY} outcomes."
        );
        return Err(ApiError::bad_request("no_such_page", text));
    }
    let outcomes = of_kind!(env, path, get_history(wanted.after, limit));
    Ok(Json(History { outcomes }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wished {
    #[serde(default = "to_its_end")]
    until: String,
}

fn to_its_end() -> String {
    "end".to_owned()
}

async fn replay(
    env: Env,
    UrlPath(path): UrlPath<OfKind>,
    UrlQuery(wished): UrlQuery<Wished>,
) -> Result<String, ApiError> {
    let until: Until = wished
        .until
        .parse()
        .map_err(|error: OutcomesError| told(error.into()))?;
    // A resource that was never created has no chain.
    let _: View = of_kind!(env, path, get_state());
    Ok(of_kind!(env, path, replay(until)))
}

#[derive(Serialize)]
struct Replayed {
    outcomes: i64,
}

async fn check(env: Env, UrlPath(path): UrlPath<OfKind>) -> Result<Json<Replayed>, ApiError> {
    let _: View = of_kind!(env, path, get_state());
    let outcomes = of_kind!(env, path, check());
    Ok(Json(Replayed { outcomes }))
}

fn value(data: &impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(data).map_err(|error| abide::Error::from_std(error).into())
}

async fn create_product(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(Annotated { new, metadata }): JsonBody<Annotated<NewProduct>>,
) -> Created {
    new.check().map_err(refused)?;
    let id = id::fresh("prod", key.as_deref())?;
    let product = object!(env, Product, "prod", &id, key);
    let view = product.create_annotated(value(&new)?, metadata);
    Ok(created(view.await.map_err(told)?))
}

async fn update_product(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(new): JsonBody<NewProduct>,
) -> Result<Json<View>, ApiError> {
    new.check().map_err(refused)?;
    let product = object!(env, Product, "prod", &id, key);
    let view = product.transition("update".into(), "updated".into(), value(&new)?);
    Ok(Json(view.await.map_err(told)?))
}

async fn delete_product(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let product = object!(env, Product, "prod", &id, key);
    let view = product.transition("delete".into(), "deleted".into(), Value::Null);
    Ok(Json(view.await.map_err(told)?))
}

async fn create_price(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(Annotated { new, metadata }): JsonBody<Annotated<NewPrice>>,
) -> Created {
    new.check().map_err(refused)?;
    let product = object!(env, Product, "prod", &new.product);
    let product = product.get_state().await.map_err(told)?;
    if product.state != "active" {
        let text = format!("{} is deleted: it cannot get new prices.", new.product);
        return Err(ApiError::conflict("deleted", text));
    }
    let id = id::fresh("price", key.as_deref())?;
    let price = object!(env, Price, "price", &id, key);
    let view = price.create_annotated(value(&new)?, metadata);
    Ok(created(view.await.map_err(told)?))
}

async fn delete_price(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let price = object!(env, Price, "price", &id, key);
    let view = price.transition("delete".into(), "deleted".into(), Value::Null);
    Ok(Json(view.await.map_err(told)?))
}

async fn create_customer(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(Annotated { new, metadata }): JsonBody<Annotated<NewCustomer>>,
) -> Created {
    new.check().map_err(refused)?;
    let id = id::fresh("cus", key.as_deref())?;
    let customer = object!(env, Customer, "cus", &id, key);
    let view = customer.create_annotated(value(&new)?, metadata);
    Ok(created(view.await.map_err(told)?))
}

async fn update_customer(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(new): JsonBody<NewCustomer>,
) -> Result<Json<View>, ApiError> {
    new.check().map_err(refused)?;
    let customer = object!(env, Customer, "cus", &id, key);
    let view = customer.transition("update".into(), "updated".into(), value(&new)?);
    Ok(Json(view.await.map_err(told)?))
}

async fn delete_customer(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let customer = object!(env, Customer, "cus", &id, key);
    let view = customer.delete();
    Ok(Json(view.await.map_err(told)?))
}

async fn set_payment_method(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(set): JsonBody<SetPaymentMethod>,
) -> Result<Json<View>, ApiError> {
    set.check().map_err(refused)?;
    let customer = object!(env, Customer, "cus", &id, key);
    let view = customer.transition("set_payment_method".into(), "set".into(), value(&set)?);
    Ok(Json(view.await.map_err(told)?))
}

/// The data of a new subscription, and its own terms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedSubscription {
    customer: String,
    price: String,
    quantity: Option<u32>,
    #[serde(default)]
    trial_days: u32,
    dunning_days: Option<Vec<u32>>,
    grace_days: Option<u32>,
}

impl WantedSubscription {
    fn parts(self) -> (NewSubscription, OwnTerms) {
        let new = NewSubscription {
            customer: self.customer,
            price: self.price,
            quantity: self.quantity.unwrap_or(1),
            trial_days: self.trial_days,
        };
        let own = OwnTerms {
            dunning_days: self.dunning_days,
            grace_days: self.grace_days,
        };
        (new, own)
    }
}

async fn create_subscription(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(Annotated { new, metadata }): JsonBody<Annotated<WantedSubscription>>,
) -> Created {
    let (new, own) = new.parts();
    id::check("cus", &new.customer)?;
    id::check("price", &new.price)?;
    let id = id::fresh("sub", key.as_deref())?;
    let subscription = object!(env, Subscription, "sub", &id, key);
    let view = subscription.create_with(new, own, metadata);
    let view = view.await.map_err(told)?;
    Ok(created(view))
}

async fn change(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(change): JsonBody<Change>,
) -> Result<Json<View>, ApiError> {
    id::check("price", &change.price)?;
    let subscription = object!(env, Subscription, "sub", &id, key);
    let view = subscription.change(change.price, change.quantity).await;
    Ok(Json(view.map_err(told)?))
}

async fn cancel(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(cancel): JsonBody<Cancel>,
) -> Result<Json<View>, ApiError> {
    let subscription = object!(env, Subscription, "sub", &id, key);
    let view = subscription.cancel(cancel.at == When::PeriodEnd).await;
    Ok(Json(view.map_err(told)?))
}

async fn keep(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let subscription = object!(env, Subscription, "sub", &id, key);
    Ok(Json(subscription.keep().await.map_err(told)?))
}

async fn pause(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let subscription = object!(env, Subscription, "sub", &id, key);
    Ok(Json(subscription.pause().await.map_err(told)?))
}

async fn resume(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let subscription = object!(env, Subscription, "sub", &id, key);
    Ok(Json(subscription.resume().await.map_err(told)?))
}

async fn entitlement(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<Entitlement>, ApiError> {
    let subscription = object!(env, Subscription, "sub", &id);
    Ok(Json(subscription.entitlement().await.map_err(told)?))
}

async fn pay(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let invoice = object!(env, Invoice, "in", &id, key);
    Ok(Json(invoice.pay().await.map_err(told)?))
}

async fn void(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let invoice = object!(env, Invoice, "in", &id, key);
    Ok(Json(invoice.void().await.map_err(told)?))
}

async fn give_up(
    env: Env,
    IdempotencyKey(key): IdempotencyKey,
    UrlPath(ById { id }): UrlPath<ById>,
) -> Result<Json<View>, ApiError> {
    let invoice = object!(env, Invoice, "in", &id, key);
    let view = invoice.give_up();
    Ok(Json(view.await.map_err(told)?))
}
