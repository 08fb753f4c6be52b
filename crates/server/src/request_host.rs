//! The host that a request names, parsed once for everything behind a listener.
//!
//! Contract: each request from a connection has exactly one reading of its host, which the listener checks before
//! anything else looks at it. It comes from the authority of an HTTP/2 or absolute-form request, or from the header
//! `Host`; if a request has both, they must agree. A missing host (except in HTTP/1.0), two hosts, and a host that is
//! not `NAME` or `NAME:PORT` are 400: a name has letters, digits, `-`, `_` and dots, or is an IP address. Thus a program
//! cannot read another host than the listener has checked.

use std::{
    borrow::Cow,
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
};

use axum::extract::{ConnectInfo, FromRequestParts, OptionalFromRequestParts};
use http::{Version, header, request::Parts};

use crate::{ApiError, limits};

/// The host that a request names, as an extractor and as an extension of the request: the name in lower case and without
/// a trailing dot, and the port separately. Programs must not read the header `Host` themselves.
///
/// `RequestHost` rejects a request without a host with 400 `host_missing`; `Option<RequestHost>` is `None` for one. Only
/// HTTP/1.0 requests and requests without a connection, as in tests of a router, can lack a host.
///
/// ```
/// use abide_server::RequestHost;
///
/// async fn handler(host: RequestHost) -> String {
///     format!("You asked {} for this.", host.name())
/// }
/// # axum::Router::<()>::new().route("/", axum::routing::get(handler));
///
/// let host: RequestHost = "Shop.Example.com.:8080".parse()?;
/// assert_eq!((host.name(), host.port()), ("shop.example.com", Some(8080)));
/// assert_eq!(host.to_string(), "shop.example.com:8080");
/// assert!("shop.example.com:x".parse::<RequestHost>().is_err());
/// # Ok::<(), abide_server::InvalidHost>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestHost {
    name: Arc<str>,
    port: Option<u16>,
}

impl RequestHost {
    /// The name in lower case, without a port and without a trailing dot; an IPv6 address has its brackets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port, if the request names one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether it is an IP address, or a name without a dot: no stranger can own one.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.name.starts_with('[')
            || !self.name.contains('.')
            || self.name.parse::<Ipv4Addr>().is_ok()
    }

    /// The host of a request, which stays with it. A request that came over a connection must name one.
    pub(crate) fn identify(head: &mut Parts) -> Result<Option<Self>, ApiError> {
        let host = Self::of(head)?;
        if lacks_host(head, host.as_ref()) {
            return Err(missing());
        }
        if let Some(host) = &host {
            head.extensions.insert(host.clone());
        }
        Ok(host)
    }

    /// The host of a request, if it names one.
    pub(crate) fn of(head: &Parts) -> Result<Option<Self>, ApiError> {
        if let Some(known) = head.extensions.get::<Self>() {
            return Ok(Some(known.clone()));
        }
        let mut named = head.headers.get_all(header::HOST).iter();
        let (header, other) = (named.next(), named.next());
        if other.is_some() {
            return Err(ApiError::bad_request(
                "several_hosts",
                "A request must have exactly one `Host` header.",
            ));
        }
        let header = match header {
            None => None,
            // A value that is not text is not a name.
            Some(value) => Some(value.to_str().unwrap_or_default().parse::<Self>()?),
        };
        let target = match head.uri.authority() {
            None => None,
            Some(authority) => Some(authority.as_str().parse::<Self>()?),
        };
        match (target, header) {
            (Some(target), Some(header)) if target != header => Err(ApiError::bad_request(
                "several_hosts",
                "The target of the request and its `Host` header name different hosts.",
            )),
            (target, header) => Ok(target.or(header)),
        }
    }
}

/// Whether the request lacks a host that its protocol requires. HTTP/1.1 requires the header even if the target of the
/// request names the host (RFC 9112, section 3.2).
fn lacks_host(head: &Parts, host: Option<&RequestHost>) -> bool {
    let is_connected = head.extensions.get::<ConnectInfo<SocketAddr>>().is_some();
    is_connected
        && match head.version {
            Version::HTTP_11 => !head.headers.contains_key(header::HOST),
            version => version > Version::HTTP_11 && host.is_none(),
        }
}

fn missing() -> ApiError {
    ApiError::bad_request(
        "host_missing",
        "A request must name its host: send the header `Host`.",
    )
}

/// A text that is not a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a valid host: use a name of letters, digits, `-`, `_` and dots, an IPv4 address, or an IPv6 address in brackets, optionally \
     with a port, such as `example.com:8080`"
)]
pub struct InvalidHost;

impl From<InvalidHost> for ApiError {
    fn from(_: InvalidHost) -> Self {
        Self::bad_request(
            "invalid_host",
            "The request's host is not valid: send a name or an address, optionally with a port, such as `Host: example.com:8080`.",
        )
    }
}

