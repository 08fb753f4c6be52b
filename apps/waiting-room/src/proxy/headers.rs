//! The headers of requests that are passed on, and of responses.
//!
//! Contract: headers that are about one connection (RFC 9110, section 7.6.1) stay on it. What a client says of itself that only a proxy
//! can know is dropped, unless the client is a trusted proxy.

use std::net::IpAddr;

use abide::server::remove_connection_headers;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers in which proxies name the client, besides all that begin with [`FORWARDED_PREFIX`], and those that name another path. Only a
/// trusted proxy may send them.
const OF_PROXIES: [&str; 24] = [
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
    "x-host",
    "x-remote-ip",
    "x-remote-addr",
    "x-originating-ip",
    "x-proxyuser-ip",
    "x-envoy-external-address",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-appengine-user-ip",
    "client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fastly-client-ip",
    "fly-client-ip",
];

/// What the names of most such headers begin with.
const FORWARDED_PREFIX: &str = "x-forwarded";

/// The name under which this proxy stands in `Via`.
const PSEUDONYM: &str = "waiting-room";

/// The only protocol that a connection may switch to.
const WEBSOCKET: &str = "websocket";

/// For whom a request is passed on.
pub(super) struct From<'a> {
    pub(super) client: IpAddr,
    /// The address that connected: the client's, or a proxy's.
    pub(super) peer: IpAddr,
    pub(super) host: Option<&'a str>,
    pub(super) is_secure: bool,
    /// Existing forwarding headers are trusted.
    pub(super) is_from_proxy: bool,
}

/// The protocol that a message asks to switch to, or has switched to, if it is WebSocket. Any other would be a tunnel in which a client
/// sends the origin further requests, such as those of HTTP/2 after `h2c`, past the rooms and with unchecked headers.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    has_token(headers, &header::CONNECTION, "upgrade")
        .then(|| HeaderValue::from_static(WEBSOCKET))
        .filter(|_| has_token(headers, &header::UPGRADE, WEBSOCKET))
}

fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

