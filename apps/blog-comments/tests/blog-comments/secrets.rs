//! No secret of the program is shown, wherever it comes from.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../../../../verify/harness/shared/secrets.rs"]
mod shared;

use abide_harness::{Program, Server};
use shared::Secret;

const SECRETS: &[Secret] = &[
    Secret {
        option: Some("--smtp"),
        variable: "BLOG_COMMENTS_SMTP",
        good: "smtp://ada:hunter2@127.0.0.1:9",
        bad: &[
            "hunter2",
            "smtp://ada:hunter2@",
            "smtp://ada:hunter2@example.com",
            "smtp://ada:hunter2@[::1",
        ],
        beside: &[],
    },
    Secret {
        option: Some("--owner-token"),
        variable: "BLOG_COMMENTS_OWNER_TOKEN",
        good: "hunter2",
        bad: &[],
        beside: &["--smtp", "smtp://127.0.0.1:9"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown() {
    let program = |data: &std::path::Path| Program::new(env!("CARGO_BIN_EXE_blog-comments"), data);
    shared::walk(program, SECRETS, async |server: &Server| {
        let client = server.client();
        assert_eq!(client.get("/").await.status, 200);
        client.get("/owner").await;
        assert!(client.get("/api/mails").await.status.is_client_error());
    })
    .await;
}
