//! The edge.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /` of a [definition](crate::Definition) | 201 and `{"id":"…"}` |
//! | `POST /{id}` of a definition | 201, or 200 if there was one, and `{"id":"…"}`; the same again changes nothing |
//! | any other method there | 405 |
//! | `/api/requests…` | lists, runs, pause, resume, cancel, retry, in JSON: see [`api`](crate::api) |
//! | `GET /requests`, `GET /requests/{id}` | pages |
//! | `POST /requests/{id}/{action}` of their buttons | 303 to the page |
//!
//! Who may call is the host's business (`server.access`); what another site makes a browser send is refused before it gets here.

use std::sync::Arc;

use abide::{
    Env, Error, ErrorKind, Stub,
    server::{
        ApiError, JsonBody, UrlPath, UrlQuery,
        access::{Access, Need, Route},
        asset_router, page_headers,
    },
};
use axum::{
    Json, Router,
    extract::FromRequestParts,
    http::{Method, StatusCode, request::Parts},
    middleware::map_response,
    response::{Html, IntoResponse, Redirect, Response as Answer},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use crate::{
    Capacity, Definition, Index, ListFilter, Phase, Place, Put, ScheduledRequest, SchedulerError,
    api,
    assets::{SCRIPT, STYLE},
    error::check_id,
    limits, pages,
};

/// The pages load their own files and ask their own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How often a call is repeated whose object was just deleted.
const FRESH_STARTS: usize = 3;

/// Everything that the program answers.
pub fn router(env: Env) -> Router {
    let pages = Router::new()
        .route("/requests", get(list_page))
        .route("/requests/{id}", get(request_page))
        .route("/requests/{id}/pause", post(pause))
        .route("/requests/{id}/resume", post(resume))
        .route("/requests/{id}/retry", post(retry))
        .route("/requests/{id}/cancel", post(cancel))
        .layer(map_response(page_headers(POLICY)));
    let router = Router::new()
        .route("/", post(make).fallback(not_so))
        .route("/{id}", post(replace).fallback(not_so))
        .merge(pages)
        .nest("/api", api::router())
        .nest("/assets", asset_router([&*STYLE, &*SCRIPT]));
    let access = Access::of(&env);
    access.protect(router.with_state(env), need)
}

/// What a request needs. What people do to requests is in the audit log.
fn need(route: &Route<'_>) -> Need {
    let need = Need::by_method(route.method);
    let action = match (route.method, route.path.rsplit('/').next()) {
        (&Method::POST, Some("pause")) => "pause",
        (&Method::POST, Some("resume")) => "resume",
        (&Method::POST, Some("retry")) => "retry",
        (&Method::POST, Some("cancel")) | (&Method::DELETE, _) => "cancel",
        _ => return need,
    };
    need.audited(action)
        .detail(format!("request {}", route.param("id")))
}

async fn not_so() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "POST makes and replaces requests here. Pages are at /requests; reading, pausing and canceling is below /api/requests.",
    )
}

/// What making and replacing answers.
#[derive(Serialize)]
struct Made {
    id: String,
}

async fn make(
    env: Env,
    JsonBody(definition): JsonBody<Definition>,
) -> Result<(StatusCode, Json<Made>), ApiError> {
    put(&env, new_id(&env)?, definition).await
}

async fn replace(
    env: Env,
    UrlPath(ById { id }): UrlPath<ById>,
    JsonBody(definition): JsonBody<Definition>,
) -> Result<(StatusCode, Json<Made>), ApiError> {
    check_id(&id)?;
    put(&env, id, definition).await
}

async fn put(
    env: &Env,
    id: String,
    definition: Definition,
) -> Result<(StatusCode, Json<Made>), ApiError> {
    let now = env.now().unix_millis();
    // Checked before an object is created for it.
    definition.check(now).map_err(SchedulerError::from)?;
    let capacity: Arc<Capacity> = env.require()?;
    let room = capacity.room(env).await?;
    let mut starts = 0;
    let put = loop {
        let put = request(env, &id).put(id.clone(), definition.clone(), room);
        match put.await {
            Err(SchedulerError::Object(error))
                if error.kind() == ErrorKind::Reset && !error.remote() && starts < FRESH_STARTS =>
            {
                starts += 1;
            }
            answered => break answered?,
        }
    };
    let status = match put {
        Put::Created => {
            capacity.made();
            StatusCode::CREATED
        }
        Put::Replaced | Put::Unchanged => StatusCode::OK,
    };
    Ok((status, Json(Made { id })))
}

