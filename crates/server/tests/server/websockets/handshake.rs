//! How a connection becomes a WebSocket, and how it does not.

use abide::Host;
use axum::Router;
use http::StatusCode;
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message as Sent, client::IntoClientRequest},
};

use crate::{
    support::{ask, code},
    websockets::world::{Echo, Notes, hear, refused, say, world},
};

#[tokio::test]
async fn requests_that_are_no_handshake_get_an_error_and_their_sockets_end() {
    let world = world(|host| host).await;
    let addr = world.host.addr();
    let plain = ask(addr, http::Method::GET, "/room/").await;
    assert_eq!(plain.status, StatusCode::UPGRADE_REQUIRED);
    assert_eq!(code(&plain), "websocket_required");
    assert_eq!(plain.headers["upgrade"], "websocket");
    assert_eq!(plain.headers["sec-websocket-version"], "13");
    world.notes.wait("closed 1006").await;

    let url = format!("ws://{addr}/room/");
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("sec-websocket-version", "12".parse().unwrap());
    let response = refused(connect_async(request).await.unwrap_err());
    assert_eq!(response.status(), StatusCode::UPGRADE_REQUIRED);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_without_a_socket_goes_to_the_client_as_it_is() {
    let world = world(|host| host).await;
    let url = format!("ws://{}/room/plain", world.host.addr());
    let response = refused(connect_async(url).await.unwrap_err());
    assert_eq!(response.status(), StatusCode::OK);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_chooses_the_subprotocol() {
    let world = world(|host| host).await;
    let url = format!("ws://{}/room/", world.host.addr());
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", "chat".parse().unwrap());
    let (_client, response) = connect_async(request).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_may_serve_websockets_itself() {
    let world = world(|host| host).await;
    let mut client = world.client_of("/axum/own").await;
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    client.close(None).await.unwrap();
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_router_without_a_listener_cannot_upgrade_and_says_so() {
    let notes = Notes::default();
    let host = Host::open_in_memory()
        .object::<Echo>()
        .with(notes.clone())
        .router(|env| Router::new().merge(abide::server::object_router::<Echo>(&env)))
        .start_local()
        .await
        .unwrap();
    let request = http::Request::builder()
        .uri("/room/")
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(axum::body::Body::empty())
        .unwrap();
    let response = tower::ServiceExt::oneshot(host.router(), request)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::NOT_IMPLEMENTED);
    notes.wait("closed 1006").await;
    host.shutdown().await.unwrap();
}
