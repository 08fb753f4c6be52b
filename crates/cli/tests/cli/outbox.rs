//! `abide serve` as an outbox, from outside: its API, its receivers, `kill -9`, and `abide outbox`.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command};

use abide_harness::{Answer, Client, Program, Receiver, ReceiverAct, Server};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

const MESSAGES: &str = "/outbox/orders/messages";

fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_abide"), data)
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
        .env("ABIDE__OUTBOX__RETRY_BASE", "10ms")
        .env("ABIDE__OUTBOX__MAX_ATTEMPTS", "3")
}

fn request(url: &str, order: u32) -> Value {
    json!({ "kind": "http", "payload": { "url": url, "body": { "json": { "order": order } } } })
}

async fn enqueue(client: &Client, key: &str, message: &Value) -> Answer {
    let request = Request::builder()
        .method(Method::POST)
        .uri(client.url(MESSAGES))
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(message.to_string().into_bytes().into());
    client.send(request.unwrap()).await.unwrap()
}

async fn until(client: &Client, id: i64, status: &str) -> Value {
    let path = format!("{MESSAGES}/{id}");
    abide_harness::until(&format!("message {id} to be {status}"), async || {
        let shown = client.get(&path).await;
        assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
        (shown.body["status"] == status).then_some(shown.body)
    })
    .await
}

