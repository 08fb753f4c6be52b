//! Connections to other servers, for objects' requests and WebSockets.
//!
//! Contract: every address that is connected to has passed the [`AddressPolicy`], whether the host is a name or an
//! address, and nothing else is sent before. `https://` and `wss://` require a certificate that the machine trusts. There
//! is no time limit here.

use std::{error::Error as StdError, sync::Arc};

use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::TlsConnector;

use super::{
    policy::{AddressPolicy, Unresolved},
    race, tls,
};

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// A connection, which knows the protocol that the server has chosen.
pub(crate) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Makes connections. Clones share the TLS configuration.
#[derive(Clone)]
pub(crate) struct Connector {
    policy: AddressPolicy,
    /// Offered to servers in this order (ALPN).
    protocols: &'static [&'static str],
    /// Set up for the first connection that needs it: it reads the machine's certificates.
    tls: Arc<OnceCell<TlsConnector>>,
}

impl Connector {
    pub(crate) fn new(policy: AddressPolicy, protocols: &'static [&'static str]) -> Self {
        Self {
            policy,
            protocols,
            tls: Arc::default(),
        }
    }

    /// A connection to a URI's host.
    pub(crate) async fn connect(&self, uri: &Uri) -> Result<Stream, BoxError> {
        let target = Target::of(uri).ok_or("the address has no host")?;
        let found = self.policy.resolve(target.host, target.port).await;
        let addresses = found.map_err(|error| match error {
            Unresolved::Forbidden(error) => BoxError::from(error),
            // Its text contains the cause.
            Unresolved::Name(_) => error.to_string().into(),
        })?;
        let tcp = TokioIo::new(race::connect(addresses).await?);
        if !target.secure {
            return Ok(tcp.into());
        }
        let name = ServerName::try_from(target.host.to_owned())
            .map_err(|_| "its host is not valid for a certificate")?;
        let stream = self.tls().await?.connect(name, TokioIo::new(tcp)).await?;
        Ok(stream.into())
    }

    async fn tls(&self) -> Result<TlsConnector, BoxError> {
        let protocols = self.protocols;
        let set_up = async move || {
            let config = tokio::task::spawn_blocking(move || tls::client_config(protocols)).await?;
            Ok::<_, BoxError>(TlsConnector::from(Arc::new(config?)))
        };
        self.tls.get_or_try_init(set_up).await.cloned()
    }
}

/// Where a URI leads.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    /// Without brackets.
    host: &'a str,
    port: u16,
    secure: bool,
}

impl<'a> Target<'a> {
    fn of(uri: &'a Uri) -> Option<Self> {
        let secure = matches!(uri.scheme_str(), Some("https" | "wss"));
        let host = uri.host().filter(|host| !host.is_empty())?;
        Some(Self {
            host: host.trim_start_matches('[').trim_end_matches(']'),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            secure,
        })
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::Connection as _;
    use rustls::{
        RootCertStore, ServerConfig, client::WebPkiServerVerifier, crypto::ring,
        pki_types::PrivatePkcs8KeyDer,
    };
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::{super::policy::ForbiddenAddress, *};

    #[test]
    fn an_address_says_host_port_and_whether_tls_is_used() {
        for (uri, host, port, secure) in [
            ("ws://example.com/x", "example.com", 80, false),
            ("wss://example.com", "example.com", 443, true),
            (
                "http://user:secret@example.com:81/",
                "example.com",
                81,
                false,
            ),
            ("https://[::1]:8080/", "::1", 8_080, true),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(Target::of(&uri), Some(Target { host, port, secure }));
        }
    }

    #[tokio::test]
    async fn names_and_addresses_are_checked_alike_before_anything_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connector = |allowed: &str| {
            let policy = AddressPolicy::new(allowed.parse().unwrap());
            Connector::new(policy, &["http/1.1"])
        };
        for host in [
            "127.0.0.1",
            "localhost",
            "[::ffff:127.0.0.1]",
            "0x7f.1",
            "[::1]",
        ] {
            for scheme in ["http", "https", "ws", "wss"] {
                let uri = format!("{scheme}://{host}:{port}/").parse().unwrap();
                let error = connector("false").connect(&uri).await.err().unwrap();
                assert!(error.is::<ForbiddenAddress>(), "{uri}: {error}");
            }
        }
        let uri = format!("http://localhost:{port}/").parse().unwrap();
        connector("127.0.0.1").connect(&uri).await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert!(from.ip().is_loopback());
    }

    /// A server that accepts one connection and speaks these protocols, and a connector that trusts it.
    async fn with_tls(protocols: &[&str]) -> (Uri, Connector) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            // The test's connector may refuse the certificate.
            let _ = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
        });
        let mut trust = tls::client_config(&["h2", "http/1.1"]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::new(ring::default_provider()),
        );
        trust
            .dangerous()
            .set_certificate_verifier(verifier.build().unwrap());
        let policy = AddressPolicy::new("127.0.0.1".parse().unwrap());
        let mut connector = Connector::new(policy, &[]);
        connector.tls = Arc::new(OnceCell::from(TlsConnector::from(Arc::new(trust))));
        let uri = format!("https://localhost:{port}/").parse();
        (uri.unwrap(), connector)
    }

    #[tokio::test]
    async fn the_server_chooses_the_protocol_and_must_prove_its_name() {
        for (protocols, is_http2) in [(&["h2"][..], true), (&["http/1.1"], false), (&[], false)] {
            let (uri, connector) = with_tls(protocols).await;
            let stream = connector.connect(&uri).await.unwrap();
            assert_eq!(stream.connected().is_negotiated_h2(), is_http2);
        }
        let (uri, connector) = with_tls(&[]).await;
        let by_address = uri.to_string().replace("localhost", "127.0.0.1");
        let refused = connector.connect(&by_address.parse().unwrap()).await;
        let error = refused.err().unwrap().to_string();
        assert!(error.contains("certificate"), "{error}");
    }
}
