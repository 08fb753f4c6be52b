//! The real binary, and a double of the service that it sends through.

use std::path::Path;

use abide_harness::{AcsOptions, AcsServer, Client, Program, until};
use serde_json::{Value, json};

/// `email-outbox serve`, sending through a double.
pub(crate) fn program(data: &Path, double: &AcsServer) -> Program {
    Program::new(env!("CARGO_BIN_EXE_email-outbox"), data)
        .arg("--acs")
        .arg(&double.endpoint())
        .arg("--acs-key")
        .arg(double.access_key())
}

/// A double that wants to be asked again after a second.
pub(crate) async fn double() -> AcsServer {
    AcsServer::start(AcsOptions {
        poll_after: Some(1),
        ..AcsOptions::default()
    })
    .await
}

/// Enqueues a mail to one; its id.
pub(crate) async fn enqueue(client: &Client, to: &str, subject: &str) -> i64 {
    let draft = json!({ "to": [to], "subject": subject, "text": "Hello." });
    let answer = client.post("/api/mails", &draft).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.body["mail"].as_i64().expect("an id")
}

/// All that is known of a mail.
pub(crate) async fn show(client: &Client, id: i64) -> Value {
    let answer = client.get(&format!("/api/mails/{id}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Waits until a mail has this status.
pub(crate) async fn becomes(client: &Client, id: i64, status: &str) -> Value {
    until(&format!("mail {id} to be {status}"), async || {
        let mail = show(client, id).await;
        (mail["record"]["status"] == status).then_some(mail)
    })
    .await
}
