//! The pages and the JSON API.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /`, `GET /posts/{post}?before=ID`, `GET /posts/{post}?with=ID` | pages |
//! | `POST /posts/{post}/comments`, a form | 303 to the comment, or the page with what is wrong |
//! | `GET /unsubscribe?token=…` | a page with a button |
//! | `POST /unsubscribe?token=…` | ends the subscription; also what mail programs send ([RFC 8058](https://www.rfc-editor.org/rfc/rfc8058)) |
//! | `GET /api/posts` | 200 and `{"posts":[…]}` |
//! | `GET /api/posts/{post}?before=ID`, also `?with=ID` | 200 and `{"post":…,"comments":[…],"older":…,"newest":true}` |
//! | `POST /api/posts/{post}/comments` with `{"name":"…","email":"…","text":"…"}` | 201 and `{"id":1,"repeated":false}`; 200 if its `Idempotency-Key` came before |
//! | `PUT /api/posts/{post}` with `{"title":"…","text":"…"}` | 201; for the owner |
//! | `GET /api/mails?status=failed&before=ID` | 200 and `{"counts":…,"destinations":[…],"mails":[…],"next":…}`; for the owner |
//! | `GET /api/mails/{id}` | 200 and `{"mail":…,"history":[…]}`; for the owner |
//! | `POST /api/mails/{id}/redrive`, `DELETE /api/mails/{id}` | 200 and the mail, which was given up; for the owner |
//!
//! The owner is who sends `Authorization: Bearer TOKEN`.

use abide::{
    Env, Stub,
    server::{ApiError, UrlPath, UrlQuery},
};
use abide_patterns::json::JsonOnly;
use abide_patterns::outbox::{OutboxError, Record, Status};
use axum::{
    Json, Router,
    extract::{FromRequestParts, State, rejection::StringRejection},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    BINDING, Blog, BlogError, Invalid, MailDetails, Mailbox, NAME, NewComment, NewPost, Post,
    Posted, Site, Thread, Wanted,
    comment::slug,
    mails::comment_path,
    page::{self, Page},
};

/// Everything that the program answers.
pub fn router(env: Env) -> Router {
    let pages = Router::new()
        .route("/", get(front))
        .route("/posts/{post}", get(show))
        .route("/posts/{post}/comments", post(submit))
        .route("/unsubscribe", get(ask_unsubscribe).post(unsubscribe))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so);
    let api = Router::new()
        .route("/posts", get(posts))
        .route("/posts/{post}", get(read).put(publish))
        .route("/posts/{post}/comments", post(comment))
        .route("/mails", get(mails))
        .route("/mails/{id}", get(mail).delete(discard))
        .route("/mails/{id}/redrive", post(redrive))
        .fallback(no_resource);
    pages.nest("/api", api).with_state(env)
}

#[derive(Deserialize)]
struct PostPath {
    post: String,
}

#[derive(Deserialize)]
struct MailPath {
    id: i64,
}

#[derive(Deserialize)]
struct WantedMails {
    status: Option<Status>,
    before: Option<i64>,
}

#[derive(Deserialize)]
struct Link {
    // A mail program may have cut the link.
    #[serde(default)]
    token: String,
}

#[derive(Serialize)]
struct Posts {
    posts: Vec<Post>,
}

async fn nowhere() -> Trouble {
    ApiError::not_found("not_found", "There is no such page.").into()
}

async fn not_so() -> Trouble {
    let text = "This address is for the forms of pages.";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text).into()
}

async fn no_resource() -> ApiError {
    ApiError::not_found("not_found", "There is no such resource.")
}

async fn front(State(env): State<Env>) -> Result<Page, Trouble> {
    let posts = blog(&env)?.posts().await??;
    Ok(page::front(&*site(&env)?, &posts))
}