/// A unique id that cannot be guessed. Later ids are greater.
fn new_id(env: &Env) -> Result<String, ApiError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(Error::from_std)?;
    let millis = env.clock().unix_millis();
    Ok(format!("{millis:012x}{}", hex::encode(random)))
}

/// The object of an id.
pub(crate) fn request(env: &Env, id: &str) -> Stub<ScheduledRequest> {
    env.object::<ScheduledRequest>().get_by_name(id)
}

#[derive(Deserialize)]
pub(crate) struct ById {
    pub(crate) id: String,
}

impl ById {
    /// The object, if that can be an id.
    pub(crate) fn request(&self, env: &Env) -> Result<Stub<ScheduledRequest>, ApiError> {
        check_id(&self.id)?;
        Ok(request(env, &self.id))
    }
}

/// Which page of the list.
#[derive(Default, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) state: Option<Phase>,
    before: Option<String>,
    limit: Option<usize>,
}

impl Wanted {
    pub(crate) fn filter(&self) -> Result<ListFilter, ApiError> {
        let before = self.before.as_deref().map(str::parse::<Place>).transpose();
        let before = before.map_err(|()| {
            ApiError::bad_request(
                "invalid_query",
                "`before` is what the page before gave as `next`.",
            )
        })?;
        Ok(ListFilter {
            state: self.state,
            before,
            limit: self
                .limit
                .unwrap_or(limits::PAGE)
                .clamp(1, limits::MAX_PAGE),
        })
    }

    /// True if the page begins with the newest.
    pub(crate) fn is_first(&self) -> bool {
        self.before.is_none()
    }
}

/// Which page of a request's runs.
#[derive(Default, Deserialize)]
pub(crate) struct WantedRuns {
    pub(crate) before: Option<i64>,
    pub(crate) limit: Option<usize>,
}

/// An error as a page.
struct Failed(ApiError);

impl<E: Into<ApiError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Answer {
        let status = self.0.status();
        let page = pages::error(status, self.0.message());
        (status, Html(page.into_string())).into_response()
    }
}

/// A part of the request for a page: if it is invalid, a page says so.
struct InPage<T>(T);

impl<S, T> FromRequestParts<S> for InPage<T>
where
    S: Send + Sync,
    T: FromRequestParts<S, Rejection = ApiError>,
{
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        Ok(Self(T::from_request_parts(parts, state).await?))
    }
}

async fn list_page(
    env: Env,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<Wanted>>,
) -> Result<Html<String>, Failed> {
    let index = Index::new(&env);
    let list = index.list(&wanted.filter()?).await?;
    let counts = index.counts().await?;
    Ok(Html(pages::list(&list, &counts, &wanted).into_string()))
}

async fn request_page(
    env: Env,
    InPage(UrlPath(by_id)): InPage<UrlPath<ById>>,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<WantedRuns>>,
) -> Result<Html<String>, Failed> {
    let request = by_id.request(&env)?;
    let shown = request.show().await?;
    let limit = wanted.limit.unwrap_or(limits::PAGE);
    let runs = request.runs(wanted.before, limit).await?;
    Ok(Html(pages::request(&shown, &runs).into_string()))
}

async fn pause(
    env: Env,
    InPage(UrlPath(by_id)): InPage<UrlPath<ById>>,
) -> Result<Redirect, Failed> {
    by_id.request(&env)?.pause().await?;
    Ok(back(&by_id))
}

async fn resume(
    env: Env,
    InPage(UrlPath(by_id)): InPage<UrlPath<ById>>,
) -> Result<Redirect, Failed> {
    by_id.request(&env)?.resume().await?;
    Ok(back(&by_id))
}

async fn retry(
    env: Env,
    InPage(UrlPath(by_id)): InPage<UrlPath<ById>>,
) -> Result<Redirect, Failed> {
    by_id.request(&env)?.retry().await?;
    Ok(back(&by_id))
}

async fn cancel(
    env: Env,
    InPage(UrlPath(by_id)): InPage<UrlPath<ById>>,
) -> Result<Redirect, Failed> {
    by_id.request(&env)?.cancel().await?;
    Ok(Redirect::to("/requests"))
}

fn back(by_id: &ById) -> Redirect {
    Redirect::to(&format!("/requests/{}", by_id.id))
}
