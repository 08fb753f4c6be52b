//! What is passed on, and what is not.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use crate::support::{Site, Visitor, status, until_status};
use abide_harness::{in_time, run, until};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{accept_async, tungstenite::Message};

const ROOM: &str = "total_active_users = 2\nnew_users_per_minute = 1000";

/// The headers that the origin was sent.
fn sent<'a>(answer: &'a Value, name: &str) -> Vec<&'a str> {
    let pairs = answer.as_array().unwrap().iter();
    let named = pairs.filter(|pair| pair[0] == name);
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}

#[test]
fn the_origin_learns_for_whom_it_is_asked_and_never_sees_a_ticket() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let client = server.client();
        let mut visitor = Visitor::new()
            .with("x-forwarded-for", "10.9.8.7")
            .with("forwarded", "for=10.9.8.7")
            .with("connection", "x-hop")
            .with("x-hop", "1")
            .with("proxy-authorization", "Basic x")
            .with("cookie", "theirs=1");
        visitor.ask(&client, "/").await;
        let answer = visitor.ask(&client, "/headers?a=b").await;
        let headers = &answer.body;
        assert_eq!(sent(headers, "x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(sent(headers, "x-forwarded-proto"), ["http"]);
        assert_eq!(sent(headers, "x-forwarded-host"), [server.address()]);
        assert_eq!(sent(headers, "host"), [server.address()]);
        assert_eq!(sent(headers, "via"), ["1.1 waiting-room"]);
        assert_eq!(sent(headers, "cookie"), ["theirs=1"]);
        for dropped in ["forwarded", "x-hop", "proxy-authorization", "connection"] {
            assert!(sent(headers, dropped).is_empty(), "{dropped}: {headers}");
        }
        assert!(
            !answer.headers.contains_key("x-inner"),
            "about the origin's connection"
        );
        assert!(answer.headers.contains_key("x-outer"));
    });
}

#[test]
fn an_empty_error_of_the_application_is_passed_on_as_it_is() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let answer = Visitor::new().ask(&server.client(), "/missing").await;
        assert_eq!((answer.status.as_u16(), answer.body), (404, "".into()));
    });
}

#[test]
fn http_2_is_spoken_with_visitors() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let client = server.http2_client();
        let mut visitor = Visitor::new();
        assert!(visitor.enters(&client).await);
        let answer = visitor.ask(&client, "/headers").await;
        assert_eq!(sent(&answer.body, "host"), [server.address()]);
    });
}

#[test]
fn answers_stream() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let uri = format!("http://{}/stream", server.address())
            .parse()
            .unwrap();
        let mut answer = client.get(uri).await.unwrap();
        let first = in_time("the first half", answer.body_mut().frame())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(first.into_data().unwrap(), "first ");
        // The origin holds the second half back until now.
        site.origin.go_on.notify_one();
        assert_eq!(support::text(answer.into_body()).await, "second");
    });
}

#[test]
fn bodies_of_requests_stream() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let go_on = site.origin.go_on.clone();
        let second = async move {
            // Sent when the origin has had the first piece.
            in_time("the origin to have the first piece", go_on.notified()).await;
            Ok::<_, std::io::Error>(hyper::body::Frame::data(Bytes::from(vec![b'b'; 100])))
        };
        let first = hyper::body::Frame::data(Bytes::from(vec![b'a'; 1_000]));
        let body = StreamBody::new(Box::pin(
            stream::iter([Ok(first)]).chain(stream::once(second)),
        ));
        let client = Client::builder(TokioExecutor::new()).build_http();
        let request = Request::post(format!("http://{}/upload", server.address()))
            .body(body)
            .unwrap();
        let answer = client.request(request).await.unwrap();
        assert_eq!(support::text(answer.into_body()).await, "1100");
    });
}

#[test]
fn websockets_pass_through_for_those_inside_and_not_for_those_who_wait() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let site = Site::new("", "total_active_users = 1\nnew_users_per_minute = 1000").await;
        site.lead_to(&listener.local_addr().unwrap().to_string());
        let echo = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                if message.is_text() || message.is_binary() {
                    socket.send(message).await.unwrap();
                }
            }
        });
        let server = site.start();
        let url = format!("ws://{}/live", server.address());
        let (mut socket, answer) = tokio_tungstenite::connect_async(&url).await.unwrap();
        assert!(
            answer.headers().contains_key("set-cookie"),
            "the visitor is inside"
        );
        for text in ["hello", &"x".repeat(100_000)] {
            socket.send(Message::from(text)).await.unwrap();
            let echoed = in_time("an echo", socket.next()).await.unwrap().unwrap();
            assert_eq!(echoed.to_text().unwrap(), text);
        }
        let refused = tokio_tungstenite::connect_async(&url).await;
        assert!(refused.is_err(), "the room is full");
        socket.close(None).await.unwrap();
        in_time("the origin to hear of the end", echo)
            .await
            .unwrap();
    });
}

/// A server whose application echoes WebSockets.
async fn echoing(site: &Site) -> abide_harness::Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    site.lead_to(&listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut socket = accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() && socket.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    site.start()
}

