//! The real binary, and a receiver of what it sends.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use abide_harness::{Answer, Client, Program, until};
use http::Method;
use serde_json::Value;

/// The key that the program signs with.
pub(crate) const KEY: &str = "a key that is hard to guess";

/// `request-scheduler serve`, which may send to this machine.
pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_request-scheduler"), data)
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
        .env("REQUEST_SCHEDULER_SIGNING_KEY", KEY)
}

/// Makes a request; its id.
pub(crate) async fn make(client: &Client, definition: &Value) -> String {
    let answer = client.post("/", definition).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["id"].as_str().expect("an id").to_owned()
}

/// Puts a request under an id.
pub(crate) async fn put(client: &Client, id: &str, definition: &Value) -> Answer {
    let answer = client.post(&format!("/{id}"), definition).await;
    assert!(answer.status.is_success(), "{answer:?}");
    assert_eq!(answer.body["id"], id);
    answer
}

pub(crate) async fn show(client: &Client, id: &str) -> Answer {
    client.get(&format!("/api/requests/{id}")).await
}

pub(crate) async fn runs(client: &Client, id: &str) -> Vec<Value> {
    let answer = client.get(&format!("/api/requests/{id}/runs")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["runs"].as_array().expect("runs").clone()
}

pub(crate) async fn act(client: &Client, id: &str, verb: &str) -> Answer {
    let path = format!("/api/requests/{id}/{verb}");
    client.ask(Method::POST, &path, "").await
}

/// Waits until neither the request nor the index knows it any more.
pub(crate) async fn is_forgotten(client: &Client, id: &str) {
    until(&format!("request {id} to be forgotten"), async || {
        let is_gone = show(client, id).await.status == 404;
        (is_gone && listed(client, id).await.is_none()).then_some(())
    })
    .await;
}

/// What the list says of a request.
pub(crate) async fn listed(client: &Client, id: &str) -> Option<Value> {
    let answer = client.get("/api/requests?limit=200").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let all = answer.body["requests"].as_array().expect("a list").clone();
    all.into_iter().find(|entry| entry["id"] == id)
}

/// Waits until the list says that a request is in a state.
pub(crate) async fn is_listed(client: &Client, id: &str, state: &str) -> Value {
    until(
        &format!("request {id} to be listed as {state}"),
        async || {
            listed(client, id)
                .await
                .filter(|entry| entry["state"] == state)
        },
    )
    .await
}

/// Milliseconds since 1970, this many from now.
pub(crate) fn from_now(millis: i64) -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_millis()).expect("before the year 9999") + millis
}
