//! WebSockets over real connections: the gateway's half.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{Host, prelude::*, server::RunningHost, socket::SlowReader};
use abide_server::{AllowPrivate, HostBuilder};
use axum::{Router, routing::any};
use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        self, Message as Sent,
        client::IntoClientRequest,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, frame::coding::CloseCode},
    },
};

mod support;

use support::{ask, code, connect, read_to_end};

/// Short enough that a test which waits for it is quick; no assertion depends on how long it takes.
const SHORT: Duration = Duration::from_millis(50);

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What the objects have noted, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    /// Waits for a note that begins so.
    async fn wait(&self, beginning: &str) -> String {
        let find = || {
            let notes = self.0.lock().unwrap();
            notes
                .iter()
                .find(|note| note.starts_with(beginning))
                .cloned()
        };
        let wait = async {
            loop {
                if let Some(note) = find() {
                    break note;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait)
            .await
            .unwrap_or_else(|_| panic!("no {beginning:?} in {:?}", self.0.lock().unwrap()))
    }

    fn count(&self, beginning: &str) -> usize {
        let notes = self.0.lock().unwrap();
        notes
            .iter()
            .filter(|note| note.starts_with(beginning))
            .count()
    }
}

/// Echoes, and does what some words say.
#[durable_object]
struct Echo {
    state: State,
    notes: Notes,
}

impl DurableObject for Echo {
    fn new(state: State, env: Env) -> Result<Self> {
        let notes = Notes::clone(&*env.require::<Notes>()?);
        notes.add("new");
        Ok(Self { state, notes })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        if request.uri().path() == "/plain" {
            return Ok(Response::new(Body::from("no socket")));
        }
        if request.uri().path() == "/dial" {
            let told = self.dial(request.uri().query().unwrap_or_default()).await;
            let told = told.map_or_else(|error| error.to_string(), |()| "connected".to_owned());
            return Ok(Response::new(Body::from(told)));
        }
        let pair = WebSocketPair::new();
        if request.uri().path() == "/unaccepted" {
            return Ok(websocket_response(pair.client));
        }
        self.state.accept_websocket(pair.server, &[])?;
        let mut response = websocket_response(pair.client);
        if let Some(protocol) = request.headers().get("sec-websocket-protocol") {
            let headers = response.headers_mut();
            headers.insert("sec-websocket-protocol", protocol.clone());
        }
        Ok(response)
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        if ws.has_tag("dialled") {
            self.notes.add(format!("heard {message:?}"));
            return match message.as_text() {
                Some("hang up") => ws.close(4_003, "told to"),
                _ => Ok(()),
            };
        }
        match message
            .as_text()
            .map(|text| text.split_once(' ').unwrap_or((text, "")))
        {
            Some(("all", rest)) => {
                let message = Message::from(rest);
                for other in self.state.get_websockets(None) {
                    other.send(&message)?;
                }
                Ok(())
            }
            Some(("close", rest)) => ws.close(rest.parse().unwrap_or(0), "as you wish"),
            Some(("flood", rest)) => {
                let message = Message::from("x".repeat(100_000));
                for _ in 0..rest.parse().unwrap_or(0) {
                    ws.send(&message)?;
                }
                Ok(())
            }
            _ => ws.send(message),
        }
    }

    async fn websocket_close(
        &self,
        _ws: WebSocket,
        code: u16,
        reason: String,
        was_clean: bool,
    ) -> Result<()> {
        self.notes
            .add(format!("closed {code} {reason:?} {was_clean}"));
        Ok(())
    }

    async fn websocket_error(&self, _ws: WebSocket, error: Error) -> Result<()> {
        self.notes.add(format!("error {error}"));
        Ok(())
    }
}

impl Echo {
    /// Opens a socket to another server and says something.
    async fn dial(&self, url: &str) -> Result<()> {
        let request = http::Request::get(url).body(())?;
        let ws = self.state.connect_websocket(request, &["dialled"]).await?;
        ws.send("hello from here")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.notes.add("left memory");
    }
}

struct World {
    host: RunningHost,
    notes: Notes,
}

async fn world(outfit: impl FnOnce(HostBuilder) -> HostBuilder) -> World {
    let notes = Notes::default();
    let builder = Host::open_in_memory()
        .object::<Echo>("ECHO")
        .with(notes.clone())
        // Most tests leave their clients open.
        .configure(|c| c.server.shutdown_grace = SHORT)
        .router(|env| {
            abide::server::object_router::<Echo>(&env).route("/axum/own", any(echo_by_itself))
        });
    let host = outfit(builder).start().await.unwrap();
    World { host, notes }
}

/// A handler that does the whole of a WebSocket without objects.
async fn echo_by_itself(mut request: http::Request<axum::body::Body>) -> http::Response<String> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let stream = hyper_util::rt::TokioIo::new(upgrade.await.unwrap());
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
    });
    let key = request.headers()["sec-websocket-key"].as_bytes();
    http::Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-accept", derive_accept_key(key))
        .body(String::new())
        .unwrap()
}

