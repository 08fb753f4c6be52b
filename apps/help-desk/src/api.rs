//! The HTTP API. `/desks/{desk}` is a page; everything else is JSON, errors included.

use abide::{
    Request, Response,
    prelude::*,
    server::{
        ApiError, ClientAddr, JsonBody, Page, UrlPath, UrlQuery,
        access::{Access, Need, Role},
    },
};
use axum::{
    Json, Router,
    http::StatusCode,
    middleware::{self, Next},
    routing::{get, post, put},
};
use serde::{Deserialize, Serialize};

use crate::{
    desk::{Desk, DeskError},
    tickets::{Comment, Status, Thread, Ticket},
    visitor::Visitor,
};

/// The page is one file and makes requests only to its own server.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                           connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Every client may ask for help. On an address that others can reach, the rest is for holders of a token.
pub(crate) fn router(env: Env) -> Router {
    let public = Router::new()
        .route("/desks/{desk}/tickets", post(create))
        .route("/desks/{desk}/tickets/{ticket}/comments", post(comment))
        .route_layer(middleware::from_fn_with_state(env.clone(), admit));
    let staff = Router::new()
        .route("/desks/{desk}", get(page))
        .route("/desks/{desk}/live", get(live))
        .route("/desks/{desk}/tickets", get(list))
        .route("/desks/{desk}/tickets/{ticket}", get(show))
        .route("/desks/{desk}/tickets/{ticket}/assignee", put(assign))
        .route("/desks/{desk}/tickets/{ticket}/close", post(close))
        .route("/desks/{desk}/restore", post(restore));
    let staff = Access::of(&env).protect(staff.with_state(env.clone()), |route| {
        let need = if route.path.ends_with("/restore") {
            Need::role(Role::Admin).audited("restore_desk")
        } else {
            Need::by_method(route.method)
        };
        need.object("Desk", route.param("desk"))
    });
    public.with_state(env).merge(staff)
}

/// A desk's name: 1 to 40 lower-case letters, digits and hyphens.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct DeskName(String);

impl TryFrom<String> for DeskName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let valid = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if (1..=40).contains(&name.len()) && name.bytes().all(valid) {
            return Ok(Self(name));
        }
        Err("a desk's name has 1 to 40 lower-case letters, digits and hyphens")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTicket {
    subject: String,
    from: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewComment {
    author: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Assignment {
    assignee: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    status: Option<Status>,
    before: Option<i64>,
}

#[derive(Serialize)]
struct Tickets {
    tickets: Vec<Ticket>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moment {
    /// Milliseconds since 1970.
    at: u64,
}

#[derive(Serialize)]
struct Restored {
    undo: Bookmark,
}

async fn page(UrlPath(DeskName(_)): UrlPath<DeskName>) -> Page {
    Page::new(include_str!("page.html"), PAGE_POLICY)
}

async fn admit(
    env: Env,
    client: ClientAddr,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    // A client with one IPv6 address usually has its whole network.
    let name = client.network().to_string();
    let visitor = env.object::<Visitor>().get_by_name(&name);
    match visitor.admit().await? {
        None => Ok(next.run(request).await),
        Some(wait) => {
            let text = "Too many tickets and comments come from this address.";
            let refusal = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_writes", text);
            Err(refusal.retry_after(wait))
        }
    }
}

async fn create(
    env: Env,
    UrlPath(name): UrlPath<DeskName>,
    JsonBody(new): JsonBody<NewTicket>,
) -> Result<(StatusCode, Json<Ticket>), ApiError> {
    let subject = text("subject", new.subject, 200)?;
    let from = text("from", new.from, 100)?;
    let created = desk(&env, &name).create(subject, from).await;
    Ok((StatusCode::CREATED, Json(created.map_err(refusal)?)))
}

async fn comment(
    env: Env,
    UrlPath((name, ticket)): UrlPath<(DeskName, i64)>,
    JsonBody(new): JsonBody<NewComment>,
) -> Result<(StatusCode, Json<Comment>), ApiError> {
    let author = text("author", new.author, 100)?;
    let text = text("text", new.text, 10_000)?;
    let comment = desk(&env, &name).comment(ticket, author, text).await;
    Ok((StatusCode::CREATED, Json(comment.map_err(refusal)?)))
}

async fn list(
    env: Env,
    UrlPath(name): UrlPath<DeskName>,
    UrlQuery(filter): UrlQuery<Filter>,
) -> Result<Json<Tickets>, ApiError> {
    let before = filter.before.unwrap_or(i64::MAX);
    let tickets = desk(&env, &name).list(filter.status, before).await?;
    Ok(Json(Tickets { tickets }))
}

async fn show(
    env: Env,
    UrlPath((name, ticket)): UrlPath<(DeskName, i64)>,
) -> Result<Json<Thread>, ApiError> {
    let thread = desk(&env, &name).get(ticket).await;
    Ok(Json(thread.map_err(refusal)?))
}

async fn assign(
    env: Env,
    UrlPath((name, ticket)): UrlPath<(DeskName, i64)>,
    JsonBody(new): JsonBody<Assignment>,
) -> Result<Json<Ticket>, ApiError> {
    let assignee = text("assignee", new.assignee, 100)?;
    let ticket = desk(&env, &name).assign(ticket, assignee).await;
    Ok(Json(ticket.map_err(refusal)?))
}

async fn close(
    env: Env,
    UrlPath((name, ticket)): UrlPath<(DeskName, i64)>,
) -> Result<Json<Ticket>, ApiError> {
    let closed = desk(&env, &name).close(ticket).await;
    Ok(Json(closed.map_err(refusal)?))
}

async fn restore(
    env: Env,
    UrlPath(name): UrlPath<DeskName>,
    JsonBody(moment): JsonBody<Moment>,
) -> Result<Json<Restored>, ApiError> {
    let undo = desk(&env, &name).restore_to(moment.at).await?;
    Ok(Json(Restored { undo }))
}

async fn live(
    env: Env,
    UrlPath(name): UrlPath<DeskName>,
    request: Request,
) -> Result<Response, ApiError> {
    Ok(desk(&env, &name).fetch(request).await?)
}

fn desk(env: &Env, name: &DeskName) -> Stub<Desk> {
    env.object::<Desk>().get_by_name(&name.0)
}

/// Refuses a text that is blank or too long.
fn text(field: &str, text: String, max: usize) -> Result<String, ApiError> {
    if text.len() <= max && !text.trim().is_empty() {
        return Ok(text);
    }
    let message = format!("`{field}` must be a text of 1 to {max} bytes.");
    Err(ApiError::bad_request("invalid_text", message))
}

/// A desk's own answer, as its client sees it.
fn refusal(error: DeskError) -> ApiError {
    match error {
        DeskError::NoSuchTicket(id) => {
            ApiError::not_found("no_such_ticket", format!("This desk has no ticket {id}."))
        }
        DeskError::Closed(id) => {
            ApiError::conflict("ticket_closed", format!("Ticket {id} is closed."))
        }
        DeskError::Failed(error) => error.into(),
    }
}
