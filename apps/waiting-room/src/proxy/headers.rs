//! The headers of requests that are passed on, and of responses.
//!
//! Contract: headers that are about one connection (RFC 9110, section 7.6.1) stay on it. What a client says of itself that only a proxy
//! can know is dropped, unless the client is a proxy that is believed.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// About one connection, whether `Connection` names them or not.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

const FORWARDED: [&str; 5] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// The name under which this proxy stands in `Via`.
const PSEUDONYM: &str = "waiting-room";

/// The only protocol that a connection may switch to.
const WEBSOCKET: &str = "websocket";

/// For whom a request is passed on.
pub(super) struct From<'a> {
    pub(super) client: IpAddr,
    pub(super) host: Option<&'a str>,
    pub(super) is_secure: bool,
    /// What the headers say already is believed.
    pub(super) is_from_proxy: bool,
}

/// The protocol that a message asks to switch to, or has switched to, if it is WebSocket. Any other would be a tunnel in which a client
/// sends the origin further requests, such as those of HTTP/2 after `h2c`, past the rooms and with headers that nobody checks.
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
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    // Of `TE` only that trailers are welcome may be said again.
    let wants_trailers = has_token(headers, &header::TE, "trailers");
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
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

/// Says for whom a request is passed on.
pub(super) fn introduce(headers: &mut HeaderMap, from: &From<'_>) {
    let mut chain = String::new();
    if from.is_from_proxy {
        let known = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok());
        chain = known.collect::<Vec<_>>().join(", ");
    }
    let host = headers
        .get("x-forwarded-host")
        .filter(|_| from.is_from_proxy)
        .cloned();
    for name in FORWARDED {
        headers.remove(name);
    }
    if chain.is_empty() {
        chain = from.client.to_string();
    }
    let proto = if from.is_secure { "https" } else { "http" };
    headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
    if let Ok(chain) = HeaderValue::from_str(&chain) {
        headers.insert("x-forwarded-for", chain);
    }
    let asked = from.host.and_then(|host| HeaderValue::from_str(host).ok());
    if let Some(asked) = &asked {
        headers.insert(header::HOST, asked.clone());
    }
    if let Some(host) = host.or(asked) {
        headers.insert("x-forwarded-host", host);
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
    fn what_a_client_says_of_itself_is_not_believed() {
        let lie = [
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-proto", "gopher"),
        ];
        let mut sent = headers(&lie);
        introduce(&mut sent, &from(false));
        assert_eq!(sent["x-forwarded-for"], "203.0.113.7");
        assert_eq!(sent["x-forwarded-proto"], "https");
        assert_eq!(sent["x-forwarded-host"], "shop.example");
        assert_eq!(sent["host"], "shop.example");
        assert!(!sent.contains_key("forwarded"));
    }

    #[test]
    fn what_a_proxy_says_of_the_client_is() {
        let mut sent = headers(&[
            ("x-forwarded-for", "203.0.113.7, 10.0.0.1"),
            ("x-forwarded-host", "www.example"),
        ]);
        introduce(&mut sent, &from(true));
        assert_eq!(sent["x-forwarded-for"], "203.0.113.7, 10.0.0.1");
        assert_eq!(sent["x-forwarded-host"], "www.example");
    }

    #[test]
    fn a_request_that_has_come_through_here_is_a_loop() {
        let mut sent = headers(&[("via", "1.1 cache")]);
        assert!(!is_loop(&sent));
        introduce(&mut sent, &from(false));
        assert!(is_loop(&sent));
    }
}
