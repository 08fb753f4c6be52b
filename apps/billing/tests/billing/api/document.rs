//! The document for programs says what the program does.

use std::collections::BTreeSet;

use billing::{
    Currency, OPENAPI,
    machines::{self, states},
};
use serde_json::{Map, Value, json};

use crate::api::world::World;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// A schema of the document, behind references.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(&path[1..]).unwrap(),
        None => schema,
    }
}

fn texts(values: &Value) -> BTreeSet<&str> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value.as_str().unwrap()).collect()
}

#[test]
fn the_document_names_the_states_of_each_machine() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let mut all = BTreeSet::new();
    for machine in machines::ALL {
        let words = machine.name.split('_');
        let name: String = words
            .map(|word| word[..1].to_uppercase() + &word[1..])
            .collect();
        let known: BTreeSet<&str> = states(&machine).collect();
        assert_eq!(
            texts(&schemas[format!("{name}State")]["enum"]),
            known,
            "{name}"
        );
        all.extend(known);
    }
    assert_eq!(texts(&schemas["State"]["enum"]), all);
}

#[test]
fn the_document_names_the_currencies_in_use() {
    let document = document();
    let known = texts(&document["components"]["schemas"]["Currency"]["enum"]);
    let letters = 'A'..='Z';
    for a in letters.clone() {
        for b in letters.clone() {
            for c in letters.clone() {
                let code = String::from_iter([a, b, c]);
                let is_in_use = code.parse::<Currency>().is_ok();
                assert_eq!(known.contains(code.as_str()), is_in_use, "{code}");
            }
        }
    }
}

#[test]
fn every_integer_of_the_document_has_its_format() {
    fn look(value: &Value, place: &str, found: &mut u32) {
        let kind = &value["type"];
        let is_integer = kind == "integer"
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&json!("integer")));
        if is_integer {
            assert_eq!(value["format"], "int64", "{place}");
            *found += 1;
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    look(value, &format!("{place}/{name}"), found);
                }
            }
            Value::Array(values) => {
                for value in values {
                    look(value, place, found);
                }
            }
            _ => {}
        }
    }
    let mut found = 0;
    look(&document(), "", &mut found);
    assert!(found > 30, "{found}");
}

/// A value that has everything that a schema allows.
fn whole(document: &Value, schema: &Value, name: &str) -> Value {
    let schema = resolved(document, schema);
    if let Some(first) = schema["enum"].get(0).or_else(|| schema["anyOf"].get(0)) {
        return if first.is_object() {
            whole(document, first, name)
        } else {
            first.clone()
        };
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => &kinds[0],
        kind => kind,
    };
    match kind.as_str().unwrap() {
        "object" => {
            let known = schema["properties"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            let mut fields: Map<String, Value> = known
                .iter()
                .map(|(name, schema)| (name.clone(), whole(document, schema, name)))
                .collect();
            if schema["additionalProperties"].is_object() {
                fields.insert("order".to_owned(), json!("A-1"));
            }
            Value::Object(fields)
        }
        "array" => json!([whole(document, &schema["items"], name)]),
        "integer" => json!(schema["minimum"].as_i64().unwrap_or(0).max(1)),
        "string" => json!(match name {
            "product" => "prod_1",
            "price" => "price_1",
            "customer" => "cus_1",
            "email" => "ada@example.com",
            "url" => "https://example.com/hooks",
            "secret" => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            _ => "text",
        }),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_of_the_document_is_read_and_no_other() {
    let world = World::new().await;
    let document = document();
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let schema = &item["post"]["requestBody"]["content"]["application/json"]["schema"];
        // Unsigned events are not read.
        if schema.is_null() || path.ends_with("/gateway/events") {
            continue;
        }
        let prefix = match path.split('/').nth(2).unwrap() {
            "products" | "{kind}" => "prod",
            "customers" => "cus",
            "subscriptions" => "sub",
            "invoices" => "in",
            "payment-intents" => "pi",
            _ => "none",
        };
        let address = path
            .replace("{kind}", "products")
            .replace("{id}", &format!("{prefix}_1"));
        let body = whole(&document, schema, "");
        let answer = world.ask("POST", &address, None, body.clone()).await;
        let code = answer.json()["error"]["code"].clone();
        assert_ne!(code, "invalid_body", "{path} {body}: {}", answer.text);
        for array in [json!([]), json!(["text"])] {
            let answer = world.ask("POST", &address, None, array).await;
            assert_eq!(answer.status, 400, "{path}: {}", answer.text);
        }
        if resolved(&document, schema)["additionalProperties"] == false {
            let mut more = body.clone();
            more["unheard_of"] = json!("text");
            let answer = world.ask("POST", &address, None, more).await;
            assert_eq!(answer.json()["error"]["code"], "invalid_body", "{path}");
            for (name, value) in body.as_object().unwrap() {
                let mut wrong = body.clone();
                wrong[name] = match value {
                    Value::Array(_) => json!({}),
                    _ => json!([]),
                };
                let answer = world.ask("POST", &address, None, wrong).await;
                let text = &answer.text;
                assert_eq!(
                    answer.json()["error"]["code"],
                    "invalid_body",
                    "{path} {name}: {text}"
                );
                assert!(!text.contains("struct") && !text.contains("i64"), "{text}");
            }
        }
        asked += 1;
    }
    assert!(asked >= 12, "{asked}");
    world.host.shutdown().await.unwrap();
}
