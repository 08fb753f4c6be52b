//! The commands that ask the running program.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use abide_harness::{Client, Program};
use serde_json::{Value, json};

async fn create(client: &Client, path: &str, body: Value) -> String {
    let answer = client.post(path, &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_replay_and_check_chains_and_make_the_read_model_anew() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_billing");
    let server = Program::new(program, dir.path().join("data")).start();
    let client = server.client();
    let product = create(&client, "/v1/products", json!({ "name": "Gold" })).await;
    let url = client.url("");
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).arg("--url").arg(&url);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let said = if output.status.success() {
            output.stdout
        } else {
            output.stderr
        };
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (done, text) = run(&["replay", &product, "--until", "1"]).await;
    assert!(
        done && text.contains("created") && text.contains("Gold"),
        "{text}"
    );
    let (done, text) = run(&["check", &product]).await;
    assert!(done && text.contains("1 outcomes replay"), "{text}");
    let (done, text) = run(&["check", "--all"]).await;
    assert!(
        done && text.starts_with("1 resources, 1 outcomes"),
        "{text}"
    );
    let model = dir.path().join("data/read-model.db");
    assert!(model.exists(), "the read model is in the data directory");
    let mode = model
        .parent()
        .unwrap()
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0, "others may not read the data directory");
    let (done, text) = run(&["rebuild"]).await;
    assert!(
        done && text.starts_with("1 resources are in the read model, 0 failed"),
        "{text}"
    );
    for (wrong, told) in [
        (&["check", "prod_nobody"][..], "There is no product"),
        (&["replay", "nobody"], "is not a resource id"),
        (
            &["replay", &product, "--until", "noon"],
            "not a position in a chain",
        ),
    ] {
        let (done, text) = run(wrong).await;
        assert!(!done && text.contains(told), "{wrong:?}: {text}");
    }
}
