//! The ready-made outbox over HTTP. Every answer is checked against the API's document.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{collections::BTreeSet, time::Duration};

use abide::{
    Host,
    server::{HostBuilder, LocalHost},
};
use abide_patterns::{
    outbox::{Deliver, Delivery, Failure, Options, Registry, Submitted, limits},
    service,
};
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Delivered if it says so, given up if not.
struct Note;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotePayload {
    good: bool,
}

impl Deliver for Note {
    type Payload = NotePayload;
    const KIND: &'static str = "note";

    fn summary(&self, _: &NotePayload) -> String {
        "a note".to_owned()
    }

    async fn submit(&self, _: &Delivery, payload: &NotePayload) -> Result<Submitted, Failure> {
        if payload.good {
            Ok(Submitted::Done)
        } else {
            Err(Failure::permanent("nobody wants it"))
        }
    }
}

struct Api {
    host: LocalHost,
    router: Router,
    document: Value,
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or("")
    }
}

impl Api {
    async fn start(options: Options) -> Self {
        Self::start_with(options, |host| host).await
    }

    async fn start_with(options: Options, with: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let registry = Registry::new().with(Note);
        let host = with(service::install(Host::open_in_memory(), registry, options))
            .router(service::router)
            .start_local()
            .await
            .unwrap();
        Self {
            router: host.router(),
            host,
            document: document(),
        }
    }

    async fn stop(self) {
        drop(self.router);
        self.host.shutdown().await.unwrap();
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> Answer {
        self.send(method, path, &[], body).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, &body.to_string()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "").await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method.clone()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let (parts, body) = self
            .router
            .clone()
            .oneshot(request)
            .await
            .unwrap()
            .into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        };
        self.check(&method, path, &answer);
        answer
    }

    /// Panics if the document does not know the answer.
    fn check(&self, method: &Method, path: &str, answer: &Answer) {
        let path = path.split('?').next().unwrap();
        let parts = path.split('/').collect::<Vec<_>>();
        let fits = |template: &&String| {
            let wanted = template.split('/').collect::<Vec<_>>();
            wanted.len() == parts.len()
                && wanted
                    .iter()
                    .zip(&parts)
                    .all(|(w, p)| w.starts_with('{') || w == p)
        };
        let paths = self.document["paths"].as_object().unwrap();
        let template = paths
            .keys()
            .find(fits)
            .expect("the path is in the document");
        let responses = &paths[template][method.as_str().to_lowercase()]["responses"];
        let status = answer.status.as_str();
        let response = responses.get(status).unwrap_or_else(|| {
            panic!("{method} {template} has no {status}: {answer:?}");
        });
        let response = resolve(&self.document, response);
        if let Some(json) = response["content"].get("application/json") {
            assert_fits(&self.document, &json["schema"], &answer.body, template);
        }
    }

    /// Waits until a message has this status.
    async fn until(&self, id: i64, status: &str) -> Value {
        let path = format!("/outbox/box/messages/{id}");
        let waits = async {
            loop {
                let shown = self.get(&path).await.body;
                if shown["status"] == status {
                    return shown;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waits)
            .await
            .unwrap_or_else(|_| panic!("message {id} does not become {status}"))
    }
}

fn document() -> Value {
    serde_json::from_str(service::OPENAPI).unwrap()
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

fn assert_fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    let whole = json!({ "allOf": [schema], "components": document["components"] });
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    let errors = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect::<Vec<_>>();
    assert!(errors.is_empty(), "{place}: {value} {errors:?}");
}

fn note(good: bool) -> Value {
    json!({ "kind": "note", "payload": { "good": good } })
}

#[tokio::test]
async fn a_message_is_taken_delivered_and_shown_with_its_history() {
    let api = Api::start(Options::default()).await;
    let taken = api.post("/outbox/box/messages", &note(true)).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(taken.body, json!({ "id": 1, "duplicate": false }));
    assert_eq!(taken.headers[header::LOCATION], "/outbox/box/messages/1");
    let shown = api.until(1, "sent").await;
    assert_eq!(shown["payload"], json!({ "good": true }));
    assert_eq!(shown["summary"], "a note");
    assert_eq!(shown["attempts"], 1);
    assert!(shown["history"].as_array().unwrap().len() >= 3, "{shown}");
    let overview = api.get("/outbox/box").await.body;
    assert_eq!(overview["counts"]["sent"], 1);
    let other = api.get("/outbox/other").await.body;
    assert_eq!(other["counts"]["sent"], 0, "each name has its own");
    api.stop().await;
}

#[tokio::test]
async fn messages_of_one_request_are_all_taken_or_none_is() {
    let api = Api::start(Options::default()).await;
    let bad = json!({ "kind": "note", "payload": { "good": "maybe" } });
    let refused = api
        .post("/outbox/box/messages", &json!([note(true), bad]))
        .await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "invalid_message")
    );
    let text = refused.body["error"]["message"].as_str().unwrap();
    assert!(text.contains("essages[1]"), "{text}");
    assert_eq!(
        api.get("/outbox/box/messages").await.body["messages"],
        json!([])
    );

    let taken = api
        .post(
            "/outbox/box/messages",
            &json!({ "messages": [note(true), note(true)] }),
        )
        .await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(taken.body["messages"].as_array().unwrap().len(), 2);
    let listed = api.get("/outbox/box/messages?limit=1").await.body;
    let newest = &taken.body["messages"][1]["id"];
    assert_eq!(
        (&listed["messages"][0]["id"], &listed["next"]),
        (newest, newest)
    );
    let next = api
        .get(&format!("/outbox/box/messages?limit=1&before={newest}"))
        .await
        .body;
    assert_eq!(next["messages"][0]["id"], taken.body["messages"][0]["id"]);
    assert_eq!(next["next"], Value::Null);
    api.stop().await;
}

