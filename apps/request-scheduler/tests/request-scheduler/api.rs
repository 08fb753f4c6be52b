//! The program as its clients and the receivers of its requests see it.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{
    KEY, act, from_now, is_forgotten, is_listed, listed, make, program, put, runs, show,
};
use abide::outbox::handlers::verify;
use abide_harness::{Receiver, ReceiverAct, until};
use http::{Method, Request};
use http_body_util::Full;
use request_scheduler::SigningKey;
use serde_json::{Value, json};

/// An hour, in milliseconds.
const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_time_is_sent_now_unchanged_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let log = dir.path().join("log");
    let server = program(&dir.path().join("data")).log_to(&log).start();
    let client = server.client();
    let definition = json!({
        "url": receiver.url("/orders?x=1"),
        "requestInit": {
            "method": "put", "headers": { "X-Shop": "7", "Content-Type": "application/json" }, "body": "{\"a\":1}",
        },
    });
    let id = make(&client, &definition).await;
    let sent = &receiver.wait_for(1).await[0];
    assert_eq!(sent.method, "PUT");
    assert_eq!(sent.uri, "/orders?x=1");
    assert_eq!(sent.header("x-shop"), "7");
    assert_eq!(sent.header("content-type"), "application/json");
    assert_eq!(sent.body, "{\"a\":1}");
    assert_eq!(sent.header("webhook-id"), sent.header("idempotency-key"));
    assert!(!sent.key().is_empty());

    is_forgotten(&client, &id).await;
    assert_eq!(runs_of_unknown(&client, &id).await, 404);
    assert_eq!(receiver.received().len(), 1, "it was sent once");
    assert!(server.stop().success());
    let logged = std::fs::read_to_string(log).unwrap();
    assert!(logged.is_empty(), "{logged}");
}

