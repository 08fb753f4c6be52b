//! No secret of the program is shown, wherever it comes from.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../../../../verify/harness/shared/secrets.rs"]
mod shared;

use abide_harness::{Program, Server};
use serde_json::json;
use shared::Secret;

const GATEWAY: &[&str] = &["--gateway", "http://127.0.0.1:9"];

const SECRETS: &[Secret] = &[
    Secret {
        option: Some("--gateway-key"),
        variable: "BILLING_GATEWAY_KEY",
        good: "hunter2",
        bad: &[],
        beside: GATEWAY,
    },
    Secret {
        option: Some("--gateway-events-secret"),
        variable: "BILLING_GATEWAY_EVENTS_SECRET",
        good: "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==",
        bad: &["hunter2", "whsec_hunter2", "whsec_aHVudGVyMg=="],
        beside: &["--gateway", "http://127.0.0.1:9", "--gateway-key", "key"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown() {
    let program = |data: &std::path::Path| {
        Program::new(env!("CARGO_BIN_EXE_billing"), data)
            .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
    };
    shared::walk(program, SECRETS, async |server: &Server| {
        let client = server.client();
        assert_eq!(client.get("/").await.status, 200);
        let forged = client.post("/v1/gateway/events", &json!({})).await;
        assert!(forged.status.is_client_error(), "{forged:?}");
    })
    .await;
}

#[test]
fn a_password_of_postgresql_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    for address in [
        "host=127.0.0.1 password=hunter2 sslmode=nonsense",
        "host=127.0.0.1 password=hunter2 port=hunter",
        "postgres://ada:hunter2@[::1",
        "password='hunter2",
    ] {
        let program = Program::new(env!("CARGO_BIN_EXE_billing"), dir.path().join("data"));
        let (status, said) =
            abide_harness::refused(program.arg("--postgres").arg(address).command());
        assert!(!status.success() && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_variable_of_a_gateway_that_is_not_used_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for variable in [
        "BILLING_GATEWAY_KEY",
        "BILLING_GATEWAY_KEY_FILE",
        "BILLING_GATEWAY_EVENTS_SECRET",
        "BILLING_GATEWAY_EVENTS_SECRET_FILE",
    ] {
        let program = Program::new(env!("CARGO_BIN_EXE_billing"), dir.path().join("data"));
        let (status, said) = abide_harness::refused(program.env(variable, "hunter2").command());
        assert!(!status.success() && !said.contains("hunter2"), "{said}");
        assert!(
            said.contains(variable) && said.contains("--gateway"),
            "{said}"
        );
    }
}
