//! TLS for client connections.
//!
//! Contract: certificates and keys are PEM files. They are loaded at the start, where an error ends the program, and
//! again within [`limits::TLS_RELOAD`] of a change, where an error is logged and the previous ones stay in use. With a
//! file of authorities, only clients with a certificate signed by one of them are served.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{HostError, TlsConfig, limits};

/// The byte stream of a client connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The TLS configuration of a listener.
pub(crate) struct Tls {
    files: TlsConfig,
    seen: Mutex<Stamps>,
    current: RwLock<TlsAcceptor>,
}

/// When the files were last changed, and their sizes.
type Stamps = Vec<Option<(SystemTime, u64)>>;

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Loads the files, if there are any.
    pub(crate) fn load(files: &TlsConfig) -> Result<Option<Arc<Self>>, HostError> {
        let (Some(certificate), Some(key)) = (&files.certificate, &files.key) else {
            return Ok(None);
        };
        let seen = stamps(files);
        let acceptor =
            read(certificate, key, files.client_ca.as_deref()).map_err(HostError::Tls)?;
        Ok(Some(Arc::new(Self {
            files: files.clone(),
            seen: Mutex::new(seen),
            current: RwLock::new(acceptor),
        })))
    }

    /// Performs the handshake with a client, within this time.
    pub(crate) async fn accept(&self, stream: TcpStream, patience: Duration) -> io::Result<Stream> {
        let acceptor = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let stream = timeout(patience, acceptor.accept(stream)).await??;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Reloads the files whenever they have changed.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        let mut tick = tokio::time::interval(limits::TLS_RELOAD / 2);
        loop {
            tick.tick().await;
            let tls = Arc::clone(&self);
            // A panic is logged by the task, and the next check runs.
            let _ = tokio::task::spawn_blocking(move || tls.refresh()).await;
        }
    }

    fn refresh(&self) {
        let found = stamps(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == found {
            return;
        }
        let (Some(certificate), Some(key)) = (&self.files.certificate, &self.files.key) else {
            return;
        };
        match read(certificate, key, self.files.client_ca.as_deref()) {
            Ok(acceptor) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
                tracing::info!(certificate = %certificate.display(), "reloaded the TLS certificate");
            }
            // They may be half written: the next change triggers another attempt.
            Err(error) => {
                tracing::error!(%error, "cannot use the changed TLS files; keeping the previous certificate");
            }
        }
        *seen = found;
    }
}

fn stamps(files: &TlsConfig) -> Stamps {
    let paths = [&files.certificate, &files.key, &files.client_ca];
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.modified().ok()?, file.len()))
    };
    paths.into_iter().flatten().map(stamp).collect()
}

fn read(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<TlsAcceptor, String> {
    let of = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let chain = certificates(certificate)?;
    let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, &error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| of(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| of(path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key_of)
        .map_err(|error| of(certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| failed(&error))?
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))?;
    if found.is_empty() {
        return Err(failed(&"it contains no certificate"));
    }
    Ok(found)
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