async fn show(
    State(env): State<Env>,
    InPage(UrlPath(path)): InPage<UrlPath<PostPath>>,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<Wanted>>,
) -> Result<Page, Trouble> {
    let thread = blog(&env)?.read(path.post, wanted).await??;
    let form = NewComment {
        mark: new_mark()?,
        ..NewComment::default()
    };
    Ok(page::thread(&*site(&env)?, &thread, &form, None))
}

async fn submit(
    State(env): State<Env>,
    InPage(UrlPath(path)): InPage<UrlPath<PostPath>>,
    body: Result<String, StringRejection>,
) -> Result<Response, Trouble> {
    let body = body.map_err(|why| ApiError::new(why.status(), "invalid_form", why.body_text()))?;
    let form: NewComment = serde_urlencoded::from_str(&body)
        .map_err(|error| BlogError::Invalid(Invalid::Form(error.to_string())))?;
    let blog = blog(&env)?;
    let taken = match form.clone().checked() {
        Ok(comment) => blog.comment(path.post.clone(), comment).await?,
        Err(invalid) => Err(invalid.into()),
    };
    match taken {
        Ok(Posted { id, .. }) => Ok(Redirect::to(&comment_path(&path.post, id)).into_response()),
        // What was typed stays on the page.
        Err(why @ (BlogError::Invalid(_) | BlogError::MarkReused)) => {
            let thread = blog.read(path.post, Wanted::default()).await??;
            let form = NewComment {
                mark: new_mark()?,
                ..form
            };
            let page = page::thread(&*site(&env)?, &thread, &form, Some(&why.to_string()));
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
        }
        Err(why) => Err(why.into()),
    }
}

async fn ask_unsubscribe(
    State(env): State<Env>,
    InPage(UrlQuery(link)): InPage<UrlQuery<Link>>,
) -> Result<Page, Trouble> {
    let post = blog(&env)?.followed(link.token.clone()).await??;
    Ok(page::unsubscribe(&*site(&env)?, &post, &link.token))
}

async fn unsubscribe(
    State(env): State<Env>,
    InPage(UrlQuery(link)): InPage<UrlQuery<Link>>,
) -> Result<Page, Trouble> {
    let blog = blog(&env)?;
    let post = blog.followed(link.token.clone()).await??;
    blog.unsubscribe(link.token).await??;
    Ok(page::unsubscribed(&*site(&env)?, &post))
}

async fn posts(State(env): State<Env>) -> Result<Json<Posts>, ApiError> {
    let posts = blog(&env)?.posts().await??;
    Ok(Json(Posts { posts }))
}

async fn read(
    State(env): State<Env>,
    UrlPath(path): UrlPath<PostPath>,
    UrlQuery(wanted): UrlQuery<Wanted>,
) -> Result<Json<Thread>, ApiError> {
    Ok(Json(blog(&env)?.read(path.post, wanted).await??))
}

async fn publish(
    _: Owner,
    State(env): State<Env>,
    UrlPath(path): UrlPath<PostPath>,
    JsonOnly(post): JsonOnly<NewPost>,
) -> Result<(StatusCode, Json<Post>), ApiError> {
    let slug = slug(&path.post).map_err(BlogError::from)?;
    let post = post.checked().map_err(BlogError::from)?;
    let post = blog(&env)?.publish(slug, post).await??;
    Ok((StatusCode::CREATED, Json(post)))
}

async fn comment(
    State(env): State<Env>,
    UrlPath(path): UrlPath<PostPath>,
    headers: HeaderMap,
    JsonOnly(mut comment): JsonOnly<NewComment>,
) -> Result<(StatusCode, Json<Posted>), ApiError> {
    if let Some(key) = headers.get("idempotency-key") {
        let key = key.to_str().map_err(|_| BlogError::from(Invalid::Mark))?;
        key.clone_into(&mut comment.mark);
    } else if comment.mark.is_empty() {
        comment.mark = new_mark()?;
    }
    let comment = comment.checked().map_err(BlogError::from)?;
    let posted = blog(&env)?.comment(path.post, comment).await??;
    let status = if posted.repeated {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(posted)))
}

