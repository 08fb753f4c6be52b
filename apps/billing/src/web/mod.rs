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

mod api;
mod events;
mod hooks;
mod id;
mod lists;
mod metadata;
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
        ApiError,
        access::{Access, Need},
    },
};
use axum::{
    Router,
    http::{HeaderValue, header},
    middleware,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use maud::Markup;

use crate::{assets, pages};

pub use api::OPENAPI;
pub(crate) use troubles::Troubles;
pub(crate) use upkeep::Upkeep;

/// The pages load only their own style.
const POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The program's routes.
pub fn router(env: Env) -> Router {
    let pages = Router::new()
        .route("/", get(site::overview))
        .route("/subscriptions", get(site::subscriptions))
        .route("/subscriptions/{id}", get(site::subscription))
        .fallback(site::nowhere)
        .layer(middleware::map_response(with_policy));
    let own = Router::new()
        .merge(pages)
        .nest("/v1", api::router())
        .route("/assets/{name}", get(assets::asset))
        .with_state(env.clone());
    // The gateway uses its own secret.
    let gateway = Router::new()
        .route("/v1/gateway/events", post(events::hear))
        .with_state(env.clone());
    Access::of(&env)
        .protect(own, |route| Need::by_method(route.method))
        .merge(gateway)
        .merge(service::operators_router(env))
}

/// An error as a page.
struct Failed(ApiError);

impl<E: Into<ApiError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let page = pages::error(status, self.0.message());
        (status, html(page)).into_response()
    }
}

fn html(page: Markup) -> Html<String> {
    Html(page.into_string())
}

async fn with_policy(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
