//! The pages and the JSON API.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /`, `GET /posts/{post}?before=ID`, `GET /posts/{post}?with=ID` | pages |
//! | `POST /posts/{post}/comments`, a form | 303 to the comment, or the page with an error |
//! | `GET /confirm?token=…`, `POST` | a page with a button; `POST` begins the subscriptions |
//! | `GET /unsubscribe?token=…` | a page with a button |
//! | `POST /unsubscribe?token=…` | ends the subscription; also what mail programs send ([RFC 8058](https://www.rfc-editor.org/rfc/rfc8058)) |
//! | `GET /owner` | the failed mails, to be sent again or discarded; for the owner, who enters the token there |
//! | `GET /api/posts` | 200 and `{"posts":[…]}` |
//! | `GET /api/posts/{post}?before=ID`, also `?with=ID` | 200 and `{"post":…,"comments":[…],"older":…,"newest":true}` |
//! | `POST /api/posts/{post}/comments` with `{"name":"…","email":"…","text":"…"}` | 201 and `{"id":1,"repeated":false}`; 200 if its `Idempotency-Key` was used before |
//! | `PUT /api/posts/{post}` with `{"title":"…","text":"…","author":{"name":"…","email":"…"}}` | 201; for the owner. The author, who is optional, follows the post |
//! | `DELETE /api/posts/{post}/comments/{id}` | 204; for the owner. Mails about the comment that were not sent yet are not sent |
//! | `GET /api/mails?status=failed&before=ID` | 200 and `{"counts":…,"destinations":[…],"mails":[…],"next":…}`; for the owner |
//! | `GET /api/thanks?before=ID` | 200 and `{"thanks":[{"member":1,"name":"…","email":"…","state":"sent","since":…,"error":null}],"next":…}`: the thank-you mail of each member, those of the newest first; for the owner |
//! | `GET /api/mails/{id}` | 200 and `{"mail":…,"history":[…]}`; for the owner |
//! | `POST /api/mails/{id}/redrive`, `DELETE /api/mails/{id}` | 200 and the mail, which had failed; for the owner |
//!
//! The owner sends `Authorization: Bearer TOKEN`. A client that comments too often, or sends too many wrong tokens,
//! gets 429 with `Retry-After`: see [`limits`](crate::limits).

use abide::outbox::{OutboxError, Status};
use abide::{
    Env, Stub,
    server::{
        ApiError, JsonBody, UrlPath, UrlQuery,
        access::{Access, Need, Operation},
    },
};
use axum::{
    Json, Router,
    extract::{FromRequestParts, rejection::StringRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
    routing::{delete, get, post, put},
};
use serde::{Deserialize, Serialize};

use crate::{
    Blog, BlogError, Invalid, MailDetails, Mailbox, NAME, NewComment, NewPost, Post, Posted, Site,
    ThankYou, Thread, Wanted,
    comment::slug,
    mails::comment_path,
    owner::{self, Client, Owner, Session},
    page::{self, Page},
};

/// The program's routes. The readers' routes are open to any caller; the links in mails and the owner's routes have
/// their own tokens.
pub fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let for_readers = |routes: Router<Env>, env: &Env| {
        access.protect(routes.with_state(env.clone()), |route| {
            Need::by_method(route.method).object("Blog", NAME)
        })
    };
    let pages = Router::new()
        .route("/", get(front))
        .route("/posts/{post}", get(show))
        .route("/posts/{post}/comments", post(submit))
        .method_not_allowed_fallback(not_so);
    let own_pages = Router::new()
        .route("/confirm", get(ask_confirm).post(confirm))
        .route("/unsubscribe", get(ask_unsubscribe).post(unsubscribe))
        .route("/owner", get(given_up))
        .route("/owner/session", post(begin_session))
        .route("/owner/leave", post(leave))
        .route("/owner/redrive", post(owner_redrive_all))
        .route("/owner/discard", post(owner_discard_all))
        .route("/owner/mails/{id}/redrive", post(owner_redrive))
        .route("/owner/mails/{id}/discard", post(owner_discard))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so);
    let api = Router::new()
        .route("/posts", get(posts))
        .route("/posts/{post}", get(read))
        .route("/posts/{post}/comments", post(comment));
    let own_api = Router::new()
        .route("/posts/{post}", put(publish))
        .route("/posts/{post}/comments/{id}", delete(remove))
        .route("/mails", get(mails))
        .route("/thanks", get(thanks))
        .route("/mails/{id}", get(mail).delete(discard))
        .route("/mails/{id}/redrive", post(redrive))
        .fallback(no_resource);
    let (pages, api) = (for_readers(pages, &env), for_readers(api, &env));
    let own_pages = own_pages.with_state(env.clone()).merge(pages);
    let api = own_api.with_state(env).merge(api);
    own_pages.nest("/api", api)
}

