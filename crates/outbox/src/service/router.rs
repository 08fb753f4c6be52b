//! The HTTP API of outbox objects.

use abide::{
    Env, Stub,
    server::{
        ApiError, IdempotencyKey, JsonBody, Page, UrlPath, UrlQuery,
        access::{Access, Need, Route},
    },
};
use axum::{
    Json, Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post, put},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Outbox, Shown,
    error::{refused_message, unanswered},
    request::Messages,
};
use crate::{
    BulkResult, Enqueued, OutboxError, Record, Registry,
    forms::{Failing, Listed, Overview, Resumed, Wanted, WantedDead, WantedFailing, Which, Whole},
    limits,
    live::{LIVE, TURBO},
    operations::no_such_destination,
    refusal::refused,
};
use abide_component::operating;

/// The API's description, as `OpenAPI` 3.1 in JSON.
pub const OPENAPI: &str = include_str!("../../../../docs/outbox.openapi.json");

/// The page loads scripts and data only from its own server; its style is inline.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Longest name of an outbox, in bytes.
const MAX_NAME_BYTES: usize = 2_048;

/// Escaped characters in a path segment: all that are not "unreserved" (RFC 3986).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Routes for operators.
fn operations() -> Vec<(&'static str, MethodRouter<Env>)> {
    vec![
        ("/outbox/{name}", get(overview)),
        ("/outbox/{name}/messages", get(list)),
        ("/outbox/{name}/messages/{id}", get(show).delete(remove)),
        ("/outbox/{name}/messages/{id}/give-up", post(give_up)),
        ("/outbox/{name}/messages/{id}/redrive", post(redrive)),
        ("/outbox/{name}/dead-letters", get(dead_letters)),
        ("/outbox/{name}/failing", get(failing)),
        ("/outbox/{name}/redrive", post(redrive_all)),
        ("/outbox/{name}/discard", post(discard_all)),
        ("/outbox/{name}/destinations/resume", post(resume)),
        ("/outbox/{name}/live", get(live)),
        ("/outbox/{name}/page", get(page)),
        ("/outbox/{name}/assets/{file}", get(asset)),
    ]
}

/// Routes that write messages, and the API's description.
fn writing() -> Vec<(&'static str, MethodRouter<Env>)> {
    vec![
        ("/outbox/openapi.json", get(describe)),
        ("/outbox/{name}/messages", post(enqueue)),
        ("/outbox/{name}/messages/{id}/payload", put(edit)),
    ]
}

/// The HTTP API of the outboxes of a host. It accepts the kinds of messages that the [`Registry`] has
/// [opened](Registry::open_to_clients).
pub fn router(env: Env) -> Router {
    protected(with_routes(operators_routes(), writing()), env)
}

/// The part of the [API](router) for operators of a program that writes all messages itself: list, show, redrive,
/// cancel and discard messages. It can neither enqueue nor edit.
pub fn operators_router(env: Env) -> Router {
    protected(operators_routes(), env)
}

fn operators_routes() -> Router<Env> {
    with_routes(Router::new(), operations())
}

fn with_routes(router: Router<Env>, more: Vec<(&str, MethodRouter<Env>)>) -> Router<Env> {
    more.into_iter().fold(router, |router, (path, methods)| {
        router.route(path, methods)
    })
}

/// Access control, see [`access`](abide::server::access).
fn protected(router: Router<Env>, env: Env) -> Router {
    Access::of(&env).protect(router.with_state(env), need)
}

/// The required access of a route. An object has the name that tokens use: its class and name.
fn need(route: &Route<'_>) -> Need {
    let need = Need::by_method(route.method);
    let need = match (route.method, route.path.rsplit('/').next()) {
        (&Method::DELETE, _) => need.audited("cancel_or_discard"),
        (&Method::POST, Some("give-up")) => need.audited("give_up"),
        (&Method::POST, Some("redrive")) => need.audited("redrive"),
        (&Method::POST, Some("discard")) => need.audited("discard"),
        (&Method::POST, Some("resume")) => need.audited("resume_destination"),
        (&Method::PUT, Some("payload")) => need.audited("edit"),
        _ => need,
    };
    let need = match route.param("id") {
        "" => need,
        id => need.detail(format!("message {id}")),
    };
    match route.param("name") {
        "" => need,
        name => need.object("Outbox", name),
    }
}