/// Drops what is about one connection.
pub(super) fn strip(headers: &mut HeaderMap) {
    // Of `TE` only that trailers are welcome may be said again.
    let wants_trailers = has_token(headers, &header::TE, "trailers");
    remove_connection_headers(headers);
    headers.remove(header::TRAILER);
    if wants_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Says that a message switches protocols.
pub(super) fn put_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// True if a request has come through here already.
pub(super) fn is_loop(headers: &HeaderMap) -> bool {
    let via = headers
        .get_all(header::VIA)
        .iter()
        .filter_map(|value| value.to_str().ok());
    via.flat_map(|text| text.split(','))
        .any(|hop| hop.split_whitespace().nth(1) == Some(PSEUDONYM))
}

/// Whether a stranger could lie with a header about who asks, or for what. Some origins read `_` as `-`.
fn is_of_proxies(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    name.starts_with(FORWARDED_PREFIX) || OF_PROXIES.contains(&name.as_str())
}

/// The hops up to the address that connected, without what the client claimed before the first.
fn chain(headers: &HeaderMap, from: &From<'_>) -> String {
    let (client, peer) = (from.client.to_canonical(), from.peer.to_canonical());
    if !from.is_from_proxy {
        return client.to_string();
    }
    let known = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    let known: Vec<&str> = known.collect();
    let is_client = |hop: &&str| {
        let address = hop.parse::<IpAddr>().ok();
        address.is_some_and(|address| address.to_canonical() == client)
    };
    let mut hops: Vec<String> = match known.iter().rposition(is_client) {
        Some(first) => known[first..].iter().map(ToString::to_string).collect(),
        None if client == peer => Vec::new(),
        None => vec![client.to_string()],
    };
    hops.push(peer.to_string());
    hops.join(", ")
}

/// Says for whom a request is passed on.
pub(super) fn introduce(headers: &mut HeaderMap, from: &From<'_>) {
    let chain = chain(headers, from);
    if !from.is_from_proxy {
        let names = headers.keys().filter(|name| is_of_proxies(name));
        for name in names.cloned().collect::<Vec<_>>() {
            headers.remove(name);
        }
    }
    // It would contradict what follows.
    headers.remove(header::FORWARDED);
    let proto = if from.is_secure { "https" } else { "http" };
    headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
    if let Ok(chain) = HeaderValue::from_str(&chain) {
        headers.insert("x-forwarded-for", chain);
    }
    if let Some(asked) = from.host.and_then(|host| HeaderValue::from_str(host).ok()) {
        if !headers.contains_key("x-forwarded-host") {
            headers.insert("x-forwarded-host", asked.clone());
        }
        headers.insert(header::HOST, asked);
    }
    if let Ok(via) = HeaderValue::from_str(&format!("1.1 {PSEUDONYM}")) {
        headers.append(header::VIA, via);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn from(is_from_proxy: bool) -> From<'static> {
        From {
            client: IpAddr::from([203, 0, 113, 7]),
            peer: if is_from_proxy {
                "::ffff:10.0.0.2".parse().unwrap()
            } else {
                IpAddr::from([203, 0, 113, 7])
            },
            host: Some("shop.example"),
            is_secure: true,
            is_from_proxy,
        }
    }

    #[test]
    fn what_is_about_one_connection_stays_on_it() {
        let mut sent = headers(&[
            ("connection", "close, X-Secret"),
            ("keep-alive", "timeout=5"),
            ("x-secret", "1"),
            ("proxy-authorization", "Basic x"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers, deflate"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ]);
        assert_eq!(upgrade(&sent), None, "`Connection` does not name it");
        strip(&mut sent);
        assert_eq!(sent, headers(&[("accept", "*/*"), ("te", "trailers")]));
    }

    #[test]
    fn a_connection_switches_to_websocket_and_to_nothing_else() {
        let asked = |protocol| {
            upgrade(&headers(&[
                ("connection", "x, Upgrade"),
                ("upgrade", protocol),
            ]))
        };
        assert_eq!(asked("WebSocket").unwrap(), "websocket");
        assert_eq!(asked("h2c, websocket").unwrap(), "websocket");
        assert_eq!(asked("h2c"), None);
        assert_eq!(asked("TLS/1.0"), None);
    }

    #[test]
    fn forwarding_headers_of_strangers_are_dropped() {
        let lie = [
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-proto", "gopher"),
            ("x-forwarded-port", "1"),
            ("x-forwarded-prefix", "/evil"),
            ("x-forwarded-server", "evil"),
            ("x-forwarded-ssl", "on"),
            ("x_forwarded_for", "10.0.0.1"),
            ("true-client-ip", "10.0.0.1"),
            ("cf-connecting-ip", "10.0.0.1"),
            ("x-real-ip", "10.0.0.1"),
            ("x-client-ip", "10.0.0.1"),
            ("x-cluster-client-ip", "10.0.0.1"),
            ("fastly-client-ip", "10.0.0.1"),
            ("x-original-forwarded-for", "10.0.0.1"),
            ("x-original-url", "/shop"),
        ];
        let mut sent = headers(&lie);
        introduce(&mut sent, &from(false));
        assert_eq!(sent["x-forwarded-for"], "203.0.113.7");
        assert_eq!(sent["x-forwarded-proto"], "https");
        assert_eq!(sent["x-forwarded-host"], "shop.example");
        assert_eq!(sent["host"], "shop.example");
        let mut names: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let kept = [
            "host",
            "via",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
        ];
        assert_eq!(names, kept);
    }

    #[test]
    fn a_trusted_proxy_s_address_is_appended_and_client_claims_are_dropped() {
        let mut sent = headers(&[
            ("x-forwarded-for", "6.6.6.6, 203.0.113.7, 10.0.0.1"),
            ("x-forwarded-host", "www.example"),
            ("true-client-ip", "203.0.113.7"),
        ]);
        introduce(&mut sent, &from(true));
        assert_eq!(sent["x-forwarded-for"], "203.0.113.7, 10.0.0.1, 10.0.0.2");
        assert_eq!(sent["x-forwarded-host"], "www.example");
        assert_eq!(sent["true-client-ip"], "203.0.113.7");
        let mut silent = headers(&[]);
        introduce(&mut silent, &from(true));
        assert_eq!(silent["x-forwarded-for"], "203.0.113.7, 10.0.0.2");
    }

    #[test]
    fn a_request_that_has_come_through_here_is_a_loop() {
        let mut sent = headers(&[("via", "1.1 cache")]);
        assert!(!is_loop(&sent));
        introduce(&mut sent, &from(false));
        assert!(is_loop(&sent));
    }
}
