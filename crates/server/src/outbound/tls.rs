//! TLS for connections that this process opens, whatever is spoken over them.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Read once per process, with the first connection.
static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();

/// Trusts the machine's certificates: those of the operating system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`. Reads
/// files on the first call. `protocols` are offered in this order (ALPN).
pub fn client_config(protocols: &[&str]) -> Result<ClientConfig, rustls::Error> {
    let roots = Arc::clone(ROOTS.get_or_init(|| Arc::new(trusted())));
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    Ok(config)
}

fn trusted() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        tracing::warn!(
            errors = ?found.errors,
            "this machine has no trusted certificates, so no https:// address can be reached: install the package \
             ca-certificates, or name a file in SSL_CERT_FILE"
        );
    }
    roots
}
