//! Protects a server without login from other sites' web pages.
//!
//! Contract: a request with a host name that a stranger could own is rejected, because the owner of a domain can point
//! it to a private address, and browsers then consider this server part of the stranger's site (DNS rebinding). A
//! request that a page of another origin makes a browser send is rejected if the browser reports it (`Origin`), and if
//! it changes something or opens a WebSocket (`Sec-Fetch-Site`). Programs that are not browsers need not send either
//! header.

use http::{HeaderMap, Method, StatusCode, header, request::Parts};

use crate::{ApiError, RequestHost};

/// The host names with a dot, without ports, that clients use for a server. IP addresses and names without a dot belong
/// to no domain and need not be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// These names. `*.example.com` matches every name below `example.com`.
    Named(Vec<String>),
    /// Any name: only for a server that browsers can reach only through a checking proxy.
    Any,
}

impl Default for Hosts {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

/// The origins, besides the server's own, whose pages may send requests here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// These origins, such as `https://app.example.com`.
    Named(Vec<String>),
    /// Any origin: every handler must check its callers itself.
    Any,
}

impl Default for Origins {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

/// The allowed hosts and origins of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub(crate) hosts: Hosts,
    pub(crate) origins: Origins,
}

impl Site {
    /// Rejects requests that another site may have made a browser send.
    pub(crate) fn check(&self, request: &mut Parts) -> Result<(), ApiError> {
        let host = RequestHost::identify(request)?;
        let host = host.as_ref();
        if host.is_some_and(|host| !self.hosts.contain(host)) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "unknown_host",
                "This host name is not allowed: add it to the setting `server.hosts`.",
            ));
        }
        if self.is_foreign(request, host) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "cross_origin",
                "A web page of another origin made this request. To allow its origin, add it to the setting `server.origins`.",
            ));
        }
        Ok(())
    }

    fn is_foreign(&self, request: &Parts, host: Option<&RequestHost>) -> bool {
        if self.origins == Origins::Any {
            return false;
        }
        let headers = &request.headers;
        // Pages cannot set this header; only the browser does. It is correct where `Origin` is `null` because the page
        // has `Referrer-Policy: no-referrer`.
        let site = headers.get("sec-fetch-site");
        if site.is_some_and(|site| site == "same-origin" || site == "none") {
            return false;
        }
        let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
        if origins.peek().is_some() {
            return !origins.all(|origin| {
                let origin = origin.to_str().ok().and_then(Origin::parse);
                origin.is_some_and(|origin| {
                    host.is_some_and(|host| origin.is_of(host)) || self.origins.contain(&origin)
                })
            });
        }
        // Browsers send no `Origin` with requests that a page cannot read anyway, such as images and links.
        let only_reads = matches!(request.method, Method::GET | Method::HEAD)
            && !headers.contains_key(header::UPGRADE);
        site.is_some() && !only_reads
    }
}

/// Whether a browser has sent a request that a web page could cause. Browsers add `Origin` to every request with a body
/// (all of them since 2020), and `Sec-Fetch-Site` to every request to a secure or local address.
pub(crate) fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

impl Hosts {
    /// Returns false for a name that a stranger could own: one with a dot that is not listed.
    #[must_use]
    pub fn contain(&self, host: &RequestHost) -> bool {
        let Self::Named(own) = self else { return true };
        host.is_local() || own.iter().any(|own| matches(own, host.name()))
    }
}

impl Origins {
    /// Returns whether this origin is named.
    pub(crate) fn contain(&self, origin: &Origin) -> bool {
        match self {
            Self::Any => true,
            Self::Named(named) => named
                .iter()
                .any(|one| Origin::parse(one).as_ref() == Some(origin)),
        }
    }
}

/// The origin of a web page: `https://app.example.com`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: String,
    name: String,
    port: Option<u16>,
}

impl Origin {
    /// `None` for another text, such as `null`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, host) = text.split_once("://")?;
        Some(Self::new(scheme, &host.parse().ok()?))
    }

    /// The origin of the pages at this host.
    pub(crate) fn new(scheme: &str, host: &RequestHost) -> Self {
        let scheme = scheme.to_ascii_lowercase();
        let default = match &*scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        Self {
            scheme,
            name: host.name().to_owned(),
            port: host.port().or(default),
        }
    }

    /// Whether its pages come from this host. A proxy in front may have terminated TLS, so the scheme is not compared.
    fn is_of(&self, host: &RequestHost) -> bool {
        *self == Self::new(&self.scheme, host)
    }
}

