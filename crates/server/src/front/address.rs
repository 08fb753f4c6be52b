//! The address with which a client requested a page, for the commands on it.

use std::net::SocketAddr;

use http::request::Parts;

use crate::{
    RequestHost, ServerConfig, TlsConfig,
    site::{Origin, Origins},
};

/// The address of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    scheme: &'static str,
    /// The TCP address; `None` for a Unix socket.
    listen: Option<SocketAddr>,
    /// The node's origins: if one uses https, a proxy in front of it terminates TLS.
    origins: Origins,
}

impl Endpoint {
    /// A listener at this address.
    pub(crate) fn tcp(listen: SocketAddr, tls: &TlsConfig, server: &ServerConfig) -> Self {
        Self {
            scheme: tls.scheme(),
            listen: Some(listen),
            origins: server.origins.clone(),
        }
    }

    /// A listener without an address that only this machine can reach.
    pub(crate) fn local() -> Self {
        Self {
            scheme: "http",
            listen: None,
            origins: Origins::default(),
        }
    }

    /// `http://127.0.0.1:8080`: as the client requested it. Safe to use in a shell.
    pub(crate) fn address(&self, request: &Parts) -> String {
        let Some(host) = RequestHost::of(request).ok().flatten() else {
            let listen = self.listen.map(|listen| listen.to_string());
            let host = listen.unwrap_or_else(|| "localhost".to_owned());
            return format!("{}://{host}", self.scheme);
        };
        let is_secure =
            self.origins != Origins::Any && self.origins.contain(&Origin::new("https", &host));
        let scheme = if is_secure { "https" } else { self.scheme };
        format!("{scheme}://{host}")
    }

    /// The address of this listener for a client that has requested a page from the node's listener at `other`.
    pub(crate) fn address_beside(&self, other: &str) -> Option<String> {
        let listen = self.listen?;
        if !listen.ip().is_unspecified() {
            return Some(format!("{}://{listen}", self.scheme));
        }
        let host: RequestHost = other.split_once("://")?.1.parse().ok()?;
        Some(format!(
            "{}://{}:{}",
            self.scheme,
            host.name(),
            listen.port()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(listen: &str) -> Endpoint {
        Endpoint {
            scheme: "http",
            listen: Some(listen.parse().unwrap()),
            origins: Origins::Named(vec!["https://abide.example.com".to_owned()]),
        }
    }

    #[test]
    fn an_address_is_the_client_s_own_and_never_a_command() {
        let endpoint = endpoint("127.0.0.1:8080");
        for (host, address) in [
            ("localhost:9", "http://localhost:9"),
            ("[::1]:9", "http://[::1]:9"),
            ("abide.example.com", "https://abide.example.com"),
            ("$(reboot)", "http://127.0.0.1:8080"),
            ("a;b", "http://127.0.0.1:8080"),
        ] {
            let request = http::Request::get("/").header("host", host);
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(endpoint.address(&head), address);
        }
    }

    #[test]
    fn a_listener_on_every_interface_is_reached_under_the_name_of_the_other() {
        for (listen, other, address) in [
            ("127.0.0.1:81", "http://a:80", "http://127.0.0.1:81"),
            ("0.0.0.0:81", "https://a", "http://a:81"),
            ("0.0.0.0:81", "http://a:80", "http://a:81"),
            ("[::]:81", "http://[::1]:80", "http://[::1]:81"),
        ] {
            let found = endpoint(listen).address_beside(other);
            assert_eq!(found.as_deref(), Some(address));
        }
    }
}
