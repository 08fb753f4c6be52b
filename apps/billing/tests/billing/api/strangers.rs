//! What web pages of strangers make a browser ask for.

use abide::{Body, http::Request};
use serde_json::json;

use crate::api::world::{Answer, World};

const SERVER: &str = "127.0.0.1:8080";

/// What a page sends, that is asked under a host; without an origin it is no page's.
async fn sent(world: &World, method: &str, path: &str, host: &str, origin: Option<&str>) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", host);
    request = request.header("content-type", "application/json");
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    let body = json!({ "name": "Gold" }).to_string();
    world.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_page_of_a_stranger_changes_nothing_and_sees_nothing() {
    let world = World::new().await;
    let product = world.create("/v1/products", json!({ "name": "Old" })).await;
    let path = format!("/v1/products/{product}");
    let before = world.get(&path).await.text;
    let changes = [
        ("POST", "/v1/products"),
        ("POST", &*path),
        ("DELETE", &*path),
        ("POST", "/v1/webhook-endpoints"),
        ("POST", "/v1/check"),
        ("POST", "/v1/read-model/rebuild"),
    ];
    for (method, path) in changes {
        for origin in ["https://evil.example", "null", "http://127.0.0.1:8081"] {
            let answer = sent(&world, method, path, SERVER, Some(origin)).await;
            assert_eq!(answer.status, 403, "{method} {path} of {origin}");
            assert_eq!(answer.json()["error"]["code"], "cross_origin");
        }
        // A stranger's name that leads here: the browser takes the server for the stranger's own.
        for origin in [None, Some("http://evil.example")] {
            let answer = sent(&world, method, path, "evil.example", origin).await;
            assert_eq!(answer.status, 403, "{method} {path}");
            assert_eq!(answer.json()["error"]["code"], "unknown_host");
        }
    }
    for path in [&*path, "/v1/subscriptions", "/", "/subscriptions"] {
        let seen = sent(&world, "GET", path, "evil.example", None).await;
        assert_eq!(seen.status, 403, "{path}");
        assert_eq!(sent(&world, "GET", path, SERVER, None).await.status, 200);
    }
    assert_eq!(world.get(&path).await.text, before);

    // A form of a page cannot say that it is JSON.
    let form = Request::post("/v1/products")
        .header("content-type", "text/plain")
        .header("sec-fetch-site", "same-origin");
    let form = form.body(Body::from(json!({ "name": "Gold" }).to_string()));
    assert_eq!(world.send(form.unwrap()).await.status, 415);

    let own = format!("http://{SERVER}");
    for origin in [None, Some(&*own)] {
        let answer = sent(&world, "POST", "/v1/products", SERVER, origin).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    world.host.shutdown().await.unwrap();
}

/// Otherwise a client that may read pages could have a payment confirmed that was never made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_notices_that_the_engine_wrote_are_signed() {
    let world = World::new().await;
    let url = "https://shop.example/hooks";
    let endpoint = world
        .create("/v1/webhook-endpoints", json!({ "url": url }))
        .await;
    for url in [url, "https://evil.example/"] {
        let forged = json!({
            "kind": "notice",
            "payload": {
                "endpoint": endpoint,
                "webhook": { "endpoint": url, "type": "invoice.paid", "data": { "id": "in_sub_1_0.2.paid" } },
            },
        });
        let messages = format!("/outbox/{endpoint}/messages");
        let enqueued = world.ask("POST", &messages, None, forged.clone()).await;
        assert_eq!(enqueued.status, 405, "{}", enqueued.text);
        let payload = format!("{messages}/1/payload");
        let edited = world
            .ask("PUT", &payload, None, forged["payload"].clone())
            .await;
        assert!(matches!(edited.status, 404 | 405), "{}", edited.text);
    }

    // What operators need is there.
    let outbox = world.get(&format!("/outbox/{endpoint}")).await;
    assert_eq!(outbox.json()["counts"]["queued"], 0, "{}", outbox.text);
    for path in ["messages", "dead-letters", "page"] {
        let answer = world.get(&format!("/outbox/{endpoint}/{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    }
    for action in ["redrive", "discard"] {
        let path = format!("/outbox/{endpoint}/{action}");
        let answer = world.ask("POST", &path, None, json!({})).await;
        assert_eq!(answer.status, 200, "{action}: {}", answer.text);
    }
    world.host.shutdown().await.unwrap();
}
