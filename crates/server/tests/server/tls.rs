//! TLS on the listeners: whom it serves, and certificates that change.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use abide::{
    prelude::*,
    server::{Host, RunningHost, TlsConfig, object_router},
};
use axum::{Router, routing::get};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Says what it hears.
#[durable_object]
struct Echo {
    ctx: Ctx,
}

impl DurableObject for Echo {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, _: Request) -> Result<Response> {
        let (_, response) = self.ctx.accept_websocket(&[])?;
        Ok(response)
    }

    async fn websocket_message(&self, socket: WebSocket, message: Message) -> Result<()> {
        socket.send(message)
    }
}

/// An authority that signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let issuer: &Issuer<'_, KeyPair> = &self.0;
        let signed = params.signed_by(&key, issuer).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    /// Writes a certificate of this server and its key.
    fn write(&self, dir: &Path) -> TlsConfig {
        let (certificate, key) = self.sign("localhost");
        let mut tls = TlsConfig::default();
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        tls.certificate = write("certificate.pem", &certificate);
        tls.key = write("key.pem", &key);
        tls
    }
}

async fn host(tls: TlsConfig) -> RunningHost {
    let builder = Host::open_in_memory()
        .object::<Echo>()
        .router(|env| {
            Router::new()
                .route("/hello", get(async || "hello"))
                .nest("/echo", object_router::<Echo>(&env))
        })
        .configure(|config| {
            config.server.tls = tls.clone();
            config.admin.tls = tls;
            config.server.header_timeout = Duration::from_secs(5);
        });
    builder.start().await.unwrap()
}

/// A client that trusts the authority and shows a certificate, if it has one.
fn client(authority: &Authority, own: Option<(String, String)>, alpn: &[&str]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate], key)
                .unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|one| one.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

async fn connect(client: &TlsConnector, addr: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(addr).await?;
    client
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
}

/// Asks for a path, and returns all that comes back.
async fn ask(client: &TlsConnector, addr: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = connect(client, addr).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn both_listeners_speak_tls_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let host = host(authority.write(dir.path())).await;
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    let client_of = client(&authority, None, &["http/1.1"]);
    assert!(
        ask(&client_of, addr, "/hello")
            .await
            .unwrap()
            .ends_with("hello")
    );
    assert!(
        ask(&client_of, admin, "/healthz")
            .await
            .unwrap()
            .contains("200 OK")
    );
    let stranger = client(&Authority::new(), None, &[]);
    assert!(
        ask(&stranger, addr, "/hello").await.is_err(),
        "it shows another certificate"
    );
    let both = client(&authority, None, &["h2", "http/1.1"]);
    let chosen = connect(&both, addr).await.unwrap();
    assert_eq!(chosen.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain
        .write_all(b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("hello"));
    drop(chosen);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_socket_goes_over_tls() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;

    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let host = host(authority.write(dir.path())).await;
    let client = client(&authority, None, &["http/1.1"]);
    let stream = connect(&client, host.addr()).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async("wss://localhost/echo/a/", stream)
        .await
        .unwrap();
    let long = "x".repeat(100_000);
    for text in ["one", &long] {
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(text));
    }
    drop(socket);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn with_client_authorities_only_their_clients_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, of_clients) = (Authority::new(), Authority::new());
    let mut tls = authority.write(dir.path());
    let path = dir.path().join("clients.pem");
    std::fs::write(&path, of_clients.pem()).unwrap();
    tls.client_ca = Some(path);
    let host = host(tls).await;
    let known = client(&authority, Some(of_clients.sign("ada")), &[]);
    assert!(
        ask(&known, host.addr(), "/hello")
            .await
            .unwrap()
            .ends_with("hello")
    );
    for own in [None, Some(Authority::new().sign("ada"))] {
        let stranger = client(&authority, own, &[]);
        assert!(ask(&stranger, host.addr(), "/hello").await.is_err());
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_changed_certificate_is_taken_into_use_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new(), Authority::new());
    let tls = first.write(dir.path());
    let host = host(tls.clone()).await;
    let (old, new) = (client(&first, None, &[]), client(&second, None, &[]));
    assert!(ask(&old, host.addr(), "/hello").await.is_ok());
    second.write(dir.path());
    abide_harness::until("the new certificate", async || {
        ask(&new, host.addr(), "/hello").await.ok()
    })
    .await;
    assert!(ask(&old, host.addr(), "/hello").await.is_err());
    std::fs::write(tls.key.unwrap(), "no key").unwrap();
    // Longer than a look at the files is away.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(ask(&new, host.addr(), "/hello").await.is_ok());
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_end_the_start_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let good = Authority::new().write(dir.path());
    let other = tempfile::tempdir().unwrap();
    let other = Authority::new().write(other.path());
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let with = |change: &dyn Fn(&mut TlsConfig)| {
        let mut tls = good.clone();
        change(&mut tls);
        tls
    };
    for (tls, said) in [
        (
            with(&|tls| tls.certificate = Some("/nowhere.pem".into())),
            "/nowhere.pem",
        ),
        (
            with(&|tls| tls.certificate = Some(empty.clone())),
            "no certificate",
        ),
        (with(&|tls| tls.key = Some(empty.clone())), "empty.pem"),
        (
            with(&|tls| tls.key.clone_from(&other.key)),
            "certificate.pem",
        ),
        (
            with(&|tls| tls.client_ca = Some(empty.clone())),
            "no certificate",
        ),
    ] {
        let started = Host::open_in_memory().configure(|config| config.server.tls = tls);
        let refused = started.start().await.unwrap_err().to_string();
        assert!(refused.contains(said), "{said}: {refused}");
    }
}

#[tokio::test]
async fn a_client_that_never_finishes_the_handshake_is_disconnected() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(Authority::new().write(dir.path())).await;
    let mut silent = TcpStream::connect(host.addr()).await.unwrap();
    let mut half = TcpStream::connect(host.addr()).await.unwrap();
    half.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    for stream in [&mut silent, &mut half] {
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_mins(1), stream.read_to_end(&mut answer));
        let _ = ended.await.expect("it is ended");
    }
    host.shutdown().await.unwrap();
}