async fn runs_of_unknown(client: &abide_harness::Client, id: &str) -> u16 {
    let answer = client.get(&format!("/api/requests/{id}/runs")).await;
    assert_eq!(answer.code(), "no_such_request");
    answer.status.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_sent_at_its_time_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let at = from_now(700);
    let id = make(
        &client,
        &json!({ "url": receiver.url("/"), "triggerAt": at }),
    )
    .await;
    let shown = show(&client, &id).await.body;
    assert_eq!(shown["state"], "scheduled");
    assert_eq!(shown["nextAt"], at);
    receiver.wait_for(1).await;
    assert!(from_now(0) >= at, "it came too early");
    is_forgotten(&client, &id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_runs_again_and_again_each_time_under_another_key() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let id = make(
        &client,
        &json!({ "url": receiver.url("/"), "triggerEverySeconds": 1 }),
    )
    .await;
    let sent = receiver.wait_for(4).await;
    let mut keys: Vec<_> = sent
        .iter()
        .map(|request| request.key().to_owned())
        .collect();
    keys.dedup();
    assert_eq!(keys.len(), sent.len());
    let history = until("the history to have four runs", async || {
        Some(runs(&client, &id).await)
            .filter(|runs| runs.iter().filter(|run| run["status"] == "sent").count() >= 4)
    })
    .await;
    let due: Vec<i64> = history
        .iter()
        .map(|run| run["dueAt"].as_i64().unwrap())
        .collect();
    // The first run was at once, the others are counted from it.
    for pair in due[..due.len() - 1].windows(2) {
        assert_eq!((pair[0] - pair[1]) % 1_000, 0, "it does not drift: {due:?}");
    }
    assert_eq!(show(&client, &id).await.body["state"], "scheduled");
    is_listed(&client, &id, "scheduled").await;
    let answer = client
        .ask(Method::DELETE, &format!("/api/requests/{id}"), "")
        .await;
    assert_eq!(answer.status, 204);
    is_forgotten(&client, &id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identical_replacement_changes_nothing_another_cancels_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let (later, soon) = (from_now(HOUR), from_now(300));
    let first = json!({ "url": receiver.url("/first"), "triggerAt": later });
    assert_eq!(put(&client, "report", &first).await.status, 201);
    let made = show(&client, "report").await.body;
    assert_eq!(put(&client, "report", &first).await.status, 200);
    assert_eq!(show(&client, "report").await.body, made);

    let second = json!({ "url": receiver.url("/second"), "triggerAt": soon });
    assert_eq!(put(&client, "report", &second).await.status, 200);
    let sent = receiver.wait_for(1).await;
    assert_eq!(sent[0].path(), "/second");
    is_forgotten(&client, "report").await;
    // The name is free again, also while the object that had it is in memory.
    assert_eq!(put(&client, "report", &first).await.status, 201);
    assert_eq!(show(&client, "report").await.body["nextAt"], later);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_is_repeated_under_the_same_key_until_it_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.script([
        ReceiverAct::status(500),
        ReceiverAct::lost(),
        ReceiverAct::status(200),
    ]);
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let id = make(
        &client,
        &json!({ "url": receiver.url("/"), "retryAfterSeconds": [0, 0, 0] }),
    )
    .await;
    let sent = receiver.wait_for(3).await;
    assert!(sent.iter().all(|request| request.key() == sent[0].key()));
    is_forgotten(&client, &id).await;
    assert_eq!(receiver.received().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_request_stays_with_its_reason_until_retried_or_canceled() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.script([ReceiverAct::body(404, "no such shop")]);
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let id = make(&client, &json!({ "url": receiver.url("/") })).await;
    let entry = is_listed(&client, &id, "failed").await;
    let error = entry["last"]["error"].as_str().unwrap();
    assert!(
        error.contains("404") && error.contains("no such shop"),
        "{error}"
    );
    let run = &runs(&client, &id).await[0];
    assert_eq!(run["status"], "failed");
    assert_eq!(run["attempts"], 1);
    assert_eq!(act(&client, &id, "pause").await.code(), "has_run");

    assert_eq!(act(&client, &id, "retry").await.status, 200);
    is_forgotten(&client, &id).await;
    assert_eq!(receiver.received().len(), 2);
    assert_eq!(act(&client, &id, "retry").await.code(), "no_such_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_request_does_not_run_until_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let at = from_now(400);
    put(
        &client,
        "held",
        &json!({ "url": receiver.url("/held"), "triggerAt": at }),
    )
    .await;
    assert_eq!(act(&client, "held", "pause").await.body["state"], "paused");
    assert_eq!(
        act(&client, "held", "pause").await.status,
        200,
        "it is paused already"
    );
    is_listed(&client, "held", "paused").await;
    // Another, due at the same time, shows that the time has come.
    put(
        &client,
        "free",
        &json!({ "url": receiver.url("/free"), "triggerAt": at }),
    )
    .await;
    is_forgotten(&client, "free").await;
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(show(&client, "held").await.body["nextAt"], Value::Null);

    assert_eq!(act(&client, "held", "resume").await.status, 200);
    is_forgotten(&client, "held").await;
    assert_eq!(receiver.received()[1].path(), "/held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_request_is_sent_no_more_also_if_its_run_is_being_retried() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.decide(|_| ReceiverAct::status(503));
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let id = make(
        &client,
        &json!({ "url": receiver.url("/"), "retryAfterSeconds": [600] }),
    )
    .await;
    until("the first attempt to have failed", async || {
        let runs = runs(&client, &id).await;
        let error = runs.first()?["error"].as_str()?.to_owned();
        error.contains("503").then_some(())
    })
    .await;
    let answer = client
        .ask(Method::DELETE, &format!("/api/requests/{id}"), "")
        .await;
    assert_eq!(answer.status, 204);
    assert_eq!(show(&client, &id).await.status, 404);
    is_forgotten(&client, &id).await;
    assert_eq!(receiver.received().len(), 1);
    let answer = client
        .ask(Method::DELETE, &format!("/api/requests/{id}"), "")
        .await;
    assert_eq!(answer.code(), "no_such_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sent_request_verifies_with_its_receiver_s_secret_only() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data")).start();
    let definition = json!({
        "url": receiver.url("/hook"), "requestInit": { "method": "POST", "body": "hello" },
    });
    make(&server.client(), &definition).await;
    let sent = &receiver.wait_for(1).await[0];
    let key = SigningKey::new(KEY.to_owned()).unwrap();
    let secret = key.secret(&receiver.url("/anything")).unwrap();
    let now = from_now(0) / 1_000;
    verify(&[secret], &sent.headers, &sent.body, now, 300).unwrap();
    let other = key.secret("https://example.com/hook").unwrap();
    verify(&[other], &sent.headers, &sent.body, now, 300).unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_address_gets_nothing_unless_it_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data"))
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "10.0.0.0/8")
        .start();
    let client = server.client();
    let id = make(&client, &json!({ "url": receiver.url("/") })).await;
    let entry = is_listed(&client, &id, "failed").await;
    let error = entry["last"]["error"].as_str().unwrap();
    assert!(error.contains("outbound.allow_private"), "{error}");
    assert!(receiver.received().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_comes_in_pages_newest_first_and_by_state() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let definition = json!({ "url": "https://example.com/", "triggerAt": from_now(HOUR) });
    let mut made = Vec::new();
    for number in 0..7 {
        made.push(format!("r{number}"));
        put(&client, &made[number], &definition).await;
        is_listed(&client, &made[number], "scheduled").await;
    }
    act(&client, "r3", "pause").await;
    is_listed(&client, "r3", "paused").await;
    let mut found = Vec::new();
    let mut path = "/api/requests?limit=3".to_owned();
    let mut pages = 0;
    loop {
        let page = client.get(&path).await.body;
        pages += 1;
        for entry in page["requests"].as_array().unwrap() {
            found.push(entry["id"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => path = format!("/api/requests?limit=3&before={next}"),
            None => break,
        }
    }
    made.reverse();
    assert_eq!((found, pages), (made, 3));
    let paused = client.get("/api/requests?state=paused").await.body;
    assert_eq!(paused["requests"].as_array().unwrap().len(), 1);
    let counts = client.get("/api/counts").await.body;
    assert_eq!(
        counts,
        json!({ "scheduled": 6, "running": 0, "paused": 1, "failed": 0 })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_requests_holds_and_still_allows_replacements() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .arg("--max-requests=2")
        .start();
    let client = server.client();
    let at =
        |hours: i64| json!({ "url": "https://example.com/", "triggerAt": from_now(hours * HOUR) });
    put(&client, "a", &at(1)).await;
    put(&client, "b", &at(1)).await;
    for path in ["/", "/c"] {
        let refused = client.post(path, &at(1)).await;
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.code(), "too_many_requests");
    }
    assert_eq!(put(&client, "a", &at(2)).await.status, 200);
    client.ask(Method::DELETE, "/api/requests/a", "").await;
    is_forgotten(&client, "a").await;
    until("the count to be taken anew", async || {
        (client.post("/c", &at(1)).await.status == 201).then_some(())
    })
    .await;
    assert!(listed(&client, "a").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_may_be_secrets_are_sent_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let definition = json!({
        "url": receiver.url("/?key=hush"), "triggerEverySeconds": 3_600,
        "requestInit": { "headers": { "Authorization": "Bearer hush" } },
    });
    let id = make(&client, &definition).await;
    assert_eq!(
        receiver.wait_for(1).await[0].header("authorization"),
        "Bearer hush"
    );
    let shown = show(&client, &id).await.body;
    assert_eq!(
        shown["definition"]["requestInit"]["headers"]["Authorization"],
        "[redacted]"
    );
    is_listed(&client, &id, "scheduled").await;
    let all = format!("{:?}", client.get("/api/requests").await.body);
    assert!(!all.contains("hush"), "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_buttons_of_a_page_work_and_another_sites_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let at = from_now(HOUR);
    put(
        &client,
        "a",
        &json!({ "url": "https://example.com/<b>", "triggerAt": at }),
    )
    .await;
    is_listed(&client, "a", "scheduled").await;
    let press = async |verb: &str, origin: &str| {
        let request = Request::post(client.url(&format!("/requests/a/{verb}")))
            .header("origin", origin)
            .body(Full::default())
            .unwrap();
        client.send(request).await.unwrap()
    };
    let refused = press("cancel", "https://evil.example").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (403, "cross_origin")
    );
    assert_eq!(show(&client, "a").await.body["state"], "scheduled");

    let own = client.url("");
    let pressed = press("pause", &own).await;
    assert_eq!(pressed.status, 303);
    assert_eq!(pressed.headers["location"], "/requests/a");
    assert_eq!(show(&client, "a").await.body["state"], "paused");
    let page = client.get("/requests/a").await;
    let text = page.body.as_str().unwrap();
    assert!(
        text.contains("Resume") && text.contains("&lt;b&gt;"),
        "{text}"
    );
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'"));
    let list = client.get("/requests").await;
    assert!(list.body.as_str().unwrap().contains("/requests/a"));
    let missing = client.get("/requests/b").await;
    assert_eq!(missing.status, 404);
    assert!(missing.body.as_str().unwrap().contains("<main>"));
    assert_eq!(press("cancel", &own).await.headers["location"], "/requests");
    is_forgotten(&client, "a").await;
}
