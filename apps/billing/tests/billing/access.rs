//! Who may call the API where others can reach it.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Client, Program, Version};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;

async fn status(client: &Client, method: Method, path: &str, token: Option<&str>) -> u16 {
    let mut request = Request::builder()
        .method(method)
        .uri(client.url(path))
        .header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::from(Bytes::from_static(b"{}")));
    client.send(request.unwrap()).await.unwrap().status.as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_reach_nothing_but_the_gateway_s_signed_door() {
    use abide::server::access::{AccessStore, NewToken, Role};
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let access = AccessStore::open(&data).unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_billing"), &data).listen("0.0.0.0:0");
    let said = program.command().output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("abide token create"), "{said}");
    let token = |role| access.create_token(NewToken::new(role)).unwrap().text;
    let (reader, operator) = (token(Role::Read), token(Role::Operate));
    let server = program.start();
    let address = server.address().replace("0.0.0.0", "127.0.0.1");
    let client = Client::new(&address, Version::Http1);
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/subscriptions"),
        (Method::GET, "/v1/products"),
        (Method::GET, "/v1/openapi.json"),
        (Method::GET, "/outbox/we_1/messages"),
    ] {
        assert_eq!(
            status(&client, method.clone(), path, None).await,
            401,
            "{path}"
        );
        let read = status(&client, method, path, Some(&reader)).await;
        assert!(![401, 403].contains(&read), "{path}: {read}");
    }
    for path in [
        "/v1/products",
        "/v1/refunds/re_1/resume",
        "/v1/test-clock/advance",
        "/outbox/we_1/redrive",
    ] {
        let post = |token| status(&client, Method::POST, path, token);
        assert_eq!(post(None).await, 401, "{path}");
        assert_eq!(post(Some(&reader)).await, 403, "{path}");
        let changed = post(Some(&operator)).await;
        assert!(![401, 403].contains(&changed), "{path}: {changed}");
    }
    let unsigned = status(&client, Method::POST, "/v1/gateway/events", None).await;
    assert!((400..500).contains(&unsigned), "{unsigned}");
    server.stop();
}