impl FromStr for RequestHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']').ok_or(InvalidHost)?;
                let address: Ipv6Addr = address.parse().map_err(|_| InvalidHost)?;
                (Cow::Owned(format!("[{address}]")), port)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                (domain(&text[..end])?, &text[end..])
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            // An empty port is the scheme's own (RFC 3986, section 6.2.3).
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| InvalidHost)?)
            }
            None | Some(_) => return Err(InvalidHost),
        };
        Ok(Self {
            name: name.into(),
            port,
        })
    }
}

/// A domain name or an IPv4 address, normalised.
fn domain(text: &str) -> Result<Cow<'_, str>, InvalidHost> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| {
        (1..=limits::MAX_HOST_LABEL).contains(&label.len()) && label.bytes().all(is_plain)
    };
    if text.len() > limits::MAX_HOST_NAME || !text.split('.').all(is_label) {
        return Err(InvalidHost);
    }
    Ok(if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    })
}

impl fmt::Display for RequestHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.port {
            None => Ok(()),
            Some(port) => write!(f, ":{port}"),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for RequestHost {
    type Rejection = ApiError;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(head)?.ok_or_else(missing)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for RequestHost {
    type Rejection = ApiError;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Option<Self>, ApiError> {
        Self::of(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_normalised() {
        for (text, name, port) in [
            ("example.com", "example.com", None),
            ("Example.COM.:080", "example.com", Some(80)),
            ("localhost:", "localhost", None),
            ("my_service-1", "my_service-1", None),
            ("127.0.0.1:65535", "127.0.0.1", Some(65535)),
            ("[::1]", "[::1]", None),
            ("[0:0:0:0:0:0:0:1]:9", "[::1]", Some(9)),
        ] {
            let host: RequestHost = text.parse().unwrap();
            assert_eq!((host.name(), host.port()), (name, port), "{text}");
            assert_eq!(host.to_string().parse(), Ok(host));
        }
    }

    #[test]
    fn a_text_that_is_not_a_host_is_refused() {
        let long_label = format!("{}.example", "a".repeat(limits::MAX_HOST_LABEL + 1));
        let long_name = "a.".repeat(limits::MAX_HOST_NAME) + "example";
        for text in [
            "",
            ".",
            "..",
            " ",
            "a..b",
            ".a",
            "a b",
            " a",
            "a ",
            "a\t",
            "a:x",
            "a:+1",
            "a:65536",
            "a:1:2",
            "a: 1",
            ":80",
            "user@a",
            "user:1@a",
            "a/b",
            "a,b",
            "a%2eb",
            "http://a",
            "ä.example",
            "[::1",
            "[::1]a",
            "[::1]a:1",
            "[1.2.3.4]",
            "[fe80::1%eth0]",
            "::1",
            "?.",
            "*.example.com",
            "$(reboot)",
            "a;b",
            &long_label,
            &long_name,
        ] {
            assert_eq!(text.parse::<RequestHost>(), Err(InvalidHost), "{text:?}");
        }
    }

    fn head(version: Version, uri: &str, hosts: &[&str]) -> Parts {
        let mut request = http::Request::get(uri).version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let peer: SocketAddr = (Ipv4Addr::LOCALHOST, 1).into();
        let request = request.extension(ConnectInfo(peer)).body(());
        request.unwrap().into_parts().0
    }

    #[test]
    fn a_request_has_one_host_or_is_refused() {
        let (old, new, two) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        for (version, uri, hosts, expected) in [
            (new, "/", &["A:1"][..], Ok(Some("a:1"))),
            (new, "http://A:1/", &["a:1"], Ok(Some("a:1"))),
            (two, "http://a:1/", &[], Ok(Some("a:1"))),
            (two, "/", &["a:1"], Ok(Some("a:1"))),
            (old, "/", &[], Ok(None)),
            (new, "/", &[], Err("host_missing")),
            (new, "http://a:1/", &[], Err("host_missing")),
            (two, "/", &[], Err("host_missing")),
            (new, "/", &[""], Err("invalid_host")),
            (old, "/", &["a:x"], Err("invalid_host")),
            (new, "/", &["a", "a"], Err("several_hosts")),
            (new, "http://a:1/", &["b:1"], Err("several_hosts")),
            (two, "http://a:1/", &["a:2"], Err("several_hosts")),
            (two, "http://me@a/", &[], Err("invalid_host")),
        ] {
            let mut head = head(version, uri, hosts);
            let host = RequestHost::identify(&mut head);
            let host = host.map(|host| host.map(|host| host.to_string()));
            let host = host.as_ref().map(Option::as_deref);
            let host = host.map_err(ApiError::code);
            assert_eq!(host, expected, "{version:?} {uri} {hosts:?}");
            let kept = head.extensions.get::<RequestHost>();
            assert_eq!(kept.is_some(), matches!(expected, Ok(Some(_))));
        }
    }
}