#[tokio::test]
async fn a_request_with_an_idempotency_key_is_applied_once() {
    let api = Api::start(Options::default()).await;
    let key = [("idempotency-key", "\"order 4711\"")];
    let path = "/outbox/box/messages";
    let body = json!({ "kind": "note", "payload": { "good": true }, "delay": 60_000 });
    let first = api.send(Method::POST, path, &key, &body.to_string()).await;
    let again = api.send(Method::POST, path, &key, &body.to_string()).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    assert_eq!(
        (again.status, &again.body, &again.headers[header::LOCATION]),
        (first.status, &first.body, &first.headers[header::LOCATION])
    );
    // Without the key, and with another, it is another request: the answers above came from the key.
    let next = [("idempotency-key", "\"order 4712\"")];
    for (headers, id) in [(&[][..], 2), (&next[..], 3)] {
        let another = api
            .send(Method::POST, path, headers, &body.to_string())
            .await;
        assert_eq!(another.body["id"], id);
    }
    let elsewhere = "/outbox/other/messages";
    let another = api
        .send(Method::POST, elsewhere, &key, &body.to_string())
        .await;
    assert_eq!(another.status, StatusCode::ACCEPTED, "a key is an outbox's");
    let other = api
        .send(Method::POST, path, &key, &note(true).to_string())
        .await;
    assert_eq!(
        (other.status, other.code()),
        (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")
    );
    let listed = api.get(path).await.body;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 3);
    let record = &listed["messages"][2];
    let wait = record["not_before"].as_i64().unwrap() - record["created_at"].as_i64().unwrap();
    assert!(
        (30_000..=60_000).contains(&wait),
        "from when it was enqueued: {record}"
    );
    api.stop().await;
}

