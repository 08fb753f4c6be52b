//! Redirects.
//!
//! Contract: at most `outbound.max_redirects` are followed, to HTTP URLs only, and none of a request with
//! [`NoRedirects`](abide_runtime::NoRedirects). From another origin on, the server gets no credentials. A body that
//! cannot be repeated is not: if a redirect asks for it, the redirect itself is the response.

use abide_runtime::{Body, Error, ErrorKind};
use bytes::Bytes;
use http::{Request, Uri, header};
use tower_http::follow_redirect::policy::{Action, Attempt, Policy};

/// Decides on the redirects of one request.
#[derive(Clone)]
pub(super) struct Redirects {
    max: usize,
    followed: usize,
    /// Whether a redirect has led to another origin.
    has_left: bool,
    /// The request's body, if it can be repeated.
    whole: Option<Bytes>,
}

impl Redirects {
    pub(super) fn new(max: usize, whole: Option<Bytes>) -> Self {
        Self {
            max,
            followed: 0,
            has_left: false,
            whole,
        }
    }
}

impl Policy<Body, Error> for Redirects {
    fn redirect(&mut self, attempt: &Attempt<'_>) -> Result<Action, Error> {
        if self.max == 0 {
            return Ok(Action::Stop);
        }
        if self.followed == self.max {
            return Err(too_many(self.max));
        }
        let next = origin(attempt.location()).ok_or_else(not_http)?;
        self.followed += 1;
        self.has_left |= origin(attempt.previous()) != Some(next);
        Ok(Action::Follow)
    }

    /// Each request begins with the headers of the first.
    fn on_request(&mut self, request: &mut Request<Body>) {
        if !self.has_left {
            return;
        }
        let headers = request.headers_mut();
        for name in [
            header::AUTHORIZATION,
            header::COOKIE,
            header::PROXY_AUTHORIZATION,
            header::WWW_AUTHENTICATE,
        ] {
            headers.remove(name);
        }
        headers.remove("cookie2");
    }

    fn clone_body(&self, _: &Body) -> Option<Body> {
        self.whole.clone().map(Body::from)
    }
}

/// Scheme, host and port, if it is an HTTP URL.
fn origin(uri: &Uri) -> Option<(&str, &str, u16)> {
    let (scheme, port) = match uri.scheme_str()? {
        scheme @ "http" => (scheme, 80),
        scheme @ "https" => (scheme, 443),
        _ => return None,
    };
    Some((scheme, uri.host()?, uri.port_u16().unwrap_or(port)))
}

fn too_many(max: usize) -> Error {
    Error::with_kind(
        ErrorKind::Limit,
        format!("the server redirected more than {max} times (outbound.max_redirects)"),
    )
}

fn not_http() -> Error {
    Error::with_kind(
        ErrorKind::Input,
        "the request is invalid: the server redirects to an address that is not an HTTP URL",
    )
}
