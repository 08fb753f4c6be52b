//! Bodies that are small and would be large if trees were made of them: what a stranger sends costs memory of its own size.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Answer, Client, Program, Server};
use http::{Method, Request, StatusCode};

const MIB: usize = 1 << 20;

/// What a request may cost beyond its own bytes, many copies of these included.
const COST: u64 = 100 << 20;

fn start() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_abide"), dir.path().join("data"));
    let server = program.env("ABIDE__RPC__ENABLED", "true").start();
    (dir, server)
}

/// An array of these, of this many bytes.
fn array_of(element: &str, bytes: usize) -> String {
    let count = bytes / (element.len() + 1);
    format!("[{}]", vec![element; count].join(","))
}

async fn send(client: &Client, method: Method, path: &str, body: String) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(client.url(path))
        .header("content-type", "application/json")
        .body(body.into_bytes().into());
    client.send(request.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_body_of_small_objects_costs_what_its_text_costs() {
    let objects = array_of(r#"{"a":0}"#, 8 * MIB);
    let message = r#"{"kind":"http","payload":0}"#;
    let schedule = format!(
        r#"{{"kind":"http","payload":0,"schedule":{}}}"#,
        array_of("0", 8 * MIB)
    );
    for (method, path, body) in [
        (Method::PUT, "/kv/ada/large", objects.clone()),
        (
            Method::POST,
            "/rpc/Kv/ada/put",
            format!("[\"large\",{objects}]"),
        ),
        (Method::POST, "/rpc/Kv/ada/put", array_of("0", 8 * MIB)),
        (
            Method::POST,
            "/rpc/Kv/ada/list",
            format!("[{{\"x\":{objects}}}]"),
        ),
        (Method::POST, "/outbox/orders/messages", objects.clone()),
        (
            Method::POST,
            "/outbox/orders/messages",
            array_of(message, 8 * MIB),
        ),
        (Method::POST, "/outbox/orders/messages", schedule),
        (
            Method::POST,
            "/outbox/orders/messages",
            format!(r#"{{"kind":"http","payload":{objects}}}"#),
        ),
    ] {
        let (_dir, server) = start();
        let before = server.peak_memory();
        let begin = &body[..40];
        let answer = send(&server.client(), method, path, body.clone()).await;
        assert!(
            answer.status.is_client_error(),
            "{path} {begin}: {answer:?}"
        );
        let cost = server.peak_memory() - before;
        println!("{path} {begin}: {} MiB", cost >> 20);
        assert!(cost < COST, "{path} {begin}: {} MiB", cost >> 20);
    }
}

#[tokio::test]
async fn a_list_of_values_of_small_objects_costs_what_their_texts_cost() {
    let (_dir, server) = start();
    let client = server.client();
    let value = array_of(r#"{"a":0}"#, 2 * MIB - 100);
    for key in 0..12 {
        let path = format!("/kv/ada/{key}");
        let answer = send(&client, Method::PUT, &path, value.clone()).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{answer:?}");
    }
    let before = server.peak_memory();
    // The client of these tests would make a tree of the answer; this one does not.
    let page = tokio::task::spawn_blocking({
        let url = format!("http://{}/kv/ada?limit=1000", server.address());
        move || {
            ureq::get(&url)
                .call()
                .unwrap()
                .body_mut()
                .read_to_vec()
                .unwrap()
        }
    });
    let page = page.await.unwrap();
    assert!((8 * MIB..12 * MIB).contains(&page.len()), "{}", page.len());
    let cost = server.peak_memory() - before;
    println!("a page of {} MiB: {} MiB", page.len() >> 20, cost >> 20);
    assert!(cost < COST, "{} MiB", cost >> 20);
}
