//! No secret of the program is shown, wherever it comes from.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../../../../verify/harness/shared/secrets.rs"]
mod shared;

use abide_harness::{Program, Server};
use serde_json::json;
use shared::Secret;

const SECRETS: &[Secret] = &[
    Secret {
        option: Some("--acs-key"),
        variable: "EMAIL_OUTBOX_ACS_KEY",
        good: "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==",
        bad: &["hunter2!", "aHVudGVyMmh1bnRlcjJ?"],
        beside: &["--acs", "http://127.0.0.1:9"],
    },
    Secret {
        option: Some("--smtp"),
        variable: "EMAIL_OUTBOX_SMTP",
        good: "smtp://ada:hunter2@127.0.0.1:9",
        bad: &[
            "hunter2",
            "smtp://ada:hunter2@",
            "smtp://ada:hunter2@example.com",
            "smtp://ada:hunter2@[::1",
            "smtps://ada:hunter2@a:b",
        ],
        beside: &[],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown() {
    let program = |data: &std::path::Path| Program::new(env!("CARGO_BIN_EXE_email-outbox"), data);
    shared::walk(program, SECRETS, async |server: &Server| {
        let client = server.client();
        let mail = json!({ "to": ["ada@example.org"], "subject": "s", "text": "t" });
        let taken = client.post("/api/mails", &mail).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        // One attempt at the mail fails.
        abide_harness::until("an attempt", async || {
            let list = client.get("/api/mails").await;
            let text = list.body.to_string();
            assert!(!text.contains("hunter2"), "{text}");
            text.contains("\"last_error\":\"").then_some(())
        })
        .await;
    })
    .await;
}

#[test]
fn a_variable_of_a_service_that_is_not_used_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (option, service, variable) in [
        ("--smtp", "smtp://127.0.0.1:9", "EMAIL_OUTBOX_ACS_KEY"),
        ("--acs", "http://127.0.0.1:9", "EMAIL_OUTBOX_SMTP_FILE"),
    ] {
        let program = Program::new(env!("CARGO_BIN_EXE_email-outbox"), dir.path().join("data"));
        let program = program.arg(option).arg(service).env(variable, "hunter2");
        let (status, said) = abide_harness::refused(program.command());
        assert!(!status.success() && !said.contains("hunter2"), "{said}");
        assert!(said.contains(variable) && said.contains("--acs"), "{said}");
    }
}
