//! The edge.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /sessions/{session}/screenshots` of a [`Definition`] | 201 and the screenshot, when its pictures are stored |
//! | `GET /sessions/{session}/screenshots?before=&limit=` | `{"screenshots":[…],"next":…}`, newest first |
//! | `GET`, `DELETE /sessions/{session}/screenshots/{id}` | the screenshot; 204 |
//! | `GET /sessions/{session}` | what its browser is doing; people's browsers get the gallery |
//! | `POST /sessions/{session}/keep-alive` | 204: the idle time starts again; 409 if no browser is open |
//! | `DELETE /sessions/{session}/browser` | 204: closed |
//! | `GET /pictures/{key}` | a picture, or a PDF to download |
//! | `POST /sessions/{session}/{take,keep-open,close,remove}` of the gallery's forms | 303 to the gallery |

use std::sync::Arc;

use abide::{
    Env, Stub,
    server::{
        ApiError, JsonBody, UrlPath, UrlQuery,
        access::{Access, Need, Route},
        asset_router, page_headers,
    },
};
use axum::{
    Form, Json, Router,
    body::Body,
    extract::rejection::FormRejection,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::map_response,
    response::{Html, IntoResponse, Redirect, Response},
    routing::{delete, get, post},
};
use serde::Deserialize;

use crate::{
    BrowserSession, List, Shot,
    assets::STYLE,
    browser::pool::Browsers,
    limits, pages,
    pictures::Pictures,
    request::{Definition, Format, Job, is_session},
};

/// The gallery loads its own style and pictures, and no script.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Everything that the program answers.
pub fn router(env: Env) -> Router {
    let session = Router::new()
        .route("/", get(status))
        .route("/screenshots", get(list).post(take))
        .route("/screenshots/{id}", get(show).delete(remove))
        .route("/keep-alive", post(keep_alive))
        .route("/browser", delete(close))
        .route("/take", post(form_take))
        .route("/keep-open", post(form_keep_open))
        .route("/close", post(form_close))
        .route("/remove", post(form_remove));
    let router = Router::new()
        .route("/", get(|| async { Redirect::to("/sessions/main") }))
        .route("/sessions", get(go_to_session))
        .nest("/sessions/{session}", session)
        .route("/pictures/{session}/{time}/{file}", get(picture))
        .nest("/assets", asset_router([&*STYLE]))
        .layer(map_response(page_headers(POLICY)));
    Access::of(&env).protect(router.with_state(env), need)
}

/// What a request needs: the session's object, if it names one.
fn need(route: &Route<'_>) -> Need {
    let need = Need::by_method(route.method);
    let session = route.param("session");
    if is_session(session) {
        need.object("BrowserSession", session)
    } else {
        need
    }
}

#[derive(Deserialize)]
struct SessionPath {
    session: String,
}

#[derive(Deserialize)]
struct ShotPath {
    session: String,
    id: i64,
}

#[derive(Deserialize)]
struct PicturePath {
    session: String,
    time: String,
    file: String,
}

/// Which page of the list.
#[derive(Deserialize)]
struct Selection {
    before: Option<i64>,
    limit: Option<i64>,
}

/// The object of a session.
fn object(env: &Env, session: &str) -> Result<Stub<BrowserSession>, ApiError> {
    if !is_session(session) {
        return Err(ApiError::bad_request(
            "invalid_session",
            format!(
                "A session's name has 1 to {} letters, digits, `-` and `_`, and begins with a letter or a digit.",
                limits::MAX_SESSION
            ),
        ));
    }
    Ok(env.object::<BrowserSession>().get_by_name(session))
}

fn job(env: &Env, definition: Definition) -> Result<Job, ApiError> {
    let browsers: Arc<Browsers> = env.require()?;
    Ok(definition.check(browsers.policy())?)
}

async fn take(
    env: Env,
    UrlPath(path): UrlPath<SessionPath>,
    JsonBody(definition): JsonBody<Definition>,
) -> Result<(StatusCode, Json<Shot>), ApiError> {
    let object = object(&env, &path.session)?;
    // Checked before an object is created for it.
    let job = job(&env, definition)?;
    let shot = object.take(job).await?;
    Ok((StatusCode::CREATED, Json(shot)))
}

async fn list(
    env: Env,
    UrlPath(path): UrlPath<SessionPath>,
    UrlQuery(selection): UrlQuery<Selection>,
) -> Result<Json<List>, ApiError> {
    let limit = selection.limit.unwrap_or(limits::LIST);
    let object = object(&env, &path.session)?;
    Ok(Json(object.list(selection.before, limit).await?))
}

async fn show(env: Env, UrlPath(path): UrlPath<ShotPath>) -> Result<Json<Shot>, ApiError> {
    Ok(Json(object(&env, &path.session)?.show(path.id).await?))
}