#[test]
fn a_silent_tunnel_ends_with_the_session_and_a_used_one_keeps_it() {
    run(async {
        // Long beside a pause of a machine that is busy.
        let room = format!("{ROOM}\nsession_duration = \"5s\"");
        let site = Site::new("minute = \"1s\"\nrefresh = \"1s\"", &room).await;
        let server = echoing(&site).await;
        let client = server.client();
        let url = format!("ws://{}/live", server.address());
        let (mut used, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        let (mut silent, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        until_status(&client, "active", 2).await;
        // Until the one that is silent has left the room.
        until("the silent visitor to have left", async || {
            used.send(Message::from("still here")).await.unwrap();
            let echoed = in_time("an echo", used.next()).await.unwrap().unwrap();
            assert_eq!(echoed.to_text().unwrap(), "still here");
            let active = status(&client).await["active"].clone();
            (active == 1).then_some(())
        })
        .await;
        let end = in_time("the silent tunnel to end", silent.next()).await;
        assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    });
}

/// Sends bytes and returns the beginning of what comes back.
async fn raw(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4_096];
    let length = in_time("an answer", stream.read(&mut answer))
        .await
        .unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[test]
fn it_is_no_open_proxy() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        // A whole address in the request line leads to the origin all the same.
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = other.local_addr().unwrap();
        let answer = raw(
            server.address(),
            &format!("GET http://{there}/ HTTP/1.1\r\nHost: {there}\r\nConnection: close\r\n\r\n"),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(site.origin.requests(), 1);
        let answer = raw(
            server.address(),
            &format!("CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n\r\n"),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(answer.contains("no_tunnels"), "{answer}");
        let answer = raw(
            server.address(),
            "GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 waiting-room\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 508"), "{answer}");
    });
}

#[test]
fn the_origin_is_asked_for_no_other_protocol_than_websocket() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let answer = raw(
            server.address(),
            "GET /headers HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        for dropped in ["h2c", "http2-settings", "upgrade"] {
            assert!(!answer.contains(dropped), "{dropped}: {answer}");
        }
    });
}

#[test]
fn no_spelling_of_a_path_passes_the_queue() {
    run(async {
        let room = "path = \"/shop\"\nqueue_all = true\n";
        let bypass = "\n[[rooms.bypass]]\npath = \"/shop/status\"";
        let site = Site::new("", &format!("{room}{ROOM}{bypass}")).await;
        let server = site.start();
        let ask = async |path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            raw(server.address(), &request).await
        };
        for path in [
            "/shop",
            "/%73hop/cart",
            "//shop",
            "/x/../shop",
            "/x/%2e%2e/shop",
            "/shop;v=1",
            "/SHOP",
            "/%53hop",
            "/shop.",
            "/shop%20",
            "/shop%00",
            "/%2573hop",
            "/shop/status/../cart",
            "/shop/status/..%2fcart",
            "/shop/status/..%20/cart",
            "/shop/status/%252e%252e/cart",
        ] {
            let answer = ask(path).await;
            assert!(answer.contains("set-cookie"), "{path}: {answer}");
            assert_eq!(site.origin.requests(), 0, "{path}");
        }
        for (path, requests) in [("/shopping", 1), ("/shop/status", 2)] {
            ask(path).await;
            assert_eq!(site.origin.requests(), requests, "{path}");
        }
    });
}

#[test]
fn a_host_that_no_room_has_does_not_reach_the_origin() {
    run(async {
        let room = format!("host = \"Hosted.example.com\"\nqueue_all = true\n{ROOM}");
        let site = Site::new("", &room).await;
        // A room's host asks for no token.
        let server = site.start();
        let ask = async |host: &str, path: &str| {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            raw(server.address(), &request).await
        };
        for host in [
            "hosted.example.com",
            "HOSTED.example.com.",
            "hosted.example.com:1",
        ] {
            let answer = ask(host, "/any").await;
            assert!(answer.contains("set-cookie"), "{host}: {answer}");
            let answer = ask(host, "/.waiting-room/status").await;
            assert!(answer.starts_with("HTTP/1.1 404"), "{host}: {answer}");
        }
        for host in [
            "hosted.example.com:x",
            "hosted.example.com:80:80",
            "x@hosted.example.com",
            "hosted.example.com..",
            "localhost",
            "127.0.0.1",
            "x",
            "[::1]",
            "",
        ] {
            let answer = ask(host, "/any").await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{host}: {answer}");
        }
        let old = raw(server.address(), "GET /any HTTP/1.0\r\n\r\n").await;
        assert!(old.starts_with("HTTP/1.0 403"), "{old}");
        assert_eq!(site.origin.requests(), 0);
        assert_eq!(status(&server.client()).await["holds_all"], true);
        let answer = ask("evil.example", "/.waiting-room/status").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    });
}

#[test]
fn other_origins_reach_the_application_but_not_operators_pages() {
    run(async {
        let site = Site::new("", ROOM).await;
        let server = site.start();
        let foreign = async |client: abide_harness::Client, path: &str| {
            let request = Request::post(client.url(path)).header("origin", "http://evil.example");
            let request = request.body(Full::default()).unwrap();
            client.send(request).await.unwrap()
        };
        let answer = foreign(server.client(), "/").await;
        assert_eq!(answer.body, support::WELCOME);
        for (client, path) in [
            (server.client(), "/.waiting-room/reload"),
            (server.admin_client(), "/v1/snapshots"),
        ] {
            let answer = foreign(client, path).await;
            assert_eq!(
                (answer.status.as_u16(), answer.code()),
                (403, "cross_origin"),
                "{path}"
            );
        }
    });
}

#[test]
fn an_unreachable_origin_is_a_502_and_costs_no_place() {
    run(async {
        let site = Site::new("", ROOM).await;
        let nobody = abide_harness::Nobody::new();
        site.lead_to(&nobody.address());
        let server = site.start();
        let client = server.client();
        let mut visitor = Visitor::new();
        let answer = visitor.ask(&client, "/").await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (502, "origin_unreachable")
        );
        assert!(
            visitor.cookie.is_some(),
            "the visitor is inside nevertheless"
        );
    });
}