async fn mails(
    _: Owner,
    State(env): State<Env>,
    UrlQuery(wanted): UrlQuery<WantedMails>,
) -> Result<Json<Mailbox>, ApiError> {
    let blog = blog(&env)?;
    Ok(Json(blog.mails(wanted.status, wanted.before).await??))
}

async fn mail(
    _: Owner,
    State(env): State<Env>,
    UrlPath(path): UrlPath<MailPath>,
) -> Result<Json<MailDetails>, ApiError> {
    Ok(Json(blog(&env)?.mail(path.id).await??))
}

async fn redrive(
    _: Owner,
    State(env): State<Env>,
    UrlPath(path): UrlPath<MailPath>,
) -> Result<Json<Record>, ApiError> {
    Ok(Json(blog(&env)?.redrive(path.id).await??))
}

async fn discard(
    _: Owner,
    State(env): State<Env>,
    UrlPath(path): UrlPath<MailPath>,
) -> Result<Json<Record>, ApiError> {
    Ok(Json(blog(&env)?.discard(path.id).await??))
}

fn blog(env: &Env) -> abide::Result<Stub<Blog>> {
    Ok(env.namespace::<Blog>(BINDING)?.get_by_name(NAME))
}

fn site(env: &Env) -> abide::Result<std::sync::Arc<Site>> {
    env.require()
}

/// A mark for a comment that has none yet.
fn new_mark() -> abide::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(abide::Error::from_std)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Somebody who knows the owner's token.
struct Owner;

impl FromRequestParts<Env> for Owner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, env: &Env) -> Result<Self, ApiError> {
        let site = site(env)?;
        let given = parts.headers.get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        // Hashes are compared, so the time it takes tells nothing of the token.
        let same = |wanted: &String| given.map(Sha256::digest) == Some(Sha256::digest(wanted));
        match &site.owner_token {
            None => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "no_owner",
                "This is for the blog's owner: start the blog with --owner-token.",
            )),
            Some(wanted) if same(wanted) => Ok(Self),
            Some(_) => Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "not_the_owner",
                "This is for the blog's owner: send the header Authorization: Bearer and the token.",
            )),
        }
    }
}

impl From<BlogError> for ApiError {
    fn from(error: BlogError) -> Self {
        let text = error.to_string();
        match error {
            BlogError::NoPost(_) => Self::not_found("no_such_post", text),
            BlogError::PostTaken(_) => Self::conflict("post_taken", text),
            BlogError::Invalid(_) => Self::bad_request("invalid", text),
            BlogError::MarkReused => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                text,
            ),
            BlogError::BadLink => Self::bad_request("bad_link", text),
            BlogError::Outbox(error) => refused(error),
            BlogError::Object(error) => error.into(),
        }
    }
}

fn refused(error: OutboxError) -> ApiError {
    let text = format!("{error}.");
    match error {
        OutboxError::Full { .. } => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "outbox_full", text).retry_soon()
        }
        OutboxError::NotFound { .. } => ApiError::not_found("no_such_mail", text),
        OutboxError::Conflict { .. } => ApiError::conflict("mail_conflict", text),
        OutboxError::Invalid(_)
        | OutboxError::KeyReused { .. }
        | OutboxError::ClosedKind { .. } => ApiError::bad_request("invalid", text),
        OutboxError::Object(error) => error.into(),
    }
}

/// An [`ApiError`] for people: a page.
struct Trouble(ApiError);

impl<E: Into<ApiError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        (self.0.status(), page::trouble(self.0.message())).into_response()
    }
}

/// A part of the request for a page: if it makes no sense, a page says so.
struct InPage<T>(T);

impl<S, T> FromRequestParts<S> for InPage<T>
where
    S: Send + Sync,
    T: FromRequestParts<S, Rejection = ApiError>,
{
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        Ok(Self(T::from_request_parts(parts, state).await?))
    }
}
