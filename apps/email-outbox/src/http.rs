//! The HTTP side.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /`, `GET /failed`, `GET /compose`, `GET /mails/{id}`, `GET /mails/{id}/edit` | pages |
//! | `POST` of their forms | 303 to a page; 422 and the form if its content cannot be sent |
//! | `GET /live`, a WebSocket or server-sent events | live changes: see [`abide::outbox::live`] |
//! | `GET /assets/{name}` | scripts and styles |
//! | anything else | an error page |
//! | `/api/…` | the same in JSON: see [`api`](crate::api) |
//!
//! Access is controlled by the host (`server.access`): anyone on a loopback address, elsewhere holders of a token.

use abide::outbox::{
    BulkResult, DeadLetterFilter, OutboxError, Page,
    live::{LIVE, TURBO},
};
use abide::{
    Call, Env, Request, Response,
    server::{
        ApiError, UrlPath, UrlQuery,
        access::{Access, Need, Route},
        asset_router, page_headers,
    },
};
use axum::{
    Router,
    extract::{Form, FromRequestParts, rejection::FormRejection},
    http::{Method, StatusCode, request::Parts},
    middleware::map_response,
    response::{Html, IntoResponse, Redirect, Response as Answer},
    routing::{get, post},
};
use maud::Markup;
use serde::Deserialize;

use crate::{
    Composed, Draft, api,
    assets::{SCRIPT, STYLE},
    mails::mails,
    pages,
    request::{ById, PAGE, Wanted, told},
};

/// The pages load only their own files and use their own server. Turbo adds a style for its progress bar.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The program's routes.
pub fn router(env: Env) -> Router {
    let pages = Router::new()
        .route("/", get(queue))
        .route("/failed", get(failed))
        .route("/failed/redrive", post(redrive_all))
        .route("/failed/discard", post(discard_all))
        .route("/compose", get(blank))
        .route("/mails", post(compose))
        .route("/mails/{id}", get(show))
        .route("/mails/{id}/edit", get(edit).post(save))
        .route("/mails/{id}/redrive", post(redrive))
        .route("/mails/{id}/drop", post(drop_one))
        .route("/lists/{id}/cancel", post(cancel_list))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(map_response(page_headers(POLICY)));
    let router = Router::new()
        .merge(pages)
        .nest("/api", api::router())
        .route("/live", get(live))
        .nest(
            "/assets",
            asset_router([&*STYLE, &*SCRIPT, &*TURBO, &*LIVE]),
        );
    let access = Access::of(&env);
    access.protect(router.with_state(env), need)
}

/// The permissions for a request. Operators' changes are recorded in the audit log.
fn need(route: &Route<'_>) -> Need {
    let need = Need::by_method(route.method);
    let action = match (route.method, route.path.trim_start_matches("/api")) {
        (&Method::POST, "/failed/redrive" | "/mails/{id}/redrive") => "redrive",
        (&Method::POST, "/failed/discard") => "discard",
        (&Method::POST, "/mails/{id}/edit") => "edit",
        (&Method::POST, "/mails/{id}/drop") | (&Method::DELETE, "/mails/{id}") => {
            "cancel_or_discard"
        }
        (&Method::POST, "/lists/{id}/cancel") => "cancel_list",
        _ => return need,
    };
    let need = need.audited(action);
    match route.param("id") {
        "" => need,
        id if route.path.starts_with("/lists") => need.detail(format!("list {id}")),
        id => need.detail(format!("message {id}")),
    }
}

/// An error as a page.
pub(crate) struct Failed(ApiError);

impl<E: Into<ApiError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Answer {
        let status = self.0.status();
        (status, page(pages::error(status, self.0.message()))).into_response()
    }
}

/// A part of the request for a page: if it is invalid, an error page is returned.
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

/// A form, if it is valid.
fn filled_in<T>(form: Result<Form<T>, FormRejection>) -> Result<T, Failed> {
    match form {
        Ok(Form(form)) => Ok(form),
        Err(why) => Err(ApiError::new(why.status(), "invalid_form", why.body_text()).into()),
    }
}

async fn nowhere() -> Failed {
    ApiError::not_found("not_found", "There is no such page.").into()
}

async fn not_so() -> Failed {
    let text = "This address is for the buttons and forms of pages.";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text).into()
}

/// The page to which a form's button returns.
#[derive(Deserialize)]
struct Back {
    #[serde(default)]
    back: Whence,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Whence {
    #[default]
    Mail,
    Failed,
}

impl Whence {
    fn after(self, id: i64) -> Redirect {
        match self {
            Self::Mail => Redirect::to(&format!("/mails/{id}")),
            Self::Failed => Redirect::to("/failed"),
        }
    }
}

/// The typed text; a missing field is treated as empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Typed {
    to: String,
    subject: String,
    text: String,
}

