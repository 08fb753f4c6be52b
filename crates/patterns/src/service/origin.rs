//! Who may ask a server that has no login: nobody's web page but its own.

use std::net::Ipv4Addr;

use abide::{Env, server::ApiError};
use axum::{
    Router,
    extract::{Request, State as Shared},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::Response,
};

/// Names with a dot under which clients ask for the server, without ports. A host that is asked under one shares it with
/// [`HostBuilder::with`](abide::server::HostBuilder::with).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

/// Has a router refuse with 403 what a web page of another origin asks for (`cross_origin`), and what is asked under a name
/// with a dot that is not one of the [`Hosts`] (`unknown_host`): a stranger's domain can lead to a private address.
pub fn own_origin<S: Clone + Send + Sync + 'static>(router: Router<S>, env: Env) -> Router<S> {
    router.layer(middleware::from_fn_with_state(env, same_origin))
}

/// Refuses what a web page of another origin makes a browser send: there is no login that it would lack.
async fn same_origin(
    Shared(env): Shared<Env>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (headers, uri) = (request.headers(), request.uri());
    let host = host_of(headers, uri);
    let hosts = env.get::<Hosts>();
    if !host.is_none_or(|host| is_own(host, hosts.as_deref().map_or(&[], |hosts| &hosts.0))) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "unknown_host",
            "A name with a dot under which this server is asked must be one of its own: name it in the program's options (`outbox.hosts`, `--host`).",
        ));
    }
    if is_foreign(headers, host) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "cross_origin",
            "A web page of another origin made this request.",
        ));
    }
    Ok(next.run(request).await)
}

/// Under which name and port the server was asked.
fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    match headers.get(header::HOST) {
        // What is no text is no name.
        Some(host) => Some(host.to_str().unwrap_or("?.")),
        None => uri.authority().map(axum::http::uri::Authority::as_str),
    }
}

/// False for a name that a stranger could have: who owns a domain can have it lead to a private address, and browsers then
/// take this server for the stranger's own. Addresses, and names without a dot, are nobody's domain.
fn is_own(host: &str, hosts: &[String]) -> bool {
    if host.starts_with('[') {
        return true;
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    !name.contains('.')
        || name.parse::<Ipv4Addr>().is_ok()
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn is_foreign(headers: &HeaderMap, host: Option<&str>) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return false;
    };
    let own = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"));
    own.is_none_or(|(_, origin)| host != Some(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_no_stranger_can_have_is_an_own_one() {
        let own = ["Outbox.example.com".to_owned()];
        for host in [
            "127.0.0.1:8080",
            "10.0.0.1",
            "[::1]:8080",
            "localhost:8080",
            "abide",
            "outbox.example.com:80",
        ] {
            assert!(is_own(host, &own), "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "example.com",
            "localhost.",
            "?.",
        ] {
            assert!(!is_own(host, &own), "{host}");
        }
    }

    #[test]
    fn only_the_own_origin_is_not_foreign() {
        let foreign = |origin: Option<&str>, host: Option<&str>, uri: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::ORIGIN, origin), (header::HOST, host)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            is_foreign(&headers, host_of(&headers, &uri.parse().unwrap()))
        };
        assert!(!foreign(None, Some("a:1"), "/"), "no web page");
        assert!(!foreign(Some("http://a:1"), Some("a:1"), "/"));
        assert!(!foreign(Some("http://a:1"), None, "http://a:1/"), "HTTP/2");
        assert!(foreign(Some("http://a:2"), Some("a:1"), "/"));
        assert!(foreign(Some("http://b:1"), Some("a:1"), "/"));
        assert!(foreign(Some("null"), Some("a:1"), "/"));
        assert!(foreign(Some("http://a:1"), None, "/"));
    }
}