/// Returns whether `own` is this name, or a wildcard that matches it.
fn matches(own: &str, name: &str) -> bool {
    match own.strip_prefix('*') {
        None => own.eq_ignore_ascii_case(name),
        Some(parent) => name
            .len()
            .checked_sub(parent.len())
            .filter(|at| *at > 0)
            .and_then(|at| name.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(parent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn code(site: &Site, mut request: Parts) -> Option<String> {
        let refused = site.check(&mut request).err();
        refused.map(|error| error.code().to_owned())
    }

    #[test]
    fn only_a_name_that_strangers_cannot_own_is_ours() {
        let own = ["Outbox.example.com", "*.tenants.example"];
        let site = Site {
            hosts: Hosts::Named(own.map(str::to_owned).to_vec()),
            ..Site::default()
        };
        let code_of = |host| code(&site, asked(Method::GET, "/", &[("host", host)]));
        for host in [
            "127.0.0.1:8080",
            "10.0.0.1",
            "[::1]:8080",
            "localhost:8080",
            "abide",
            "localhost.",
            "outbox.example.com:80",
            "outbox.example.com.",
            "a.tenants.example",
            "A.B.TENANTS.example:1",
        ] {
            assert_eq!(code_of(host), None, "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "example.com",
            "tenants.example",
            "eviltenants.example",
        ] {
            assert_eq!(code_of(host).as_deref(), Some("unknown_host"), "{host}");
        }
        let any = Site {
            hosts: Hosts::Any,
            ..Site::default()
        };
        let evil = asked(Method::GET, "/", &[("host", "evil.example")]);
        assert_eq!(code(&any, evil), None);
        let two = asked(Method::GET, "/", &[("host", "a"), ("host", "b")]);
        assert_eq!(code(&any, two).as_deref(), Some("several_hosts"));
    }

    #[test]
    fn only_the_own_origin_and_those_named_are_not_foreign() {
        let named = Origins::Named(vec!["https://app.example.com".to_owned()]);
        let site = Site {
            origins: named,
            ..Site::default()
        };
        let post = Method::POST;
        let foreign = Some("cross_origin");
        for (headers, uri, expected) in [
            (&[("host", "a:1")][..], "/", None),
            (&[("host", "a:1"), ("origin", "http://a:1")], "/", None),
            (&[("origin", "http://a:1")], "http://a:1/", None),
            (
                &[("host", "a:1"), ("origin", "https://app.example.com")],
                "/",
                None,
            ),
            (&[("host", "a:1"), ("origin", "http://a:2")], "/", foreign),
            (&[("host", "a:1"), ("origin", "http://b:1")], "/", foreign),
            (&[("host", "a:1"), ("origin", "null")], "/", foreign),
            (&[("host", "a"), ("origin", "https://A:443")], "/", None),
            (&[("host", "a:443"), ("origin", "https://a")], "/", None),
            (&[("host", "a:443"), ("origin", "http://a")], "/", foreign),
            (&[("host", "a"), ("origin", "https://a:80")], "/", foreign),
            (
                &[
                    ("host", "a"),
                    ("origin", "http://a"),
                    ("origin", "http://b"),
                ],
                "/",
                foreign,
            ),
            (&[("origin", "http://a:1")], "/", foreign),
            (&[("sec-fetch-site", "same-origin")], "/", None),
            (&[("sec-fetch-site", "none")], "/", None),
            (
                &[("sec-fetch-site", "same-origin"), ("origin", "null")],
                "/",
                None,
            ),
            (
                &[("sec-fetch-site", "same-site"), ("origin", "http://b:1")],
                "/",
                foreign,
            ),
            (&[("sec-fetch-site", "same-site")], "/", foreign),
            (&[("sec-fetch-site", "cross-site")], "/", foreign),
        ] {
            let request = asked(post.clone(), uri, headers);
            assert_eq!(code(&site, request).as_deref(), expected, "{headers:?}");
        }
        let link = [("sec-fetch-site", "cross-site")];
        assert_eq!(code(&site, asked(Method::GET, "/", &link)), None, "a link");
        let socket = [("sec-fetch-site", "cross-site"), ("upgrade", "websocket")];
        let socket = asked(Method::GET, "/", &socket);
        assert_eq!(code(&site, socket).as_deref(), foreign);
        let any = Site {
            origins: Origins::Any,
            ..Site::default()
        };
        let evil = [("host", "a:1"), ("origin", "http://evil.example")];
        assert_eq!(code(&any, asked(post, "/", &evil)), None);
    }
}