fn page(markup: Markup) -> Html<String> {
    Html(markup.into_string())
}

async fn queue(
    env: Env,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<Wanted>>,
) -> Result<Html<String>, Failed> {
    let mails = mails(&env);
    let overview = mails.overview();
    let list: Page = mails.list(wanted.filter()).await?;
    let overview = overview.await?;
    Ok(page(pages::queue(&overview, &list, &wanted)))
}

async fn failed(
    env: Env,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<Wanted>>,
) -> Result<Html<String>, Failed> {
    let mails = mails(&env);
    let overview = mails.overview();
    let filter = DeadLetterFilter::default()
        .before(wanted.before)
        .limit(PAGE);
    let list = mails.failed(filter).await?;
    let overview = overview.await?;
    Ok(page(pages::failed(&overview, &list, &wanted)))
}

async fn blank() -> Html<String> {
    page(pages::compose(&Draft::default(), None))
}

async fn compose(env: Env, typed: Result<Form<Typed>, FormRejection>) -> Result<Answer, Failed> {
    let typed = filled_in(typed)?;
    let draft = Draft::parse(&typed.to, &typed.subject, &typed.text);
    match mails(&env).compose(draft.clone()).await {
        Ok(Composed::Mail(_) | Composed::List(_)) => Ok(Redirect::to("/").into_response()),
        Err(OutboxError::Invalid(why)) => {
            let form = page(pages::compose(&draft, Some(&why)));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, form).into_response())
        }
        Err(error) => Err(told(error).into()),
    }
}

async fn show(
    env: Env,
    InPage(UrlPath(ById { id })): InPage<UrlPath<ById>>,
) -> Result<Html<String>, Failed> {
    let mail = mails(&env).show(id).await.map_err(told)?;
    Ok(page(pages::mail(&mail)))
}

async fn edit(
    env: Env,
    InPage(UrlPath(ById { id })): InPage<UrlPath<ById>>,
) -> Result<Html<String>, Failed> {
    let mail = mails(&env).show(id).await.map_err(told)?;
    let draft = Draft {
        to: mail.email.to,
        subject: mail.email.subject,
        text: mail.email.text.unwrap_or_default(),
    };
    Ok(page(pages::edit(id, &draft, None)))
}

async fn save(
    env: Env,
    InPage(UrlPath(ById { id })): InPage<UrlPath<ById>>,
    typed: Result<Form<Typed>, FormRejection>,
) -> Result<Answer, Failed> {
    let typed = filled_in(typed)?;
    let draft = Draft::parse(&typed.to, &typed.subject, &typed.text);
    match mails(&env).edit(id, draft.clone()).await {
        Ok(_) => Ok(Whence::Mail.after(id).into_response()),
        Err(OutboxError::Invalid(why)) => {
            let form = page(pages::edit(id, &draft, Some(&why)));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, form).into_response())
        }
        Err(error) => Err(told(error).into()),
    }
}

async fn redrive(
    env: Env,
    InPage(UrlPath(ById { id })): InPage<UrlPath<ById>>,
    back: Result<Form<Back>, FormRejection>,
) -> Result<Redirect, Failed> {
    let Back { back } = filled_in(back)?;
    mails(&env).redrive(id).await.map_err(told)?;
    Ok(back.after(id))
}

async fn drop_one(
    env: Env,
    InPage(UrlPath(ById { id })): InPage<UrlPath<ById>>,
    back: Result<Form<Back>, FormRejection>,
) -> Result<Redirect, Failed> {
    let Back { back } = filled_in(back)?;
    mails(&env).give_up(id).await.map_err(told)?;
    Ok(back.after(id))
}

async fn redrive_all(env: Env) -> Result<Redirect, Failed> {
    let mails = mails(&env);
    sweep(|after| mails.redrive_all(after)).await
}

async fn discard_all(env: Env) -> Result<Redirect, Failed> {
    let mails = mails(&env);
    sweep(|after| mails.discard_all(after)).await
}

/// Processes the failed mails, once: those that fail again in the meantime are not processed again.
async fn sweep(
    step: impl Fn(Option<i64>) -> Call<BulkResult, OutboxError>,
) -> Result<Redirect, Failed> {
    let mut after = None;
    loop {
        let swept = step(after).await.map_err(told)?;
        if !swept.more {
            return Ok(Redirect::to("/failed"));
        }
        after = swept.last;
    }
}

async fn cancel_list(
    env: Env,
    InPage(UrlPath(ById { id })): InPage<UrlPath<ById>>,
) -> Result<Redirect, Failed> {
    mails(&env).cancel_list(id).await.map_err(told)?;
    Ok(Redirect::to("/"))
}

async fn live(env: Env, request: Request) -> Result<Response, ApiError> {
    Ok(mails(&env).fetch(request).await?)
}
