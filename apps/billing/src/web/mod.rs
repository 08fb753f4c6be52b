//! The HTTP side: pages and API.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /`, `GET /subscriptions?state=&after=`, `GET /subscriptions/{id}` | pages |
//! | `GET /assets/{name}` | their static files |
//! | `/v1/…` | the resources in JSON |
//! | `/outbox/{endpoint}/…` | the [operators' API](service::operators_router) of a webhook endpoint's outbox |
//! | anything else | an error page |
//!
//! Access is controlled by the host (`server.access`): anyone on a loopback address, elsewhere holders of a token. The
//! gateway signs its webhooks.

mod answer;
mod api;
mod events;
mod hooks;
mod id;
mod lists;
mod metadata;
mod page;
mod previews;
mod refunds;
mod site;
mod test_clock;
mod troubles;
mod upkeep;

use abide::outbox::service;
use abide::{
    Env,
    server::{
        access::{Access, Need},
        asset_router, page_headers,
    },
};
use axum::{
    Router, middleware,
    routing::{get, post},
};

use crate::assets::STYLE;

pub use api::OPENAPI;
pub(crate) use troubles::Troubles;
pub(crate) use upkeep::Upkeep;

/// The program's routes.
pub fn router(env: Env) -> Router {
    let pages = Router::new()
        .route("/", get(site::overview))
        .route("/subscriptions", get(site::subscriptions))
        .route("/subscriptions/{id}", get(site::subscription))
        .fallback(site::nowhere)
        .layer(middleware::map_response(page_headers(page::POLICY)));
    let own = Router::new()
        .merge(pages)
        .nest("/v1", api::router())
        .nest("/assets", asset_router([&*STYLE]))
        .with_state(env.clone());
    // The gateway uses its own secret.
    let gateway = Router::new()
        .route("/v1/gateway/events", post(events::hear))
        .with_state(env.clone());
    Access::of(&env)
        .protect(own, |route| Need::by_method(route.method))
        .merge(gateway)
        .layer(middleware::map_response(page::not_sniffed))
        .merge(service::operators_router(env))
}
