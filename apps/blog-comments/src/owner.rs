//! The owner: a client with the token, in a header, or in a form that starts a browser session.

use abide::{
    Env,
    server::{ApiError, ClientAddr},
};
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{
    Site,
    budget::millis,
    http::{Refusal, blog},
    limits, token,
};

/// The session's cookie.
const COOKIE: &str = "owner";

/// A client that sends the owner's token with each request.
pub(crate) struct Owner;

/// A browser session that was started with the owner's token.
pub(crate) struct Session;

/// The origin of a request, for rate limits: an address, or a household's network (IPv6, /64).
#[derive(Clone)]
pub(crate) struct Client(pub(crate) String);

impl FromRequestParts<Env> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, env: &Env) -> Result<Self, Refusal> {
        let given = parts.headers.get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let given = given.unwrap_or_default().to_owned();
        let client = Client::from_request_parts(parts, env).await?;
        check(env, &given, client).await?;
        Ok(Self)
    }
}

impl FromRequestParts<Env> for Session {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, env: &Env) -> Result<Self, Refusal> {
        let site = env.require::<Site>()?;
        let owner = site.owner_token.as_deref().ok_or_else(no_owner)?;
        let Some(given) = cookie(&parts.headers) else {
            return Err(not_the_owner().into());
        };
        let until = token::session_until(given, owner);
        let client = Client::from_request_parts(parts, env).await?;
        blog(env)?.shown_token(until.is_some(), client.0).await?;
        if until.is_some_and(|until| until > now(env)) {
            Ok(Self)
        } else {
            Err(not_the_owner().into())
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Ok(client) = ClientAddr::from_request_parts(parts, state).await;
        Ok(Self(client.network().to_string()))
    }
}

/// Starts a session for a client with the token; returns the `Set-Cookie` header.
pub(crate) async fn begin_session(
    env: &Env,
    given: &str,
    client: Client,
) -> Result<String, Refusal> {
    let site = check(env, given, client).await?;
    let owner = site.owner_token.as_deref().ok_or_else(no_owner)?;
    let until = now(env).saturating_add(millis(limits::SESSION));
    let token = token::session(until, owner);
    Ok(set_cookie(&site, &token, limits::SESSION.as_secs()))
}

/// Ends a session; returns the `Set-Cookie` header.
pub(crate) fn end_session(site: &Site) -> String {
    set_cookie(site, "", 0)
}

async fn check(
    env: &Env,
    given: &str,
    Client(client): Client,
) -> Result<std::sync::Arc<Site>, Refusal> {
    let site = env.require::<Site>()?;
    let wanted = site.owner_token.as_deref().ok_or_else(no_owner)?;
    // An empty token is not a guess.
    if given.is_empty() {
        return Err(not_the_owner().into());
    }
    let right = same(given, wanted);
    blog(env)?.shown_token(right, client).await?;
    if right {
        Ok(site)
    } else {
        Err(not_the_owner().into())
    }
}

/// Constant-time comparison, which reveals only the length of the second text.
fn same(given: &str, wanted: &str) -> bool {
    let mac = |text: &str| {
        let mac = Hmac::<Sha256>::new_from_slice(wanted.as_bytes());
        mac.expect("HMAC takes keys of any length")
            .chain_update(text)
    };
    let wanted = mac(wanted).finalize().into_bytes();
    mac(given).verify(&wanted).is_ok()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut cookies = cookies.filter_map(|value| value.to_str().ok());
    cookies.find_map(|cookies| {
        let mut pairs = cookies
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| (name == COOKIE).then_some(value))
    })
}

fn set_cookie(site: &Site, value: &str, seconds: u64) -> String {
    let secure = if site.url.starts_with("https://") {
        "; Secure"
    } else {
        ""
    };
    format!("{COOKIE}={value}; Path=/owner; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn now(env: &Env) -> i64 {
    env.now().unix_millis()
}

fn no_owner() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "no_owner",
        "This is for the blog's owner: start the blog with --owner-token-file.",
    )
}

fn not_the_owner() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "not_the_owner",
        "This is for the blog's owner: send the header Authorization: Bearer and the token.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_is_the_same() {
        assert!(same("secret", "secret"));
        for other in ["", "secre", "secret ", "Secret"] {
            assert!(!same(other, "secret"), "{other:?}");
        }
    }
}