#[derive(Deserialize)]
struct PostPath {
    post: String,
}

#[derive(Deserialize)]
struct CommentPath {
    post: String,
    id: i64,
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
struct Before {
    before: Option<i64>,
}

#[derive(Deserialize)]
struct TypedToken {
    token: String,
}

#[derive(Deserialize)]
struct Link {
    // A mail program may have cut the link.
    #[serde(default)]
    token: String,
}

#[derive(Serialize)]
struct AllThanks {
    thanks: Vec<ThankYou>,
    next: Option<i64>,
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

async fn no_resource() -> Refusal {
    ApiError::not_found("not_found", "There is no such resource.").into()
}

async fn front(env: Env) -> Result<Page, Trouble> {
    let posts = blog(&env)?.posts().await?;
    Ok(page::front(&*site(&env)?, &posts))
}

async fn show(
    env: Env,
    InPage(UrlPath(path)): InPage<UrlPath<PostPath>>,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<Wanted>>,
) -> Result<Page, Trouble> {
    let thread = blog(&env)?.read(path.post, wanted).await?;
    let form = NewComment {
        mark: new_mark()?,
        ..NewComment::default()
    };
    Ok(page::thread(&*site(&env)?, &thread, &form, None))
}

async fn submit(
    env: Env,
    InPage(UrlPath(path)): InPage<UrlPath<PostPath>>,
    Client(client): Client,
    body: Result<String, StringRejection>,
) -> Result<Response, Trouble> {
    let form: NewComment = form(body)?;
    let blog = blog(&env)?;
    let taken = match form.clone().checked() {
        Ok(comment) => blog.comment(path.post.clone(), comment, client).await,
        Err(invalid) => Err(invalid.into()),
    };
    match taken {
        Ok(Posted { id, .. }) => Ok(Redirect::to(&comment_path(&path.post, id)).into_response()),
        // The form keeps what was typed.
        Err(why @ (BlogError::Invalid(_) | BlogError::MarkReused | BlogError::TooMany { .. })) => {
            let thread = blog.read(path.post, Wanted::default()).await?;
            let form = NewComment {
                mark: new_mark()?,
                ..form
            };
            let page = page::thread(&*site(&env)?, &thread, &form, Some(&why.to_string()));
            let Refusal { error, after } = why.into();
            let status = match after {
                Some(_) => error.status(),
                None => StatusCode::UNPROCESSABLE_ENTITY,
            };
            Ok(with_retry_after((status, page).into_response(), after))
        }
        Err(why) => Err(why.into()),
    }
}

async fn ask_confirm(
    env: Env,
    Client(client): Client,
    InPage(UrlQuery(link)): InPage<UrlQuery<Link>>,
) -> Result<Page, Trouble> {
    let posts = blog(&env)?.waiting(link.token.clone(), client).await?;
    Ok(page::confirm(&*site(&env)?, &posts, &link.token))
}

async fn confirm(
    env: Env,
    Client(client): Client,
    InPage(UrlQuery(link)): InPage<UrlQuery<Link>>,
) -> Result<Page, Trouble> {
    let posts = blog(&env)?.confirm(link.token, client).await?;
    Ok(page::confirmed(&*site(&env)?, &posts))
}

async fn ask_unsubscribe(
    env: Env,
    Client(client): Client,
    InPage(UrlQuery(link)): InPage<UrlQuery<Link>>,
) -> Result<Page, Trouble> {
    let post = blog(&env)?.followed(link.token.clone(), client).await?;
    Ok(page::unsubscribe(&*site(&env)?, &post, &link.token))
}

async fn unsubscribe(
    env: Env,
    Client(client): Client,
    InPage(UrlQuery(link)): InPage<UrlQuery<Link>>,
) -> Result<Page, Trouble> {
    let blog = blog(&env)?;
    let post = blog.followed(link.token.clone(), client.clone()).await?;
    blog.unsubscribe(link.token, client).await?;
    Ok(page::unsubscribed(&*site(&env)?, &post))
}

/// The owner's page, or the form that asks for the token.
async fn given_up(
    session: Result<Session, Refusal>,
    env: Env,
    InPage(UrlQuery(wanted)): InPage<UrlQuery<Before>>,
) -> Result<Response, Trouble> {
    if let Err(refusal) = session {
        return log_in(&env, refusal, false);
    }
    let blog = blog(&env)?;
    let (counts, mails, next) = blog.given_up(wanted.before).await?;
    let (thanks, _) = blog.thanks(None).await?;
    Ok(page::owner(&*site(&env)?, &counts, &mails, next, &thanks).into_response())
}

async fn begin_session(
    env: Env,
    client: Client,
    body: Result<String, StringRejection>,
) -> Result<Response, Trouble> {
    let TypedToken { token } = form(body)?;
    match owner::begin_session(&env, token.trim(), client).await {
        Ok(cookie) => Ok(to_owner_page(Some(cookie))),
        Err(refusal) => log_in(&env, refusal, true),
    }
}

async fn leave(env: Env) -> Result<Response, Trouble> {
    Ok(to_owner_page(Some(owner::end_session(&*site(&env)?))))
}

async fn owner_redrive(
    _: Session,
    env: Env,
    client: Client,
    InPage(UrlPath(path)): InPage<UrlPath<MailPath>>,
) -> Response {
    let about = format!("message {}", path.id);
    let redriven = async || -> Result<_, Trouble> {
        blog(&env)?.redrive(path.id).await?;
        Ok(to_owner_page(None))
    };
    by_owner(&env, client, "redrive", Some(about), redriven()).await
}

async fn owner_discard(
    _: Session,
    env: Env,
    client: Client,
    InPage(UrlPath(path)): InPage<UrlPath<MailPath>>,
) -> Response {
    let about = format!("message {}", path.id);
    let discarded = async || -> Result<_, Trouble> {
        blog(&env)?.discard(path.id).await?;
        Ok(to_owner_page(None))
    };
    by_owner(&env, client, "discard", Some(about), discarded()).await
}

async fn owner_redrive_all(_: Session, env: Env, client: Client) -> Response {
    let redriven = async || -> Result<_, Trouble> {
        blog(&env)?.redrive_all().await?;
        Ok(to_owner_page(None))
    };
    by_owner(&env, client, "redrive", None, redriven()).await
}

async fn owner_discard_all(_: Session, env: Env, client: Client) -> Response {
    let discarded = async || -> Result<_, Trouble> {
        blog(&env)?.discard_all().await?;
        Ok(to_owner_page(None))
    };
    by_owner(&env, client, "discard", None, discarded()).await
}

/// Runs an owner's operation as a row of the audit log.
async fn by_owner<R: IntoResponse, E: IntoResponse>(
    env: &Env,
    Client(client): Client,
    action: &str,
    about: Option<String>,
    run: impl Future<Output = Result<R, E>>,
) -> Response {
    let operation = Operation {
        who: "owner of the blog".to_owned(),
        client,
        action: action.to_owned(),
        object: Some(format!("Blog/{NAME}")),
        detail: about,
    };
    let run = async { run.await.into_response() };
    Access::of(env).audited(operation, run).await
}

fn to_owner_page(cookie: Option<String>) -> Response {
    let mut response = Redirect::to("/owner").into_response();
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// The form that asks for the owner's token; after a wrong one it says so. Other errors are returned unchanged.
fn log_in(env: &Env, refusal: Refusal, typed: bool) -> Result<Response, Trouble> {
    if refusal.error.status() != StatusCode::UNAUTHORIZED {
        return Err(refusal.into());
    }
    let page = page::log_in(&*site(env)?, typed);
    Ok((StatusCode::UNAUTHORIZED, page).into_response())
}

fn form<T: for<'a> Deserialize<'a>>(body: Result<String, StringRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|why| ApiError::new(why.status(), "invalid_form", why.body_text()))?;
    serde_urlencoded::from_str(&body)
        .map_err(|error| BlogError::Invalid(Invalid::Form(error.to_string())).into())
}

async fn posts(env: Env) -> Result<Json<Posts>, Refusal> {
    let posts = blog(&env)?.posts().await?;
    Ok(Json(Posts { posts }))
}

async fn read(
    env: Env,
    UrlPath(path): UrlPath<PostPath>,
    UrlQuery(wanted): UrlQuery<Wanted>,
) -> Result<Json<Thread>, Refusal> {
    Ok(Json(blog(&env)?.read(path.post, wanted).await?))
}

async fn publish(
    _: Owner,
    env: Env,
    UrlPath(path): UrlPath<PostPath>,
    JsonBody(post): JsonBody<NewPost>,
) -> Result<(StatusCode, Json<Post>), Refusal> {
    let slug = slug(&path.post).map_err(BlogError::from)?;
    let post = post.checked().map_err(BlogError::from)?;
    let post = blog(&env)?.publish(slug, post).await?;
    Ok((StatusCode::CREATED, Json(post)))
}

async fn comment(
    env: Env,
    UrlPath(path): UrlPath<PostPath>,
    Client(client): Client,
    headers: HeaderMap,
    JsonBody(mut comment): JsonBody<NewComment>,
) -> Result<(StatusCode, Json<Posted>), Refusal> {
    if let Some(key) = headers.get("idempotency-key") {
        let key = key.to_str().map_err(|_| BlogError::from(Invalid::Mark))?;
        key.clone_into(&mut comment.mark);
    } else if comment.mark.is_empty() {
        comment.mark = new_mark()?;
    }
    let comment = comment.checked().map_err(BlogError::from)?;
    let posted = blog(&env)?.comment(path.post, comment, client).await?;
    let status = if posted.repeated {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(posted)))
}

async fn remove(
    _: Owner,
    env: Env,
    client: Client,
    UrlPath(path): UrlPath<CommentPath>,
) -> Response {
    let about = Some(format!("comment {}", path.id));
    let removed = async || -> Result<_, Refusal> {
        blog(&env)?.remove(path.post, path.id).await?;
        Ok(StatusCode::NO_CONTENT)
    };
    by_owner(&env, client, "remove", about, removed()).await
}

async fn mails(
    _: Owner,
    env: Env,
    UrlQuery(wanted): UrlQuery<WantedMails>,
) -> Result<Json<Mailbox>, Refusal> {
    let blog = blog(&env)?;
    Ok(Json(blog.mails(wanted.status, wanted.before).await?))
}

async fn thanks(
    _: Owner,
    env: Env,
    UrlQuery(Before { before }): UrlQuery<Before>,
) -> Result<Json<AllThanks>, Refusal> {
    let (thanks, next) = blog(&env)?.thanks(before).await?;
    Ok(Json(AllThanks { thanks, next }))
}

async fn mail(
    _: Owner,
    env: Env,
    UrlPath(path): UrlPath<MailPath>,
) -> Result<Json<MailDetails>, Refusal> {
    Ok(Json(blog(&env)?.mail(path.id).await?))
}

async fn redrive(_: Owner, env: Env, client: Client, UrlPath(path): UrlPath<MailPath>) -> Response {
    let about = format!("message {}", path.id);
    let redriven = async || -> Result<_, Refusal> { Ok(Json(blog(&env)?.redrive(path.id).await?)) };
    by_owner(&env, client, "redrive", Some(about), redriven()).await
}

async fn discard(_: Owner, env: Env, client: Client, UrlPath(path): UrlPath<MailPath>) -> Response {
    let about = format!("message {}", path.id);
    let discarded =
        async || -> Result<_, Refusal> { Ok(Json(blog(&env)?.discard(path.id).await?)) };
    by_owner(&env, client, "discard", Some(about), discarded()).await
}

pub(crate) fn blog(env: &Env) -> abide::Result<Stub<Blog>> {
    Ok(env.try_object::<Blog>()?.get_by_name(NAME))
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

/// An error response, and the seconds for `Retry-After` of a rate limit.
#[derive(Debug)]
pub(crate) struct Refusal {
    error: ApiError,
    after: Option<u64>,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { error, after: None }
    }
}

impl From<abide::Error> for Refusal {
    fn from(error: abide::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl From<BlogError> for Refusal {
    fn from(error: BlogError) -> Self {
        let text = error.to_string();
        let error = match error {
            BlogError::TooMany { seconds, .. } => {
                return Self {
                    error: ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many", text),
                    after: Some(seconds),
                };
            }
            BlogError::NoPost(_) => ApiError::not_found("no_such_post", text),
            BlogError::NoComment(_) => ApiError::not_found("no_such_comment", text),
            BlogError::PostTaken(_) => ApiError::conflict("post_taken", text),
            BlogError::Invalid(_) => ApiError::bad_request("invalid", text),
            BlogError::MarkReused => ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                text,
            ),
            BlogError::BadLink => ApiError::bad_request("bad_link", text),
            BlogError::OldLink => ApiError::new(StatusCode::GONE, "old_link", text),
            BlogError::Outbox(error) => refused(error),
            BlogError::Object(error) => error.into(),
        };
        error.into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        with_retry_after(self.error.into_response(), self.after)
    }
}

fn with_retry_after(mut response: Response, after: Option<u64>) -> Response {
    if let Some(after) = after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, after.into());
    }
    response
}

fn refused(error: OutboxError) -> ApiError {
    let text = format!("{error}.");
    match error {
        OutboxError::Full { .. } => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "outbox_full", text).retry_soon()
        }
        OutboxError::NotFound { .. } => ApiError::not_found("no_such_mail", text),
        OutboxError::Conflict { .. } => ApiError::conflict("mail_conflict", text),
        OutboxError::Object(error) => error.into(),
        _ => ApiError::bad_request("invalid", text),
    }
}

/// A [`Refusal`] as a page.
struct Trouble(Refusal);

impl<E: Into<Refusal>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let Refusal { error, after } = self.0;
        let page = page::trouble(error.message());
        with_retry_after((error.status(), page).into_response(), after)
    }
}

/// A part of the request for a page: if it is invalid, an error page is returned.
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
