//! Commands that reach a node over TLS whose certificate a private authority has signed.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command};

use abide::server::access::{AccessStore, NewToken, Role};
use abide_harness::Program;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Writes an authority's certificate, and a certificate and key for `localhost` that it has signed.
fn certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap();
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("cert.pem", own.pem()),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

#[test]
fn a_command_reaches_a_node_over_https_if_it_knows_the_authority() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    certificates(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let access = AccessStore::open(&data).unwrap();
    let token = access.create_token(NewToken::new(Role::Read)).unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_abide"), &data)
        .env("ABIDE__ADMIN__TLS_CERTIFICATE", &file("cert.pem"))
        .env("ABIDE__ADMIN__TLS_KEY", &file("key.pem"))
        .admin_speaks_tls();
    let server = program.start();
    let (_, port) = server.admin().rsplit_once(':').unwrap();
    let list = |authority: Option<&str>, host: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command
            .args([
                "alarms",
                "list",
                "--admin",
                &format!("https://{host}:{port}"),
            ])
            .env("ABIDE_TOKEN", &token.text)
            .env_remove("SSL_CERT_FILE")
            .env_remove("SSL_CERT_DIR")
            .current_dir(dir.path());
        if let Some(authority) = authority {
            command.env("SSL_CERT_FILE", file(authority));
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let (listed, said) = list(Some("ca.pem"), "localhost");
    assert!(listed, "{said}");
    let (listed, said) = list(None, "localhost");
    assert!(!listed && said.contains("no node answers"), "{said}");
    let (listed, said) = list(Some("ca.pem"), "127.0.0.1");
    assert!(!listed, "the certificate is for another name: {said}");
    server.stop();
}
