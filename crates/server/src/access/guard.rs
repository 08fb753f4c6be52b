//! Admits a request if its caller is authorized to send it.

use std::{
    fmt,
    future::Future,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use abide_runtime::{
    Env,
    creation::{self, Creator},
};
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{
    HeaderValue, StatusCode,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
    request::Parts,
};
use tokio::{runtime::Handle, task::JoinHandle};

use super::{
    AccessError, AccessStore, Caller, CreatedToken, LocalUser, Need, NewToken, Operation, Route,
    Token,
    lease::{self, Lease},
    protect,
    store::Look,
    token,
};
use crate::{ApiError, ClientAddr, client::Rate, extract::read_whole, limits};

/// The ways to send a token.
const LOGINS: [&str; 2] = [
    "Bearer realm=\"abide\"",
    "Basic realm=\"abide\", charset=\"UTF-8\"",
];

/// The outcome of an operation whose client did not wait for the answer.
const GONE: &str = "gone";

/// A program's own check of a caller.
pub(crate) type Authorize = dyn Fn(&Parts, &Need) -> Result<Caller, ApiError> + Send + Sync;

/// The access control of a host: [`Access::of`] a host's [`Env`], it protects routes of the host's router.
///
/// ```
/// use abide_server::access::{Access, Need};
/// use axum::{Router, routing::get};
///
/// # fn router(env: abide_runtime::Env) -> Router {
/// let router = Router::new().route("/rooms/{name}", get(async || "…"));
/// Access::of(&env).protect(router, |route| Need::by_method(route.method).object("Room", route.param("name")))
/// # }
/// ```
#[derive(Clone)]
pub struct Access {
    shared: Arc<Shared>,
    /// Whether anyone who reaches the listener may call.
    open: bool,
}

struct Shared {
    store: AccessStore,
    /// The invalid tokens of each client.
    failures: Rate<IpAddr>,
    authorize: Option<Box<Authorize>>,
    protects: AtomicBool,
    /// The rate of requests, for each token.
    rate: Option<Rate<u64>>,
    /// The time limit for a body that is written into the audit log.
    body_timeout: Duration,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// `requests_per_token`: per second.
    pub(crate) fn new(
        store: AccessStore,
        authorize: Option<Box<Authorize>>,
        open: bool,
        requests_per_token: Option<usize>,
        body_timeout: Duration,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                failures: Rate::new(limits::FAILED_LOGINS, Duration::from_mins(1), 1),
                authorize,
                protects: AtomicBool::new(false),
                rate: requests_per_token.map(Rate::per_second),
                body_timeout,
            }),
            open,
        }
    }

    /// The access control of the host that has this `Env`.
    ///
    /// # Panics
    ///
    /// If no host has started these objects.
    pub fn of(env: &Env) -> Self {
        let access = env.get::<Self>();
        (*access.expect("a host shares its access control with its objects")).clone()
    }

    /// The same tokens for another listener.
    pub(crate) fn with_open(&self, open: bool) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            open,
        }
    }

    /// Whether some route is protected by tokens, but no token is valid.
    pub(crate) fn has_no_valid_token(&self) -> Result<bool, AccessError> {
        let needs_token = !self.open
            && self.shared.authorize.is_none()
            && self.shared.protects.load(Ordering::Relaxed);
        Ok(needs_token && !self.shared.store.has_valid_token()?)
    }

    /// Creates a token: of a role, for every object and without an end, or as [`NewToken`] says. Its
    /// [`text`](CreatedToken::text) is what its holder sends. A test of protected routes begins with it.
    pub fn create_token(&self, new: impl Into<NewToken>) -> Result<CreatedToken, AccessError> {
        self.shared.store.create_token(new.into())
    }

    /// Tokens and the audit log.
    pub fn store(&self) -> &AccessStore {
        &self.shared.store
    }

    /// Protects every route that the router has now. `need` returns the permissions required for a route.
    pub fn protect(
        &self,
        router: Router,
        need: impl Fn(&Route<'_>) -> Need + Send + Sync + 'static,
    ) -> Router {
        self.shared.protects.store(true, Ordering::Relaxed);
        let access = self.clone();
        protect(router, move || Ok(access.clone()), need)
    }

    /// Answers a request if its caller is authorized.
    pub(super) async fn answer(&self, need: Need, request: Request, next: Next) -> Response {
        let (mut parts, body) = request.into_parts();
        let caller = match self.caller(&parts, &need) {
            Ok(caller) => caller,
            Err(refused) => return self.refusal(refused),
        };
        let allowed = self.count(&caller).and_then(|()| need.check(&caller));
        if let Err(refused) = allowed {
            return refused.into_response();
        }
        let token = caller.token_number();
        let client = client(&parts);
        parts.extensions.insert(caller.clone());
        let response = match need.action {
            None => run(next, Request::from_parts(parts, body), token).await,
            Some(action) => {
                let (detail, body) = match self.read_detail(&need, body).await {
                    Ok(read) => read,
                    Err(refused) => return refused.into_response(),
                };
                let operation = Operation {
                    who: caller.to_string(),
                    client,
                    action: action.to_owned(),
                    object: need.object.map(|object| object.to_string()),
                    detail,
                };
                if is_too_long(&operation) {
                    return path_too_long().into_response();
                }
                let request = Request::from_parts(parts, body);
                self.audited(operation, run(next, request, token)).await
            }
        };
        self.leased(&caller, response)
    }

    /// What a token has opened ends with it.
    fn leased(&self, caller: &Caller, response: Response) -> Response {
        match caller.token_id() {
            Some(id) => lease::leased(response, || Lease::new(self.clone(), id)),
            None => response,
        }
    }

    /// Runs an operation as a row of the audit log: for programs that authenticate callers themselves. The row is on
    /// disk before the operation begins, and its outcome is recorded afterwards. If the row cannot be written, the
    /// answer is 503 `audit_failed`, and the operation does not run.
    pub async fn audited(
        &self,
        operation: Operation,
        run: impl Future<Output = Response>,
    ) -> Response {
        let access = self.clone();
        let open = match blocking(move || OpenRow::begin(access, &operation)).await {
            Ok(open) => open,
            Err(error) => {
                tracing::error!(%error, "cannot write the audit log; rejected an operation");
                return ApiError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "audit_failed",
                    "The audit log cannot be written, so nothing was changed; the server's log has the details.",
                )
                .into_response();
            }
        };
        let response = run.await;
        open.end(response.status().as_str()).await;
        response
    }

    fn caller(&self, parts: &Parts, need: &Need) -> Result<Caller, ApiError> {
        if let Some(ConnectInfo(user)) = parts.extensions.get::<ConnectInfo<LocalUser>>() {
            return Ok(Caller::local(*user));
        }
        if self.open {
            return Ok(Caller::anyone());
        }
        if let Some(authorize) = &self.shared.authorize {
            return authorize(parts, need);
        }
        let Some(text) = credentials(parts) else {
            return Err(unauthorized(
                "token_missing",
                "A token is required: send `Authorization: Bearer TOKEN`, or the token as a password. `abide token create` creates one.",
            ));
        };
        let client = ClientAddr::of(&parts.extensions).network();
        let now = Instant::now();
        // A valid token passes whatever others have sent from this address.
        let wait = self.shared.failures.wait(client, now);
        let look = match wait {
            None => Look::Anew,
            Some(_) => Look::InMemory,
        };
        match (self.check_token(&text, look), wait) {
            (Err(refused), _) if refused.status() != StatusCode::UNAUTHORIZED => Err(refused),
            (Err(_), Some(wait)) => Err(ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_failures",
                "Too many invalid tokens were sent from this address; wait for the time in `Retry-After`.",
            )
            .retry_after(wait)),
            (Err(refused), None) => {
                // That one was available is known.
                let _ = self.shared.failures.take(client, now);
                Err(refused)
            }
            (valid, _) => valid,
        }
    }

    /// The details of a row, and the body, which may have been read for them.
    async fn read_detail(
        &self,
        need: &Need,
        body: Body,
    ) -> Result<(Option<String>, Body), ApiError> {
        if !need.with_body {
            return Ok((need.detail.clone(), body));
        }
        let patience = self.shared.body_timeout;
        let bytes = read_whole(body, limits::MAX_AUDIT_DETAIL, patience).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = Some(text).filter(|text| !text.is_empty());
        Ok((text, Body::from(bytes)))
    }

    /// Counts a request with a token; rejects it if it exceeds the limit.
    fn count(&self, caller: &Caller) -> Result<(), ApiError> {
        let (Some(rate), Some(token)) = (&self.shared.rate, caller.token_number()) else {
            return Ok(());
        };
        let admitted = rate.take(token, Instant::now());
        admitted.map_err(|wait| {
            ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                "Too many requests were sent with this token (limit: the setting server.requests_per_token). Wait for the time in \
                 `Retry-After`.",
            )
            .retry_after(wait)
        })
    }

    /// The response to an unauthorized caller, with the ways to log in.
    fn refusal(&self, refused: ApiError) -> Response {
        let wants_token =
            refused.status() == StatusCode::UNAUTHORIZED && self.shared.authorize.is_none();
        let mut response = refused.into_response();
        if wants_token {
            for scheme in LOGINS {
                let headers = response.headers_mut();
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
            }
        }
        response
    }

    fn check_token(&self, text: &str, look: Look) -> Result<Caller, ApiError> {
        let wrong = || unauthorized("token_invalid", "There is no such token.");
        let (id, secret) = token::parse(text).ok_or_else(wrong)?;
        let found = self.shared.store.find(id, look).map_err(|error| {
            tracing::error!(%error, "cannot read the tokens");
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "tokens_unavailable",
                "The tokens cannot be read; the server's log has the details.",
            )
        })?;
        let stored = found
            .filter(|stored| stored.hash.is_of(&secret))
            .ok_or_else(wrong)?;
        let token = &stored.token;
        if token.revoked.is_some() {
            return Err(unauthorized("token_revoked", "This token was revoked."));
        }
        if has_expired(token) {
            return Err(unauthorized("token_expired", "This token has expired."));
        }
        Ok(Caller::token(token))
    }
}