#[derive(Deserialize)]
struct AssetPath {
    file: String,
}

#[derive(Deserialize)]
struct MessagePath {
    name: String,
    id: i64,
}

#[derive(Serialize)]
struct Several {
    messages: Vec<Enqueued>,
}

async fn describe() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn enqueue(
    env: Env,
    UrlPath(name): UrlPath<String>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody<Box<RawValue>>,
) -> Result<Response, ApiError> {
    let outbox = object(&env, &name)?;
    let Messages { messages, one } = Messages::read(&body)?;
    let registry = env.require::<Registry>()?;
    for message in &messages {
        check(&registry, &message.message.kind, &message.message.payload)?;
    }
    let outbox = match key {
        Some(key) => outbox.with_idempotency_key(key),
        None => outbox,
    };
    let enqueued = outbox
        .enqueue(messages)
        .answer()
        .await
        .map_err(unanswered)?
        .map_err(|error| refused_message(error, one))?;
    match enqueued.as_slice() {
        [enqueued] if one => {
            let location = HeaderValue::try_from(format!(
                "/outbox/{}/messages/{}",
                utf8_percent_encode(&name, SEGMENT),
                enqueued.id
            ))
            .map_err(|_| {
                ApiError::bad_request("invalid_path", "The name cannot be in a header.")
            })?;
            let headers = [(header::LOCATION, location)];
            Ok((StatusCode::ACCEPTED, headers, Json(enqueued)).into_response())
        }
        _ => Ok((StatusCode::ACCEPTED, Json(Several { messages: enqueued })).into_response()),
    }
}

/// Refuses a message that no outbox of this program accepts, before a call that would remember it.
fn check(registry: &Registry, kind: &str, payload: &str) -> Result<(), ApiError> {
    if !registry.open_kinds().any(|open| open == kind) {
        if !registry.kinds().any(|known| known == kind) {
            let open = registry.open_kinds().collect::<Vec<_>>().join("`, `");
            let text = format!("There is no kind `{kind}`; this server accepts `{open}`.");
            return Err(ApiError::bad_request("unknown_kind", text));
        }
        let kind = kind.to_owned();
        return Err(refused(OutboxError::ClosedKind { kind }));
    }
    if payload.len() > limits::MAX_PAYLOAD_BYTES {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            format!(
                "The payload has {} bytes; at most {} are accepted.",
                payload.len(),
                limits::MAX_PAYLOAD_BYTES
            ),
        ));
    }
    Ok(())
}

async fn list(
    env: Env,
    UrlPath(name): UrlPath<String>,
    UrlQuery(wanted): UrlQuery<Wanted>,
) -> Result<Json<Listed>, ApiError> {
    let page = object(&env, &name)?.list(wanted.filter()?).await?;
    Ok(Json(page.into()))
}

async fn dead_letters(
    env: Env,
    UrlPath(name): UrlPath<String>,
    UrlQuery(wanted): UrlQuery<WantedDead>,
) -> Result<Json<Listed>, ApiError> {
    let page = object(&env, &name)?.dead_letters(wanted.filter()?).await?;
    Ok(Json(page.into()))
}

async fn failing(
    env: Env,
    UrlPath(name): UrlPath<String>,
    UrlQuery(wanted): UrlQuery<WantedFailing>,
) -> Result<Json<Failing>, ApiError> {
    let limit = operating::page(wanted.limit, limits::MAX_PAGE)?;
    let found = object(&env, &name)?.failing(wanted.before, limit).await?;
    let (destinations, page) = found;
    Ok(Json(Failing::new(destinations, page)))
}

async fn overview(env: Env, UrlPath(name): UrlPath<String>) -> Result<Json<Overview>, ApiError> {
    let (counts, destinations) = object(&env, &name)?.overview().await?;
    Ok(Json(Overview {
        counts,
        destinations,
    }))
}

