//! No secret of the program is shown, wherever it comes from.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../../../../verify/harness/shared/secrets.rs"]
mod shared;

use abide_harness::{Program, Server};
use serde_json::json;
use shared::Secret;

const SECRETS: &[Secret] = &[
    Secret {
        option: None,
        variable: "ABIDE__OUTBOX__WEBHOOK_SECRETS",
        good: "http://127.0.0.1:9/=whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==",
        bad: &[
            "http://127.0.0.1:9/=hunter2",
            "http://127.0.0.1:9/=whsec_hunter2",
            "hunter2",
        ],
        beside: &[],
    },
    Secret {
        option: None,
        variable: "ABIDE__OUTBOX__SMTP",
        good: "smtp://ada:hunter2@127.0.0.1:9",
        bad: &[
            "hunter2",
            "smtp://ada:hunter2@",
            "smtp://ada:hunter2@example.com",
        ],
        beside: &[],
    },
    Secret {
        option: None,
        variable: "ABIDE__OUTBOX__ACS",
        good: "endpoint=http://127.0.0.1:9;accesskey=aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==",
        bad: &[
            "hunter2",
            "endpoint=hunter2;accesskey=aHVudGVyMg==",
            "endpoint=http://a;accesskey=hunter2!",
        ],
        beside: &[],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown() {
    let program = |data: &std::path::Path| {
        Program::new(env!("CARGO_BIN_EXE_abide"), data)
            .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
    };
    shared::walk(program, SECRETS, async |server: &Server| {
        let client = server.client();
        let mail = json!({ "from": "a@example.org", "to": ["b@example.org"], "subject": "s", "text": "t" });
        let event = json!({ "endpoint": "http://127.0.0.1:9/", "type": "a.b", "data": {} });
        let mut taken = 0;
        for (kind, payload) in [("email", mail), ("webhook", event)] {
            let message = json!({ "kind": kind, "payload": payload });
            let answer = client.post("/outbox/a/messages", &message).await;
            taken += u32::from(answer.status == 202);
        }
        assert_eq!(taken, 1, "one kind is set up");
        abide_harness::until("an attempt", async || {
            let list = client.get("/outbox/a/messages").await;
            let text = list.body.to_string();
            assert!(!text.contains("hunter2"), "{text}");
            text.contains("\"last_error\":\"").then_some(())
        })
        .await;
    })
    .await;
}