#[tokio::test]
async fn a_full_outbox_says_so_and_remembers_no_refusal() {
    let options = Options {
        max_queued: 1,
        ..Options::default()
    };
    let api = Api::start(options).await;
    let path = "/outbox/box/messages";
    let later = json!({ "kind": "note", "payload": { "good": true }, "delay": 3_600_000 });
    assert_eq!(api.post(path, &later).await.status, StatusCode::ACCEPTED);
    let key = [("idempotency-key", "second")];
    let full = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!(
        (full.status, full.code()),
        (StatusCode::SERVICE_UNAVAILABLE, "outbox_full")
    );
    assert!(full.headers.contains_key(header::RETRY_AFTER));
    let canceled = api.ask(Method::DELETE, "/outbox/box/messages/1", "").await;
    assert_eq!(canceled.body["status"], "canceled");
    let taken = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
    api.stop().await;
}

#[tokio::test]
async fn a_request_that_was_taken_is_answered_again_when_the_outbox_is_full() {
    let options = Options {
        max_queued: 1,
        ..Options::default()
    };
    let api = Api::start(options).await;
    let path = "/outbox/box/messages";
    let later = json!({ "kind": "note", "payload": { "good": true }, "delay": 3_600_000 });
    let key = [("idempotency-key", "first")];
    let taken = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    let again = api.send(Method::POST, path, &key, &later.to_string()).await;
    assert_eq!((again.status, &again.body), (taken.status, &taken.body));
    api.stop().await;
}

#[tokio::test]
async fn a_message_that_is_there_under_its_dedup_key_is_no_new_one_when_the_outbox_is_full() {
    let options = Options {
        max_queued: 1,
        ..Options::default()
    };
    let api = Api::start(options).await;
    let path = "/outbox/box/messages";
    let later = json!({
        "kind": "note", "payload": { "good": true }, "delay": 3_600_000, "dedup_key": "one",
    });
    assert_eq!(api.post(path, &later).await.status, StatusCode::ACCEPTED);
    let again = api.post(path, &later).await;
    assert_eq!(again.body, json!({ "id": 1, "duplicate": true }));
    api.stop().await;
}

#[tokio::test]
async fn a_dead_letter_that_was_edited_keeps_its_dedup_key_for_what_it_was() {
    let api = Api::start(Options::default()).await;
    let path = "/outbox/box/messages";
    let bad = json!({ "kind": "note", "payload": { "good": false }, "dedup_key": "one" });
    api.post(path, &bad).await;
    api.until(1, "failed").await;
    let good = json!({ "good": true }).to_string();
    api.ask(Method::PUT, "/outbox/box/messages/1/payload", &good)
        .await;
    // Its producer had no answer, and asks again.
    let again = api.post(path, &bad).await;
    assert_eq!(again.body, json!({ "id": 1, "duplicate": true }));
    api.stop().await;
}

