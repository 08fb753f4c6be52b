//! The API as a client sees it, with an outbox of notes behind it.

use std::collections::BTreeMap;

use abide::{
    Env, Host,
    server::{HostBuilder, LocalHost},
};
use abide::{
    outbox::service,
    outbox::{Deliver, Delivery, Failure, OutboxOptions, Registry, Submitted},
};
use abide_harness::until;
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode},
};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A kind whose messages the program alone writes.
pub(crate) const SIGNED: &str = "signed";

/// Delivered if it says so, given up if not.
pub(crate) struct Note;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotePayload {
    good: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl Deliver for Note {
    type Payload = NotePayload;
    const KIND: &'static str = "note";

    fn summary(&self, _: &NotePayload) -> String {
        "a note".to_owned()
    }

    async fn submit(&self, _: &Delivery, payload: &NotePayload) -> Result<Submitted, Failure> {
        let is_known = |value: &String| value == "Bearer hunter2";
        if payload.good && payload.headers.values().all(is_known) {
            Ok(Submitted::Done)
        } else {
            Err(Failure::permanent("it is unwanted"))
        }
    }
}

pub(crate) struct Api {
    pub(crate) host: LocalHost,
    pub(crate) router: Router,
    pub(crate) document: Value,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or("")
    }
}

impl Api {
    pub(crate) async fn start(options: OutboxOptions) -> Self {
        Self::start_with(options, |host| host).await
    }

    pub(crate) async fn start_with(
        options: OutboxOptions,
        with: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let with = |host| with(host).router(service::router);
        Self::started(options, with).await
    }

    /// With a part of the API.
    pub(crate) async fn with_router(router: fn(Env) -> Router) -> Self {
        Self::started(OutboxOptions::default(), |host| host.router(router)).await
    }

    async fn started(
        options: OutboxOptions,
        with: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let registry = Registry::new()
            .with(Note)
            .with_kind(SIGNED, Note)
            .open_to_clients(Note::KIND);
        let host = with(service::install(Host::open_in_memory(), registry, options))
            .start_local()
            .await
            .unwrap();
        Self {
            router: host.router(),
            host,
            document: document(),
        }
    }

    pub(crate) async fn stop(self) {
        drop(self.router);
        self.host.shutdown().await.unwrap();
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &str) -> Answer {
        self.send(method, path, &[], body).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, &body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "").await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method.clone()).uri(path);
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
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
    pub(crate) async fn until(&self, id: i64, status: &str) -> Value {
        let path = format!("/outbox/box/messages/{id}");
        until(&format!("message {id} to be {status}"), async || {
            let shown = self.get(&path).await.body;
            (shown["status"] == status).then_some(shown)
        })
        .await
    }
}

pub(crate) fn document() -> Value {
    serde_json::from_str(service::OPENAPI).unwrap()
}

pub(crate) fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

pub(crate) fn assert_fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    let whole = json!({ "allOf": [schema], "components": document["components"] });
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    let errors = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect::<Vec<_>>();
    assert!(errors.is_empty(), "{place}: {value} {errors:?}");
}

pub(crate) fn note(good: bool) -> Value {
    json!({ "kind": "note", "payload": { "good": good } })
}