async fn show(env: Env, UrlPath(path): UrlPath<MessagePath>) -> Result<Json<Whole>, ApiError> {
    let Shown {
        record,
        payload,
        history,
    } = object(&env, &path.name)?
        .show(path.id)
        .await
        .map_err(refused)?;
    Ok(Json(Whole::new(record, payload, history)?))
}

async fn remove(env: Env, UrlPath(path): UrlPath<MessagePath>) -> Result<Json<Record>, ApiError> {
    let removed = object(&env, &path.name)?.remove(path.id).await;
    removed.map(Json).map_err(refused)
}

async fn edit(
    env: Env,
    UrlPath(path): UrlPath<MessagePath>,
    JsonBody(payload): JsonBody<Box<RawValue>>,
) -> Result<Json<Record>, ApiError> {
    let outbox = object(&env, &path.name)?;
    let edited = outbox.edit(path.id, payload.get().to_owned()).await;
    edited.map(Json).map_err(refused)
}

async fn give_up(env: Env, UrlPath(path): UrlPath<MessagePath>) -> Result<Json<Record>, ApiError> {
    let given_up = object(&env, &path.name)?.give_up(path.id).await;
    given_up.map(Json).map_err(refused)
}

async fn redrive(env: Env, UrlPath(path): UrlPath<MessagePath>) -> Result<Json<Record>, ApiError> {
    let redriven = object(&env, &path.name)?.redrive(path.id).await;
    redriven.map(Json).map_err(refused)
}

async fn redrive_all(
    env: Env,
    UrlPath(name): UrlPath<String>,
    JsonBody(which): JsonBody<Which>,
) -> Result<Json<BulkResult>, ApiError> {
    let swept = object(&env, &name)?.redrive_all(which.into()).await;
    swept.map(Json).map_err(refused)
}

async fn discard_all(
    env: Env,
    UrlPath(name): UrlPath<String>,
    JsonBody(which): JsonBody<Which>,
) -> Result<Json<BulkResult>, ApiError> {
    let swept = object(&env, &name)?.discard_all(which.into()).await;
    swept.map(Json).map_err(refused)
}

async fn resume(
    env: Env,
    UrlPath(name): UrlPath<String>,
    JsonBody(which): JsonBody<Resumed>,
) -> Result<StatusCode, ApiError> {
    if object(&env, &name)?.resume(which.destination).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(no_such_destination())
}

async fn live(
    env: Env,
    UrlPath(name): UrlPath<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let response = object(&env, &name)?.fetch(request).await?;
    Ok(response.map(axum::body::Body::new))
}

async fn page(env: Env, UrlPath(name): UrlPath<String>) -> Result<Response, ApiError> {
    let page = object(&env, &name)?.page(name).await?;
    let uncached = [(header::CACHE_CONTROL, "no-store")];
    Ok((uncached, Page::new(page, PAGE_POLICY)).into_response())
}

async fn asset(UrlPath(path): UrlPath<AssetPath>) -> Result<Response, ApiError> {
    let known = [&*TURBO, &*LIVE];
    let asset = known.into_iter().find(|asset| asset.name == path.file);
    let asset =
        asset.ok_or_else(|| ApiError::not_found("no_such_file", "There is no such file."))?;
    Ok(asset.into_response())
}

fn object(env: &Env, name: &str) -> Result<Stub<Outbox>, ApiError> {
    if name.len() > MAX_NAME_BYTES {
        let told = format!("An outbox's name has at most {MAX_NAME_BYTES} bytes.");
        return Err(ApiError::bad_request("limit_exceeded", told));
    }
    Ok(env.object::<Outbox>().get_by_name(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_document_has_every_address() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let documented = document["paths"].as_object().unwrap();
        let documented: BTreeSet<&str> = documented.keys().map(String::as_str).collect();
        let served: BTreeSet<&str> = [operations(), writing()]
            .concat()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(documented, served);
    }
}