fn has_expired(token: &Token) -> bool {
    token.expires.is_some_and(|at| at <= SystemTime::now())
}

/// A row of the audit log whose operation is running. If its client does not wait for the answer, the row records that: from the moment
/// at which it is written, since the client can be gone by then.
struct OpenRow {
    access: Access,
    id: Option<i64>,
}

impl OpenRow {
    /// Blocks.
    fn begin(access: Access, operation: &Operation) -> Result<Self, AccessError> {
        let id = Some(access.store().begin(operation)?);
        Ok(Self { access, id })
    }

    async fn end(mut self, outcome: &str) {
        if let Some(recording) = self.record(outcome) {
            // It logs its errors.
            let _ = recording.await;
        }
    }

    /// Begins to record the outcome, once. `None` outside of a runtime.
    fn record(&mut self, outcome: &str) -> Option<JoinHandle<()>> {
        let id = self.id.take()?;
        let runtime = Handle::try_current().ok()?;
        let (access, outcome) = (self.access.clone(), outcome.to_owned());
        Some(runtime.spawn_blocking(move || {
            if let Err(error) = access.store().end(id, &outcome) {
                tracing::error!(%error, id, "cannot record the outcome of an operation in the audit log");
            }
        }))
    }
}

impl Drop for OpenRow {
    fn drop(&mut self) {
        self.record(GONE);
    }
}

