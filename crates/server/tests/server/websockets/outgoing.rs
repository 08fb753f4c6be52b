//! WebSockets that objects open.

use abide_server::{AllowPrivate, HostBuilder};

use crate::{
    support::ask,
    websockets::world::{SHORT, World, say, world},
};

/// Objects reach addresses of this machine.
fn open_policy(host: HostBuilder) -> HostBuilder {
    host.configure(|c| c.outbound.allow_private = AllowPrivate::All)
}

async fn dial(world: &World, path: &str) -> String {
    let addr = world.host.addr();
    let target = format!("/dialler/dial?ws://{addr}{path}");
    ask(addr, http::Method::GET, &target).await.body
}

#[tokio::test]
async fn an_object_hibernates_while_its_outgoing_socket_is_open() {
    let world = world(|host| open_policy(host).configure(|c| c.objects.idle_timeout = SHORT)).await;
    assert_eq!(dial(&world, "/room/").await, "connected");
    // The other server is an echo.
    world.notes.wait(r#"heard Text("hello from here")"#).await;
    while world.notes.count("left") < 2 {
        tokio::task::yield_now().await;
    }
    let mut client = world.client().await;
    say(&mut client, "all wake up").await;
    world.notes.wait(r#"heard Text("wake up")"#).await;
    let long = "x".repeat(70_000);
    say(&mut client, &format!("all {long}")).await;
    world.notes.wait("heard Text(\"xxx").await;
    say(&mut client, "all hang up").await;
    // Both ends are objects of this host.
    while world.notes.count(r#"closed 4003 "told to" true"#) < 2 {
        tokio::task::yield_now().await;
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_socket_that_an_object_cannot_open_is_an_error_that_says_why() {
    let world = world(open_policy).await;
    let told = dial(&world, "/room/plain").await;
    assert!(told.contains("the server answered 200 OK"), "{told}");
    let addr = world.host.addr();
    let unreachable = "/dialler/dial?ws://127.0.0.1:1/";
    let told = ask(addr, http::Method::GET, unreachable).await.body;
    assert!(told.contains("refused"), "{told}");
    let told = ask(addr, http::Method::GET, "/dialler/dial?http://x/").await;
    assert!(told.body.contains("ws:// or wss://"), "{told:?}");
    // TLS with a server that does not speak it.
    let tls = format!("/dialler/dial?wss://{addr}/room/");
    let told = ask(addr, http::Method::GET, &tls).await.body;
    assert!(told.contains("was not opened"), "{told}");
    assert_eq!(world.notes.count("closed"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_cannot_open_a_socket_to_an_address_that_the_policy_forbids() {
    let closed =
        |host: HostBuilder| host.configure(|c| c.outbound.allow_private = AllowPrivate::None);
    let world = world(closed).await;
    let told = dial(&world, "/room/").await;
    assert!(told.contains("outbound.allow_private"), "{told}");
    let port = world.host.addr().port();
    let by_name = format!("/dialler/dial?ws://localhost:{port}/room/");
    let told = ask(world.host.addr(), http::Method::GET, &by_name).await;
    assert!(told.body.contains("outbound.allow_private"), "{told:?}");
    world.host.shutdown().await.unwrap();
}