async fn remove(env: Env, UrlPath(path): UrlPath<ShotPath>) -> Result<StatusCode, ApiError> {
    object(&env, &path.session)?.delete(path.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn keep_alive(env: Env, UrlPath(path): UrlPath<SessionPath>) -> Result<StatusCode, ApiError> {
    object(&env, &path.session)?.keep_alive().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn close(env: Env, UrlPath(path): UrlPath<SessionPath>) -> Result<StatusCode, ApiError> {
    object(&env, &path.session)?.close().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The state of a session, or its gallery for people.
async fn status(
    env: Env,
    UrlPath(path): UrlPath<SessionPath>,
    UrlQuery(selection): UrlQuery<Selection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let is_person = accept.is_some_and(|accept| accept.contains("text/html"));
    let object = match object(&env, &path.session) {
        Ok(object) => object,
        Err(error) if is_person => return Ok(Failed(error, "main".to_owned()).into_response()),
        Err(error) => return Err(error),
    };
    let status = object.status().await?;
    if !is_person {
        return Ok(Json(status).into_response());
    }
    let limit = selection.limit.unwrap_or(limits::LIST);
    let list = object.list(selection.before, limit).await?;
    let page = pages::gallery(&path.session, &status, &list, selection.before.is_none());
    Ok(Html(page.into_string()).into_response())
}

/// The gallery's field for another session.
async fn go_to_session(UrlQuery(path): UrlQuery<SessionPath>) -> Result<Redirect, Failed> {
    if is_session(&path.session) {
        return Ok(back(&path.session));
    }
    let error = ApiError::bad_request(
        "invalid_session",
        format!(
            "A session's name has 1 to {} letters, digits, - and _, and begins with a letter or a digit.",
            limits::MAX_SESSION
        ),
    );
    Err(Failed(error, "main".to_owned()))
}

async fn picture(
    env: Env,
    UrlPath(path): UrlPath<PicturePath>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Sessions, times and files have no other characters, so no other name reaches the store.
    let is_plain = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c))
            && !text.contains("..")
    };
    let unknown = || ApiError::not_found("no_such_picture", "There is no such picture.");
    let format = Format::of_file(&path.file).ok_or_else(unknown)?;
    if !is_session(&path.session) || !is_plain(&path.time) || !is_plain(&path.file) {
        return Err(unknown());
    }
    let pictures: Arc<Pictures> = env.require()?;
    let key = format!("{}/{}/{}", path.session, path.time, path.file);
    let found = pictures.get(&key).await.map_err(|error| {
        tracing::warn!(key, error, "a picture cannot be read");
        ApiError::new(
            StatusCode::BAD_GATEWAY,
            "store_failed",
            "The store of pictures cannot be read at the moment. Try again.",
        )
    })?;
    let found = found.ok_or_else(unknown)?;
    let etag = found.etag.as_deref().map(quoted);
    // A picture may be replaced within five minutes, so it is asked for again, and sent only if it has changed.
    let mut answer = if etag.is_some() && headers.get(header::IF_NONE_MATCH) == etag.as_ref() {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut answer = Body::from_stream(found.bytes).into_response();
        let headers = answer.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(format.content_type()),
        );
        if format == Format::Pdf {
            // A stranger's document is not opened among our pages.
            headers.insert(
                header::CONTENT_DISPOSITION,
                HeaderValue::from_static("attachment"),
            );
        }
        headers.insert(header::CONTENT_LENGTH, found.size.into());
        answer
    };
    let headers = answer.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    if let Some(etag) = etag {
        headers.insert(header::ETAG, etag);
    }
    Ok(answer)
}

/// An entity tag as HTTP writes it; a directory's has no quotation marks.
fn quoted(etag: &str) -> HeaderValue {
    let bare = etag.trim_matches('"');
    HeaderValue::try_from(format!("\"{bare}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// An error as a page, with the session to go back to.
struct Failed(ApiError, String);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let Self(error, session) = self;
        let status = error.status();
        let page = pages::error(status, error.message(), &session);
        (status, Html(page.into_string())).into_response()
    }
}

#[derive(Deserialize)]
struct TakeForm {
    url: String,
    format: Option<Format>,
}

#[derive(Deserialize)]
struct RemoveForm {
    id: i64,
}

async fn form_take(
    env: Env,
    UrlPath(path): UrlPath<SessionPath>,
    form: Result<Form<TakeForm>, FormRejection>,
) -> Result<Redirect, Failed> {
    let take = async {
        let object = object(&env, &path.session)?;
        let Form(form) = form.map_err(|_| bad_form())?;
        let text = form.url.trim();
        // People leave it out.
        let url = if text.contains("://") {
            text.to_owned()
        } else {
            format!("https://{text}")
        };
        let definition = Definition {
            format: form.format.unwrap_or_default(),
            ..Definition::new(url)
        };
        let job = job(&env, definition)?;
        object.take(job).await?;
        Ok(())
    };
    finish(&path.session, take.await)
}

async fn form_keep_open(env: Env, UrlPath(path): UrlPath<SessionPath>) -> Result<Redirect, Failed> {
    let keep = async { Ok(object(&env, &path.session)?.keep_alive().await?) };
    finish(&path.session, keep.await)
}

async fn form_close(env: Env, UrlPath(path): UrlPath<SessionPath>) -> Result<Redirect, Failed> {
    let close = async { Ok(object(&env, &path.session)?.close().await?) };
    finish(&path.session, close.await)
}

async fn form_remove(
    env: Env,
    UrlPath(path): UrlPath<SessionPath>,
    form: Result<Form<RemoveForm>, FormRejection>,
) -> Result<Redirect, Failed> {
    let remove = async {
        let Form(form) = form.map_err(|_| bad_form())?;
        object(&env, &path.session)?.delete(form.id).await?;
        Ok(())
    };
    finish(&path.session, remove.await)
}

fn bad_form() -> ApiError {
    ApiError::bad_request(
        "invalid_form",
        "The form is incomplete. Go back and fill it in.",
    )
}

fn finish(session: &str, result: Result<(), ApiError>) -> Result<Redirect, Failed> {
    match result {
        Ok(()) => Ok(back(session)),
        Err(error) => {
            let session = if is_session(session) { session } else { "main" };
            Err(Failed(error, session.to_owned()))
        }
    }
}

fn back(session: &str) -> Redirect {
    Redirect::to(&format!("/sessions/{session}"))
}