/// Runs the request on behalf of the caller's token if created objects are counted.
async fn run(next: Next, request: Request, token: Option<u64>) -> Response {
    match creation::creator() {
        Some(creator) if token.is_some() => {
            let creator = Creator { token, ..creator };
            creation::asked_by(creator, next.run(request)).await
        }
        _ => next.run(request).await,
    }
}

/// Whether an operation exceeds the maximum size of a row.
fn is_too_long(operation: &Operation) -> bool {
    let texts = [&operation.object, &operation.detail];
    texts
        .into_iter()
        .flatten()
        .any(|text| text.len() > limits::MAX_AUDIT_DETAIL)
}

fn path_too_long() -> ApiError {
    ApiError::new(
        StatusCode::URI_TOO_LONG,
        "path_too_long",
        format!(
            "In the path of a change, the object and the operation may have at most {} bytes each.",
            limits::MAX_AUDIT_DETAIL
        ),
    )
}

/// The token of a request: sent as a bearer token, or as the password of a browser's login.
fn credentials(parts: &Parts) -> Option<String> {
    let mut sent = parts.headers.get_all(AUTHORIZATION).iter();
    let (sent, None) = (sent.next()?.to_str().ok()?, sent.next()) else {
        return None;
    };
    let (scheme, value) = sent.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let login = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
    login.split_once(':').map(|(_, token)| token.to_owned())
}

/// The client as recorded in the audit log.
fn client(parts: &Parts) -> String {
    if parts.extensions.get::<ConnectInfo<LocalUser>>().is_some() {
        "local".to_owned()
    } else {
        ClientAddr::of(&parts.extensions).0.to_string()
    }
}

fn unauthorized(code: &'static str, message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, code, message)
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, AccessError> + Send + 'static,
) -> Result<R, AccessError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
