//! Parses the headers in which proxies name their client.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

/// The header that a trusted proxy writes. Another one may come from the client itself, and be passed on by the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, written by nearly all proxies.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    /// The hops in header order: the last one is the address that connected to the peer. `None` for an unreadable
    /// address.
    pub(super) fn hops(self, headers: &HeaderMap) -> Vec<Option<IpAddr>> {
        let name = match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        };
        let mut hops = Vec::new();
        for value in headers.get_all(name) {
            let Ok(value) = value.to_str() else {
                hops.push(None);
                continue;
            };
            match self {
                Self::XForwardedFor => hops.extend(value.split(',').map(address)),
                Self::Forwarded => hops.extend(split_unquoted(value, ',').map(element)),
            }
        }
        hops
    }
}

/// The `for` of one element of `Forwarded`.
fn element(element: &str) -> Option<IpAddr> {
    let mut fors = split_unquoted(element, ';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("for")
            .then_some(value.trim())
    });
    let value = fors.next()?;
    if let Some(quoted) = value.strip_prefix('"') {
        return address(quoted.strip_suffix('"')?);
    }
    address(value)
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let alone = bare.parse().ok();
    alone.or_else(|| {
        text.parse()
            .ok()
            .map(|with_port: SocketAddr| with_port.ip())
    })
}

/// Splits at separators outside of quotes.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c: char| {
        let separates = c == separator && !quoted;
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        separates
    })
}