#[tokio::test]
async fn a_dead_letter_is_edited_and_redriven_or_discarded() {
    let api = Api::start(Options::default()).await;
    for _ in 0..3 {
        api.post("/outbox/box/messages", &note(false)).await;
    }
    let failed = api.until(1, "failed").await;
    assert_eq!(failed["last_error"], "nobody wants it");
    for id in [2, 3] {
        api.until(id, "failed").await;
    }
    let of_kind = api
        .get("/outbox/box/dead-letters?kind=note&limit=2")
        .await
        .body;
    assert_eq!(of_kind["messages"].as_array().unwrap().len(), 2);
    assert_eq!(of_kind["next"], 2);
    let none = api
        .get("/outbox/box/dead-letters?destination=elsewhere")
        .await
        .body;
    assert_eq!(none["messages"], json!([]));

    let bad = json!({ "good": "maybe" }).to_string();
    let refused = api
        .ask(Method::PUT, "/outbox/box/messages/1/payload", &bad)
        .await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "invalid_message")
    );
    let good = json!({ "good": true }).to_string();
    let edited = api
        .ask(Method::PUT, "/outbox/box/messages/1/payload", &good)
        .await;
    assert_eq!(
        (edited.status, &edited.body["status"]),
        (StatusCode::OK, &json!("failed"))
    );
    let redriven = api
        .ask(Method::POST, "/outbox/box/messages/1/redrive", "")
        .await;
    assert_eq!(
        (redriven.status, &redriven.body["status"]),
        (StatusCode::OK, &json!("queued"))
    );
    api.until(1, "sent").await;

    let discarded = api.ask(Method::DELETE, "/outbox/box/messages/2", "").await;
    assert_eq!(discarded.body["status"], "discarded");
    let swept = api
        .post("/outbox/box/redrive", &json!({ "kind": "note" }))
        .await;
    assert_eq!(swept.body, json!({ "count": 1, "more": false, "last": 3 }));
    api.until(3, "failed").await;
    let swept = api.post("/outbox/box/discard", &json!({})).await;
    assert_eq!(swept.body, json!({ "count": 1, "more": false, "last": 3 }));
    let counts = &api.get("/outbox/box").await.body["counts"];
    assert_eq!(
        (&counts["failed"], &counts["discarded"]),
        (&json!(0), &json!(2))
    );
    api.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_told_why() {
    let api = Api::start(Options::default()).await;
    api.post("/outbox/box/messages", &note(true)).await;
    api.until(1, "sent").await;
    let messages = "/outbox/box/messages";
    let long = format!("/outbox/{}", "n".repeat(2_049));
    let get = Method::GET;
    let post = Method::POST;
    for (method, path, body, status, code) in [
        (
            &get,
            "/outbox/box/messages?limit=0",
            "",
            400,
            "invalid_query",
        ),
        (
            &get,
            "/outbox/box/messages?limit=1001",
            "",
            400,
            "invalid_query",
        ),
        (
            &get,
            "/outbox/box/messages?status=lost",
            "",
            400,
            "invalid_query",
        ),
        (
            &get,
            "/outbox/box/messages?color=red",
            "",
            400,
            "invalid_query",
        ),
        (&get, "/outbox/box/messages/one", "", 400, "invalid_path"),
        (&get, "/outbox/box/messages/9", "", 404, "no_such_message"),
        (&get, &long, "", 400, "limit_exceeded"),
        (
            &Method::DELETE,
            "/outbox/box/messages/9",
            "",
            404,
            "no_such_message",
        ),
        (
            &Method::DELETE,
            "/outbox/box/messages/1",
            "",
            409,
            "wrong_status",
        ),
        (
            &post,
            "/outbox/box/messages/1/redrive",
            "",
            409,
            "wrong_status",
        ),
        (
            &Method::PUT,
            "/outbox/box/messages/1/payload",
            "{\"good\":true}",
            409,
            "wrong_status",
        ),
        (
            &post,
            "/outbox/box/redrive",
            "{\"id\":1}",
            400,
            "invalid_body",
        ),
        (&post, messages, "{", 400, "malformed_json"),
        (&post, messages, "7", 400, "invalid_body"),
    ] {
        let answer = api.ask(method.clone(), path, body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{method} {path:.60}"
        );
    }
    let empty_key = [("idempotency-key", "")];
    let answer = api
        .send(post, messages, &empty_key, &note(true).to_string())
        .await;
    assert_eq!(answer.code(), "invalid_idempotency_key");
    api.stop().await;
}

#[tokio::test]
async fn a_message_that_nobody_could_deliver_is_refused() {
    let api = Api::start(Options::default()).await;
    let large = "x".repeat(limits::MAX_PAYLOAD_BYTES);
    for (message, status, code) in [
        (json!({ "kind": "fax", "payload": 1 }), 400, "unknown_kind"),
        (
            json!({ "kind": "note", "payload": 1 }),
            400,
            "invalid_message",
        ),
        (
            json!({ "kind": "note", "payload": { "good": true }, "delay": 1, "not_before": 1 }),
            400,
            "invalid_message",
        ),
        (
            json!({ "kind": "note", "payload": { "good": true }, "dedup_key": "x".repeat(256) }),
            400,
            "invalid_message",
        ),
        (
            json!({ "kind": "note", "payload": large }),
            413,
            "payload_too_large",
        ),
    ] {
        let answer = api.post("/outbox/box/messages", &message).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{answer:?}"
        );
    }
    assert_eq!(api.get("/outbox/box").await.body["counts"]["queued"], 0);
    api.stop().await;
}

