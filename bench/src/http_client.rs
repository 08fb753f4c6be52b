//! The HTTP client of objects, for other code of the bench. It does not use TLS.

use std::sync::Arc;

use anyhow::Result;

pub(crate) fn new() -> Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls);
    Ok(client.no_proxy().build()?)
}