/// What the command prints, or says if it fails.
async fn abide(server: &Server, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.arg("outbox").args(args);
    command.args(["--url", &format!("http://{}", server.address())]);
    // A proxy that is not there, and that the command must not ask.
    command.env("http_proxy", "http://127.0.0.1:1");
    abide_harness::printed(command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_taken_is_delivered_whatever_happens_to_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let receiver = Receiver::start().await;
    receiver.script([
        ReceiverAct::status(503).retry_after(0),
        // The answer never comes: the server is killed meanwhile.
        ReceiverAct::hang(),
    ]);
    let server = program(&data).start();
    let message = request(&receiver.url("/orders"), 4711);
    let taken = enqueue(&server.client(), "order 4711", &message).await;
    assert_eq!(
        (taken.status, &taken.body["id"]),
        (StatusCode::ACCEPTED, &json!(1))
    );
    receiver.wait_for(2).await;
    server.kill();

    let server = program(&data).start();
    let client = server.client();
    let again = enqueue(&client, "order 4711", &message).await;
    assert_eq!((again.status, &again.body), (taken.status, &taken.body));
    let other = enqueue(&client, "order 4711", &request(&receiver.url("/"), 1)).await;
    assert_eq!(
        (other.status, other.code()),
        (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")
    );
    let sent = until(&client, 1, "sent").await;
    let lost = sent["history"].as_array().unwrap().iter();
    assert_eq!(
        lost.filter(|change| change["event"] == "unknown").count(),
        1,
        "{sent}"
    );
    let requests = receiver.wait_for(3).await;
    assert_eq!(requests.len(), 3, "refused, lost, taken");
    for request in &requests {
        assert_eq!(request.path(), "/orders");
        assert_eq!(request.key(), sent["idempotency_key"].as_str().unwrap());
    }
    let listed = client.get(MESSAGES).await.body;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 1);
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_has_a_clear_result() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let refused = async |message: Value, status: u16, code: &str, says: &str| {
        let answer = client.post(MESSAGES, &message).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{answer:?}"
        );
        let told = answer.body["error"]["message"].as_str().unwrap();
        assert!(told.contains(says), "{told}");
    };
    let fax = json!({ "kind": "fax", "payload": {} });
    refused(fax, 400, "unknown_kind", "`http`").await;
    refused(request("not a url", 1), 400, "invalid_message", "URL").await;
    refused(
        request("ftp://example.com/", 1),
        400,
        "invalid_message",
        "http",
    )
    .await;
    let text = "x".repeat(1 << 20);
    let large = json!({ "kind": "http", "payload": { "url": "http://a.example/", "body": { "text": text } } });
    refused(large, 413, "payload_too_large", "1048576").await;

    // Which addresses are forbidden is known when one is connected to: the message is taken, and becomes a dead letter.
    let forbidden = request("http://169.254.169.254/latest/meta-data", 1);
    let taken = client.post(MESSAGES, &forbidden).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    let failed = until(&client, taken.body["id"].as_i64().unwrap(), "failed").await;
    let told = failed["last_error"].as_str().unwrap();
    assert!(
        told.contains("link-local") && told.contains("outbound.allow_private"),
        "{told}"
    );
    assert_eq!(failed["attempts"], 1, "it is not tried again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_looks_into_an_outbox_and_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.script([404, 404, 404].map(ReceiverAct::status));
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    for order in 1..=3 {
        client
            .post(MESSAGES, &request(&receiver.url("/orders"), order))
            .await;
        until(&client, i64::from(order), "failed").await;
    }
    let mut later = request(&receiver.url("/orders"), 4);
    later["delay"] = json!(3_600_000);
    client.post(MESSAGES, &later).await;

    let listed = abide(&server, &["list", "orders"]).await.unwrap();
    assert!(
        listed.starts_with("ID\tSTATUS") && listed.contains("\n4\tqueued\t0\t"),
        "{listed}"
    );
    let failed = abide(
        &server,
        &["list", "orders", "--status", "failed", "--limit", "2"],
    )
    .await;
    let failed = failed.unwrap();
    assert_eq!(failed.lines().count(), 3, "{failed}");
    assert!(failed.contains("404"), "{failed}");
    let shown = abide(&server, &["show", "orders", "1"]).await.unwrap();
    assert!(
        shown.contains("payload\t{") && shown.contains("sending"),
        "{shown}"
    );
    let status = abide(&server, &["status", "orders"]).await.unwrap();
    assert!(
        status.contains("queued\t1\n") && status.contains("failed\t3\n"),
        "{status}"
    );

    let said = |text: &str| Ok(format!("{text}\n"));
    assert_eq!(
        abide(&server, &["cancel", "orders", "4"]).await,
        said("message 4 is canceled")
    );
    let refused = abide(&server, &["cancel", "orders", "1"])
        .await
        .unwrap_err();
    assert!(refused.contains("dead letter"), "{refused}");
    let refused = abide(&server, &["discard", "orders", "4"])
        .await
        .unwrap_err();
    assert!(refused.contains("only a dead letter"), "{refused}");
    let changed = request(&receiver.url("/mended"), 1)["payload"].to_string();
    assert_eq!(
        abide(&server, &["edit", "orders", "1", &changed]).await,
        said("message 1 is changed: redrive it")
    );
    let refused = abide(&server, &["edit", "orders", "1", "{"])
        .await
        .unwrap_err();
    assert!(refused.contains("not JSON"), "{refused}");
    assert_eq!(
        abide(&server, &["redrive", "orders", "1"]).await,
        said("message 1 is queued")
    );
    until(&client, 1, "sent").await;
    let requests = receiver.wait_for(4).await;
    assert_eq!(requests.last().unwrap().path(), "/mended");
    assert_eq!(
        abide(&server, &["discard", "orders", "2"]).await,
        said("message 2 is discarded")
    );
    let all = ["redrive", "orders", "--all", "--kind", "http"];
    assert_eq!(abide(&server, &all).await, said("1 dead letter redriven"));
    until(&client, 3, "sent").await;
    let none = abide(&server, &["show", "orders", "9"]).await.unwrap_err();
    assert!(none.contains("There is no message 9"), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_ends_the_rest_of_a_destination() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.script([ReceiverAct::status(429).retry_after(3_600)]);
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let order = request(&receiver.url("/orders"), 1);
    let mut next = order.clone();
    next["schedule"] = json!([0]);
    client.post(MESSAGES, &next).await;
    receiver.wait_for(1).await;
    abide_harness::until("the destination to rest", async || {
        let status = abide(&server, &["status", "orders"]).await.unwrap();
        status.contains("paused until 2").then_some(())
    })
    .await;
    let failing = abide(&server, &["failing", "orders"]).await.unwrap();
    let (destinations, messages) = failing.split_once("ID\tSTATUS").unwrap();
    assert!(destinations.contains("paused until 2"), "{failing}");
    assert_eq!(messages.lines().count(), 1, "no message fails: {failing}");
    // The first waits an hour; this one waits for its destination.
    client.post(MESSAGES, &order).await;
    let waits = client.get(&format!("{MESSAGES}/2")).await.body;
    assert_eq!(waits["status"], "queued", "{waits}");

    let to = receiver.url("");
    let resumed = abide(&server, &["resume", "orders", &to]).await;
    assert_eq!(resumed, Ok(format!("resumed sending to {to}\n")));
    until(&client, 2, "sent").await;
    let status = abide(&server, &["status", "orders"]).await.unwrap();
    assert!(!status.contains("paused until"), "{status}");
    let elsewhere = abide(&server, &["resume", "orders", "http://a.example"]).await;
    let told = elsewhere.unwrap_err();
    assert!(told.contains("no messages to this destination"), "{told}");
}

/// Files of objects' databases.
fn databases(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            databases(&path)
        } else {
            usize::from(path.extension().is_some_and(|ending| ending == "sqlite"))
        }
    };
    entries.map(|entry| count(entry.unwrap().path())).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_for_an_outbox_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    for name in 0..3 {
        let outbox = format!("/outbox/nobody-{name}");
        let answer = server.client().get(&format!("{outbox}/messages/1")).await;
        assert_eq!(answer.code(), "no_such_message");
        for read in [
            "",
            "/messages",
            "/dead-letters",
            "/failing",
            "/page",
            "/live",
        ] {
            server.client().get(&format!("{outbox}{read}")).await;
        }
    }
    assert!(server.stop().success(), "a clean stop");
    assert_eq!(databases(&data.join("objects")), 0);
    let server = program(&data).start();
    let message = request("http://127.0.0.1:1/", 1);
    server.client().post(MESSAGES, &message).await;
    assert!(server.stop().success(), "a clean stop");
    assert_eq!(databases(&data.join("objects")), 1, "the count is true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_control_character_of_a_payload_reaches_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    // CSI as one character (U+009B), and a mark that turns text around: JSON needs no escapes for them.
    let mut message = request("", 1);
    message["payload"] =
        json!({ "url": "http://example.com/", "body": { "text": "\u{9b}2J\u{202e}" } });
    message["delay"] = json!(3_600_000);
    let taken = server.client().post(MESSAGES, &message).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
    let shown = abide(&server, &["show", "orders", "1"]).await.unwrap();
    assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_operators_do_over_rpc_is_in_the_audit_log() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).env("ABIDE__RPC__ENABLED", "true").start();
    let client = server.client();
    let nowhere = abide_harness::Nobody::new();
    let url = format!("http://{}/", nowhere.address());
    enqueue(&client, "one", &request(&url, 1)).await;
    until(&client, 1, "failed").await;
    let call = async |method: &str, args: Value| {
        let path = format!("/rpc/Outbox/orders/{method}");
        client.post(&path, &args).await
    };
    assert_eq!(call("show", json!([1])).await.status, 200);
    let payload = request(&url, 7)["payload"].to_string();
    assert_eq!(call("edit", json!([1, payload])).await.status, 200);
    assert_eq!(call("redrive", json!([1])).await.status, 200);
    until(&client, 1, "failed").await;
    let all =
        json!({ "kind": null, "destination": null, "before": null, "limit": 10, "after": null });
    assert_eq!(call("discard_all", json!([all])).await.status, 200);
    server.stop();
    let mut audit = Command::new(env!("CARGO_BIN_EXE_abide"));
    let audit = audit.args(["audit", "--data"]).arg(&data).output().unwrap();
    let audit = String::from_utf8(audit.stdout).unwrap();
    let rows: Vec<_> = audit.lines().skip(1).collect();
    let [discard, redrive, edit] = rows[..] else {
        panic!("{audit}");
    };
    assert!(
        discard.contains("\tdiscard_all\tOutbox/orders\t200\t[{"),
        "{audit}"
    );
    assert!(
        redrive.ends_with("\tredrive\tOutbox/orders\t200\t[1]"),
        "{audit}"
    );
    assert!(edit.ends_with("\tedit\tOutbox/orders\t200\t-"), "{audit}");
}
