//! The client of a request: its address, and its limits.
//!
//! Contract: the client of a connection is its peer. For a request from a trusted proxy (`server.trusted_proxies`), it
//! is the client named in the one header that the proxy writes (`server.forwarded_header`). Hops are read from the
//! right: each proxy appends the address that connected to it, so everything to the left of the first untrusted address
//! is that client's own claim and is ignored.

mod admission;
mod forwarded;
pub(crate) mod proxy_header;

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::extract::{ConnectInfo, FromRequestParts};
use http::{Extensions, HeaderMap, request::Parts};

use admission::Admission;
pub(crate) use admission::{ClientSlot, NewObjects, Rate};
pub use forwarded::ForwardedHeader;

use crate::{ApiError, ConnectionsPerClient, ServerConfig, limits, outbound::policy::AddressBlock};

/// The address of a request's client, as an extractor: behind a trusted proxy it is not the proxy's address. For a
/// request without a connection, as in tests of a router, it is the loopback address.
///
/// ```
/// use abide_server::ClientAddr;
///
/// async fn handler(ClientAddr(client): ClientAddr) -> String {
///     format!("You are {client}.")
/// }
/// # axum::Router::<()>::new().route("/", axum::routing::get(handler));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddr(pub IpAddr);

impl<S: Sync> FromRequestParts<S> for ClientAddr {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

impl ClientAddr {
    /// The unit that is counted as one client: the address, or the /64 network of an IPv6 household or machine.
    pub fn network(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Ipv6Addr::from_bits(network).into()
            }
            v4 @ IpAddr::V4(_) => v4,
        }
    }

    pub(crate) fn of(extensions: &Extensions) -> Self {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        let known = extensions.get::<Self>().copied();
        known
            .or_else(|| peer.map(|peer| Self(peer.ip().to_canonical())))
            .unwrap_or(Self(Ipv6Addr::LOCALHOST.into()))
    }
}

/// The trusted proxies.
#[derive(Clone, Debug)]
pub(crate) struct Proxies {
    trusted: Vec<AddressBlock>,
    header: ForwardedHeader,
}

impl Proxies {
    pub(crate) fn new(trusted: Vec<AddressBlock>, header: ForwardedHeader) -> Self {
        Self { trusted, header }
    }

    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|block| block.contains(address))
    }

    /// The client of a request that this peer has sent.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddr {
        let mut client = peer.to_canonical();
        if !self.trust(client) {
            return ClientAddr(client);
        }
        for hop in self.header.hops(headers).into_iter().rev() {
            // An unreadable hop was added by a trusted proxy, or cannot be trusted.
            let Some(hop) = hop else { break };
            client = hop.to_canonical();
            if !self.trust(client) {
                break;
            }
        }
        ClientAddr(client)
    }
}

/// The clients of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    proxies: Proxies,
    admission: Arc<Admission>,
    /// Connections from this machine are not counted.
    loopback_is_free: bool,
    /// Connections of trusted proxies begin with a PROXY protocol header.
    proxy_protocol: bool,
}

impl Clients {
    pub(crate) fn new(config: &ServerConfig, proxy_protocol: bool) -> Self {
        let (most, loopback_is_free) = match config.max_connections_per_client {
            ConnectionsPerClient::Auto => {
                let share = config.max_connections / limits::CLIENT_SHARE;
                (Some(share.max(1)), true)
            }
            ConnectionsPerClient::AtMost(most) => (Some(most), false),
            ConnectionsPerClient::Unlimited => (None, false),
        };
        Self {
            proxies: config.proxies(),
            admission: Admission::new(most),
            loopback_is_free,
            proxy_protocol,
        }
    }

    /// Whether a connection of this peer begins with a header that names its client.
    pub(crate) fn begins_with_header(&self, peer: IpAddr) -> bool {
        self.proxy_protocol && self.proxies.trust(peer)
    }