#[tokio::test]
async fn whoever_watches_is_told_how_things_stand_and_what_changes() {
    let api = Api::start(Options::default()).await;
    let request = Request::get("/outbox/box/live").header("accept", "text/event-stream");
    let request = request.body(Body::empty()).unwrap();
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        response.headers()[header::CONTENT_TYPE],
        "text/event-stream"
    );
    let mut events = response.into_body();
    let mut seen = String::new();
    let mut until = async |what: &str| {
        while !seen.contains(what) {
            let frame = tokio::time::timeout(Duration::from_secs(30), events.frame()).await;
            let data = frame.unwrap().unwrap().unwrap().into_data().unwrap();
            seen.push_str(std::str::from_utf8(&data).unwrap());
        }
    };
    until("\"type\":\"snapshot\"").await;
    api.post("/outbox/box/messages", &note(true)).await;
    until("\"status\":\"sent\"").await;

    let neither = api.get("/outbox/box/live").await;
    assert_eq!(
        (neither.status, neither.code()),
        (StatusCode::UPGRADE_REQUIRED, "not_a_stream")
    );
    drop(events);
    api.stop().await;
}

#[tokio::test]
async fn the_page_and_its_scripts_are_there() {
    let api = Api::start(Options::default()).await;
    api.post("/outbox/a%20%3Cbox%3E/messages", &note(true))
        .await;
    let request = Request::get("/outbox/a%20%3Cbox%3E/page")
        .body(Body::empty())
        .unwrap();
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert!(
        response
            .headers()
            .contains_key(header::CONTENT_SECURITY_POLICY)
    );
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = std::str::from_utf8(&page).unwrap();
    assert!(
        page.contains("a &lt;box&gt;") && page.contains("a note"),
        "{page}"
    );
    let scripts = page.split("src=\"assets/").skip(1).collect::<Vec<_>>();
    assert_eq!(scripts.len(), 2, "{page}");
    for script in scripts {
        let (name, _) = script.split_once('"').unwrap();
        let answer = api.get(&format!("/outbox/box/assets/{name}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}");
    }
    assert_eq!(
        api.get("/outbox/box/assets/other.js").await.code(),
        "no_such_file"
    );
    api.stop().await;
}

#[tokio::test]
async fn a_web_page_of_another_origin_is_refused() {
    let api = Api::start(Options::default()).await;
    let body = note(true).to_string();
    for (origin, status) in [
        ("http://127.0.0.1:8080", StatusCode::ACCEPTED),
        ("http://127.0.0.1:9090", StatusCode::FORBIDDEN),
        ("https://evil.example", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
    ] {
        let headers = [("host", "127.0.0.1:8080"), ("origin", origin)];
        let answer = api
            .send(Method::POST, "/outbox/box/messages", &headers, &body)
            .await;
        assert_eq!(answer.status, status, "{origin}");
    }
    api.stop().await;
}

#[tokio::test]
async fn a_name_that_a_stranger_could_have_is_refused_unless_it_is_an_own_one() {
    let own = Api::start_with(Options::default(), |host| {
        host.with(service::Hosts(vec!["outbox.example.com".to_owned()]))
    });
    let (api, own) = (Api::start(Options::default()).await, own.await);
    for (api, host, status) in [
        (&api, "127.0.0.1:8080", StatusCode::OK),
        (&api, "abide:8080", StatusCode::OK),
        (&api, "outbox.example.com:8080", StatusCode::FORBIDDEN),
        (&own, "outbox.example.com:8080", StatusCode::OK),
        (&own, "evil.example:8080", StatusCode::FORBIDDEN),
    ] {
        let answer = api
            .send(Method::GET, "/outbox/box", &[("host", host)], "")
            .await;
        assert_eq!(answer.status, status, "{host}: {answer:?}");
        if status == StatusCode::FORBIDDEN {
            assert_eq!(answer.code(), "unknown_host");
        }
    }
    api.stop().await;
    own.stop().await;
}

#[tokio::test]
async fn a_destination_that_rests_is_sent_to_again_if_it_is_known() {
    let api = Api::start(Options::default()).await;
    let path = "/outbox/box/destinations/resume";
    let unknown = api.post(path, &json!({ "destination": "none" })).await;
    assert_eq!(
        (unknown.status, unknown.code()),
        (StatusCode::NOT_FOUND, "no_such_destination")
    );
    let later = json!({ "kind": "note", "payload": { "good": true }, "delay": 3_600_000 });
    api.post("/outbox/box/messages", &later).await;
    let overview = api.get("/outbox/box").await.body;
    let destination = &overview["destinations"][0]["destination"];
    let known = api.post(path, &json!({ "destination": destination })).await;
    assert_eq!(known.status, StatusCode::NO_CONTENT, "{known:?}");
    api.stop().await;
}

#[tokio::test]
async fn an_outbox_that_is_not_there_reads_as_an_empty_one() {
    let api = Api::start(Options::default()).await;
    for (path, status) in [
        ("/outbox/box", StatusCode::OK),
        ("/outbox/box/messages", StatusCode::OK),
        ("/outbox/box/dead-letters", StatusCode::OK),
        ("/outbox/box/messages/1", StatusCode::NOT_FOUND),
        ("/outbox/box/page", StatusCode::OK),
        ("/outbox/box/live", StatusCode::UPGRADE_REQUIRED),
    ] {
        assert_eq!(api.get(path).await.status, status, "{path}");
    }
    let swept = api.post("/outbox/box/redrive", &json!({})).await;
    assert_eq!(swept.body["count"], 0, "{swept:?}");
    let none = api.ask(Method::DELETE, "/outbox/box/messages/1", "").await;
    assert_eq!(none.code(), "no_such_message");
    api.stop().await;
}

#[tokio::test]
async fn the_document_has_every_method_of_every_address() {
    let api = Api::start(Options::default()).await;
    let served = api.get("/outbox/openapi.json").await;
    assert_eq!(served.body, api.document);
    for (path, operations) in api.document["paths"].as_object().unwrap() {
        let documented = operations
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
            .map(|method| method.to_uppercase())
            .collect::<BTreeSet<_>>();
        let path = path
            .replace("{name}", "box")
            .replace("{id}", "1")
            .replace("{file}", "a");
        let request = Request::builder().method(Method::TRACE).uri(&path);
        let request = request.body(Body::empty()).unwrap();
        let response = api.router.clone().oneshot(request).await.unwrap();
        let allowed = response.headers()[header::ALLOW].to_str().unwrap();
        let allowed = allowed
            .split(',')
            .filter(|method| *method != "HEAD")
            .map(str::to_owned)
            .collect::<BTreeSet<_>>();
        assert_eq!(allowed, documented, "{path}");
    }
    api.stop().await;
}

#[test]
fn the_document_s_examples_fit_its_schemas() {
    let document = document();
    let mut found = 0;
    examples(&document, &document, "", &mut found);
    assert!(found > 20, "{found} examples");
}

fn examples(document: &Value, value: &Value, place: &str, found: &mut usize) {
    if let Some(schema) = value.get("schema") {
        let several = value["examples"]
            .as_object()
            .into_iter()
            .flat_map(|examples| examples.values().map(|example| &example["value"]));
        for example in several.chain(value.get("example")) {
            assert_fits(document, schema, example, place);
            *found += 1;
        }
    }
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                examples(document, value, &format!("{place}/{key}"), found);
            }
        }
        Value::Array(values) => {
            for value in values {
                examples(document, value, place, found);
            }
        }
        _ => {}
    }
}