impl World {
    async fn client(&self) -> Client {
        self.client_of("/room/").await
    }

    async fn client_of(&self, path: &str) -> Client {
        let url = format!("ws://{}{path}", self.host.addr());
        connect_async(url).await.unwrap().0
    }
}

async fn say(client: &mut Client, text: &str) {
    client.send(Sent::text(text)).await.unwrap();
}

/// The next message that is neither ping nor pong.
async fn hear(client: &mut Client) -> Sent {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(30), client.next());
        match next.await.expect("something is said").unwrap().unwrap() {
            Sent::Ping(_) | Sent::Pong(_) => {}
            message => return message,
        }
    }
}

fn close_frame(message: Sent) -> CloseFrame {
    match message {
        Sent::Close(Some(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

/// The refusal of a handshake.
fn refused(error: tungstenite::Error) -> http::Response<Option<Vec<u8>>> {
    match error {
        tungstenite::Error::Http(response) => *response,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn text_and_bytes_of_every_length_come_back() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    for length in [0, 1, 125, 126, 65_535, 65_536, 3_000_000] {
        let text = "é".repeat(length / 2) + if length % 2 == 1 { "x" } else { "" };
        say(&mut client, &text).await;
        assert_eq!(hear(&mut client).await, Sent::text(text));
        let bytes = vec![length as u8; length];
        client.send(Sent::binary(bytes.clone())).await.unwrap();
        assert_eq!(hear(&mut client).await, Sent::binary(bytes));
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn many_small_messages_come_back_in_order() {
    let world = world(|host| host).await;
    let (mut send, mut receive) = world.client().await.split();
    let sending = tokio::spawn(async move {
        for number in 0..5_000 {
            send.feed(Sent::text(number.to_string())).await.unwrap();
        }
        send.flush().await.unwrap();
        send
    });
    for number in 0..5_000 {
        let next = receive.next().await.unwrap().unwrap();
        assert_eq!(next, Sent::text(number.to_string()));
    }
    drop(sending.await.unwrap());
    drop(receive);
    world.notes.wait("closed 1006").await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_broadcast_reaches_every_client() {
    let world = world(|host| host).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(world.client().await);
    }
    say(&mut clients[3], "all hello").await;
    for client in &mut clients {
        assert_eq!(hear(client).await, Sent::text("hello"));
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_leaves_memory_while_its_client_stays_and_a_message_wakes_it() {
    let world = world(|host| host.configure(|c| c.objects.idle_timeout = SHORT)).await;
    let mut client = world.client().await;
    for life in 1..=3 {
        say(&mut client, "hello").await;
        assert_eq!(hear(&mut client).await, Sent::text("hello"));
        while world.notes.count("left") < life {
            tokio::task::yield_now().await;
        }
    }
    say(&mut client, "awake").await;
    assert_eq!(hear(&mut client).await, Sent::text("awake"));
    assert_eq!(world.notes.count("new"), 4);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_close_of_either_side_is_answered_and_told_once() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    let frame = CloseFrame {
        code: CloseCode::Library(4_002),
        reason: "enough".into(),
    };
    client.close(Some(frame.clone())).await.unwrap();
    assert_eq!(close_frame(hear(&mut client).await), frame);
    assert!(client.next().await.is_none(), "the connection ends");
    world.notes.wait(r#"closed 4002 "enough" true"#).await;

    let mut client = world.client().await;
    say(&mut client, "close 3001").await;
    let frame = close_frame(hear(&mut client).await);
    assert_eq!(
        (u16::from(frame.code), &*frame.reason),
        (3_001, "as you wish")
    );
    assert!(client.next().await.is_none());
    world.notes.wait(r#"closed 3001 "as you wish" true"#).await;

    let mut client = world.client().await;
    client.close(None).await.unwrap();
    world.notes.wait(r#"closed 1005 "" true"#).await;
    assert_eq!(world.notes.count("closed"), 3);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_disappears_is_1006() {
    let world = world(|host| host).await;
    drop(world.client().await);
    world.notes.wait(r#"closed 1006 "" false"#).await;
    assert_eq!(world.notes.count("error"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_is_told_and_the_object_learns_why() {
    let world = world(|host| host.configure(|c| c.websocket.max_message_bytes = 1_000)).await;
    for (what, bytes, code) in [
        ("not masked", &[0x81, 0x01, b'x'][..], 1002),
        ("not UTF-8", &[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
        ("too long", &[0x82, 0xfe, 0xff, 0xff, 0, 0, 0, 0], 1009),
    ] {
        let before = world.notes.count("closed 1006");
        let mut client = world.client().await;
        let MaybeTlsStream::Plain(stream) = client.get_mut() else {
            panic!("no TLS here");
        };
        tokio::io::AsyncWriteExt::write_all(stream, bytes)
            .await
            .unwrap();
        let frame = close_frame(hear(&mut client).await);
        assert_eq!(u16::from(frame.code), code, "{what}");
        world
            .notes
            .wait(&format!(
                "error the WebSocket's peer was refused with {code}"
            ))
            .await;
        while world.notes.count("closed 1006") == before {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(world.notes.count("closed"), 3);
    world.host.shutdown().await.unwrap();
}

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
    let url = |path| format!("ws://{}/room{path}", world.host.addr());
    let response = refused(connect_async(url("/plain")).await.unwrap_err());
    assert_eq!(response.status(), StatusCode::OK);
    let response = refused(connect_async(url("/unaccepted")).await.unwrap_err());
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
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
async fn a_handler_may_serve_websockets_by_itself() {
    let world = world(|host| host).await;
    let mut client = world.client_of("/axum/own").await;
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    client.close(None).await.unwrap();
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_ping_is_answered_with_its_payload() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    client.send(Sent::Ping("you?".into())).await.unwrap();
    let pong = client.next().await.unwrap().unwrap();
    assert_eq!(pong, Sent::Pong("you?".into()));
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_answer_pings_is_found_dead() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.ping_interval = Some(SHORT);
            c.websocket.pong_timeout = SHORT;
        })
    })
    .await;
    // The client answers pings only while it is polled, and this one is not.
    let client = world.client().await;
    world.notes.wait(r#"closed 1006 "" false"#).await;
    drop(client);
    let metrics = ask(
        world.host.admin_addr().unwrap(),
        http::Method::GET,
        "/metrics",
    );
    let metrics = metrics.await.body;
    assert!(
        metrics.contains("abide_websocket_keep_alive_timeouts_total "),
        "{metrics}"
    );
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_answers_pings_stays() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.ping_interval = Some(Duration::from_millis(10));
            c.websocket.pong_timeout = Duration::from_secs(20);
        })
    })
    .await;
    let mut client = world.client().await;
    for _ in 0..5 {
        let ping = client.next().await.unwrap().unwrap();
        assert!(matches!(ping, Sent::Ping(_)), "{ping:?}");
    }
    say(&mut client, "still here").await;
    assert_eq!(hear(&mut client).await, Sent::text("still here"));
    assert_eq!(world.notes.count("closed"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_closed_with_1013() {
    let world = world(|host| host.configure(|c| c.websocket.send_buffer_bytes = 200_000)).await;
    let mut client = world.client().await;
    // More than the kernel takes for a client that does not read.
    say(&mut client, "flood 1000").await;
    let frame = loop {
        match hear(&mut client).await {
            Sent::Close(frame) => break frame.unwrap(),
            message => assert_eq!(message.len(), 100_000),
        }
    };
    assert_eq!(u16::from(frame.code), 1013);
    assert!(client.next().await.is_none());
    world.notes.wait("closed 1013").await;
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_may_miss_messages_instead() {
    let world = world(|host| {
        host.configure(|c| {
            c.websocket.send_buffer_bytes = 200_000;
            c.websocket.slow_reader = SlowReader::DropNewest;
        })
    })
    .await;
    let mut client = world.client().await;
    say(&mut client, "flood 1000").await;
    let mut count = 0;
    loop {
        // This echo may be among what is left out, as long as there is something else to hear.
        say(&mut client, "still there").await;
        match hear(&mut client).await.len() {
            100_000 => count += 1,
            _ => break,
        }
    }
    assert!((1..1_000).contains(&count), "{count}");
    assert_eq!(world.notes.count("closed"), 0);
    world.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_dropped_with_an_open_socket_gives_its_directory_back() {
    let dir = tempfile::tempdir().unwrap();
    let start = || async {
        Host::open_in_memory()
            .disk(Arc::new(abide_storage::RealDisk))
            .object::<Echo>("ECHO")
            .with(Notes::default())
            .configure(|c| c.data.dir = dir.path().join("data"))
            .router(|env| abide::server::object_router::<Echo>(&env))
            .start()
            .await
    };
    let host = start().await.unwrap();
    let url = format!("ws://{}/room/", host.addr());
    let (mut client, _) = connect_async(url).await.unwrap();
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    drop(host);
    let again = async {
        loop {
            match start().await {
                Ok(host) => break host,
                // Its threads end by themselves.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let host = tokio::time::timeout(Duration::from_secs(20), again)
        .await
        .expect("the directory is free");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn open_sockets_are_closed_with_1001_when_the_host_ends() {
    let patient = Duration::from_secs(30);
    let world = world(|host| host.configure(|c| c.server.shutdown_grace = patient)).await;
    let mut client = world.client().await;
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    let notes = world.notes.clone();
    let ending = tokio::spawn(world.host.shutdown());
    let frame = close_frame(hear(&mut client).await);
    assert_eq!(u16::from(frame.code), 1001);
    assert!(client.next().await.is_none());
    ending.await.unwrap().unwrap();
    assert_eq!(notes.count(r#"closed 1001 "the server stops" true"#), 1);
}

#[tokio::test]
async fn a_client_that_does_not_confirm_the_close_does_not_keep_the_host() {
    let world = world(|host| host).await;
    let client = world.client().await;
    let notes = world.notes.clone();
    world.host.shutdown().await.unwrap();
    drop(client);
    assert_eq!(notes.count("closed 1001"), 0);
}

#[tokio::test]
async fn a_socket_is_not_subject_to_the_request_timeout_and_keeps_its_connection_s_slot() {
    let world = world(|host| {
        host.configure(|c| {
            c.server.request_timeout = SHORT;
            c.server.header_timeout = SHORT;
            c.server.max_connections = 1;
        })
    })
    .await;
    let mut client = world.client().await;
    let addr: SocketAddr = world.host.addr();
    let waiting = connect(
        addr,
        "GET /room/plain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    let waiting = tokio::spawn(read_to_end(waiting.await));
    tokio::time::sleep(2 * SHORT).await;
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client).await, Sent::text("hello"));
    assert!(!waiting.is_finished(), "there is one slot");
    client.close(None).await.unwrap();
    drop(client);
    assert!(waiting.await.unwrap().ends_with("no socket"));
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_metrics_count_messages_and_bytes() {
    let world = world(|host| host).await;
    let mut client = world.client().await;
    say(&mut client, "12345").await;
    hear(&mut client).await;
    let admin = world.host.admin_addr().unwrap();
    // The recorder belongs to the process, and other tests count, too.
    let metrics = ask(admin, http::Method::GET, "/metrics").await.body;
    for name in [
        "abide_websockets_open",
        "abide_websocket_messages_received_total",
        "abide_websocket_messages_sent_total",
        "abide_websocket_received_bytes_total",
        "abide_websocket_sent_bytes_total",
        "abide_websocket_slow_readers_total",
    ] {
        assert!(metrics.contains(&format!("# HELP {name} ")), "{name}");
    }
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_router_without_a_listener_cannot_upgrade_and_says_so() {
    let notes = Notes::default();
    let host = Host::open_in_memory()
        .object::<Echo>("ECHO")
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
async fn an_object_opens_a_socket_to_another_server_and_sleeps_while_it_is_open() {
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
    let nobody = "/dialler/dial?ws://127.0.0.1:1/";
    let told = ask(addr, http::Method::GET, nobody).await.body;
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