    /// A slot for a connection of this peer; `None` if it has too many.
    pub(crate) fn connection(&self, peer: IpAddr) -> Option<ClientSlot> {
        if self.proxies.trust(peer) {
            // The requests of its clients are counted instead.
            return Some(ClientSlot::uncounted());
        }
        self.enter(peer)
    }

    /// The client of a request, and its slot among this client's requests; no slot if connections are counted instead.
    pub(crate) fn request(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<(ClientAddr, Option<ClientSlot>), ApiError> {
        let client = self.proxies.client(peer, headers);
        if !self.proxies.trust(peer) {
            return Ok((client, None));
        }
        match self.enter(client.0) {
            Some(slot) => Ok((client, Some(slot))),
            None => Err(ApiError::too_many_connections()),
        }
    }

    fn enter(&self, client: IpAddr) -> Option<ClientSlot> {
        if self.loopback_is_free && client.to_canonical().is_loopback() {
            return Some(ClientSlot::uncounted());
        }
        self.admission.enter(client)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn client(header: ForwardedHeader, peer: &str, name: &'static str, values: &[&str]) -> String {
        let blocks = ["10.0.0.0/8", "2001:db8:1::/48", "127.0.0.1"];
        let blocks = blocks.map(|block| block.parse().unwrap());
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let proxies = Proxies::new(blocks.to_vec(), header);
        let ClientAddr(client) = proxies.client(peer.parse().unwrap(), &headers);
        client.to_string()
    }

    #[test]
    fn the_client_is_the_rightmost_hop_that_is_not_trusted() {
        for (peer, values, expected) in [
            ("203.0.113.9", &["1.1.1.1"][..], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("::ffff:10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["9.9.9.9, 1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["9.9.9.9", "1.1.1.1, 10.2.3.4"], "1.1.1.1"),
            ("10.0.0.1", &["9.9.9.9, 1.1.1.1:4711"], "1.1.1.1"),
            ("10.0.0.1", &["[2001:db8:2::7]:80"], "2001:db8:2::7"),
            ("2001:db8:1::1", &["2001:db8:2::7"], "2001:db8:2::7"),
            ("10.0.0.1", &["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
            ("10.0.0.1", &["1.1.1.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1, evil.example, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["1.1.1.1,"], "10.0.0.1"),
        ] {
            let header = ForwardedHeader::XForwardedFor;
            assert_eq!(
                client(header, peer, "x-forwarded-for", values),
                expected,
                "{values:?}"
            );
        }
    }

    #[test]
    fn only_the_header_that_the_proxy_writes_is_read() {
        let name = "forwarded";
        for (values, expected) in [
            (&["for=1.1.1.1"][..], "1.1.1.1"),
            (
                &["for=9.9.9.9;proto=https, By=10.0.0.7;FOR=\"1.1.1.1:80\""],
                "1.1.1.1",
            ),
            (&["for=\"[2001:db8:2::7]:4711\""], "2001:db8:2::7"),
            // A comma within quotes separates nothing.
            (&["for=1.1.1.1;secret=\",for=9.9.9.9\""], "1.1.1.1"),
            (&["for=1.1.1.1, for=_hidden"], "10.0.0.1"),
            (&["for=1.1.1.1, proto=http"], "10.0.0.1"),
            (&["for=1.1.1.1, for=\"8.8.8.8"], "10.0.0.1"),
        ] {
            let header = ForwardedHeader::Forwarded;
            assert_eq!(
                client(header, "10.0.0.1", name, values),
                expected,
                "{values:?}"
            );
            let other = ForwardedHeader::XForwardedFor;
            assert_eq!(client(other, "10.0.0.1", name, values), "10.0.0.1");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let network = |address: &str| ClientAddr(address.parse().unwrap()).network().to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:1.2.3.4"), "1.2.3.4");
        assert_eq!(network("1.2.3.4"), "1.2.3.4");
    }
}
