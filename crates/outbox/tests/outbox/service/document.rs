//! The document is complete and consistent.

use std::collections::BTreeSet;

use abide::outbox::OutboxOptions;
use axum::{
    body::Body,
    http::{Method, Request, header},
};
use serde_json::Value;
use tower::ServiceExt;

use crate::service::support::{Api, assert_fits, document};

#[tokio::test]
async fn the_document_has_every_method_of_every_address() {
    let api = Api::start(OutboxOptions::default()).await;
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

#[test]
fn every_integer_of_the_document_has_its_format() {
    let mut found = 0;
    integers(&document(), "", &mut found);
    assert!(found > 20, "{found} integers");
}

fn integers(value: &Value, place: &str, found: &mut usize) {
    let kinds = &value["type"];
    let is_integer = |kind: &Value| kind == "integer";
    if is_integer(kinds)
        || kinds
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(is_integer))
    {
        assert_eq!(value["format"], "int64", "{place}");
        *found += 1;
    }
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                integers(value, &format!("{place}/{key}"), found);
            }
        }
        Value::Array(values) => {
            for value in values {
                integers(value, place, found);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_sweep_takes_what_its_schema_allows() {
    let api = Api::start(OutboxOptions::default()).await;
    let which = &api.document["components"]["schemas"]["Which"];
    for field in which["properties"].as_object().unwrap().keys() {
        for sweep in ["redrive", "discard"] {
            let path = format!("/outbox/box/{sweep}");
            let none = serde_json::json!({ field: null });
            assert_fits(&api.document, which, &none, field);
            let answer = api.post(&path, &none).await;
            assert_eq!(answer.status, 200, "{field}: {:?}", answer.body);
        }
    }
    api.stop().await;
}
