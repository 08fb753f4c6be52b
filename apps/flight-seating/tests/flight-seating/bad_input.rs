//! What clients and operators do wrong, and what they are told.

use crate::support::program;
use abide_harness::refused;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const FLIGHT: &str = "/flights/BA117/2026-12-01";

#[tokio::test]
async fn invalid_bodies_are_400_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let cases = [
        (r#"{"rows":30,"columns":"ABCDEF""#, "malformed_json"),
        ("", "malformed_json"),
        ("rows=30", "malformed_json"),
        (r#"{"rows":30}"#, "invalid_body"),
        (r#"{"rows":-1,"columns":"A"}"#, "invalid_body"),
        (r#"{"rows":"30","columns":"A"}"#, "invalid_body"),
        (r#"{"rows":0,"columns":"A"}"#, "invalid_rows"),
        (r#"{"rows":101,"columns":"A"}"#, "invalid_rows"),
        (r#"{"rows":1,"columns":""}"#, "invalid_columns"),
        (r#"{"rows":1,"columns":"AA"}"#, "invalid_columns"),
        (r#"{"rows":1,"columns":"a"}"#, "invalid_columns"),
    ];
    for (body, code) in cases {
        let answer = client.ask(Method::PUT, FLIGHT, body).await;
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::BAD_REQUEST, code),
            "{body}"
        );
    }
    assert_eq!(
        client.get(FLIGHT).await.code(),
        "no_seat_map",
        "nothing of that had an effect"
    );
    client
        .put(FLIGHT, &json!({ "rows": 1, "columns": "A" }))
        .await;
    for occupant in ["", "   ", "two\nlines", &"x".repeat(101)] {
        let answer = client
            .post(
                &format!("{FLIGHT}/seats/1A"),
                &json!({ "occupant": occupant }),
            )
            .await;
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::BAD_REQUEST, "invalid_occupant"),
            "{occupant:?}"
        );
    }
}

/// A web page can send these types without asking first.
#[tokio::test]
async fn a_page_s_body_that_does_not_say_that_it_is_json_is_415() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let body = r#"{"rows":1,"columns":"A"}"#;
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data"),
    ] {
        let mut request = Request::put(client.url(FLIGHT)).header("sec-fetch-site", "none");
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(Full::from(Bytes::from(body))).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            "{kind:?}"
        );
    }
    assert_eq!(client.get(FLIGHT).await.code(), "no_seat_map");
}

#[tokio::test]
async fn invalid_addresses_are_400_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let client = server.client();
    let cases = [
        ("/flights/BA%20117/2026-12-01", "invalid_flight"),
        ("/flights/ABCDEFGHIJKLMNOPQ/2026-12-01", "invalid_flight"),
        ("/flights/BA117/2026-02-30", "invalid_date"),
        ("/flights/BA117/tomorrow", "invalid_date"),
        ("/flights/%FF/2026-12-01", "invalid_path"),
    ];
    for (path, code) in cases {
        let answer = client.get(path).await;
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::BAD_REQUEST, code),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_method_that_an_address_does_not_take_is_405_with_those_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    for method in ["DELETE", "BREW"] {
        let answer = server
            .client()
            .ask(Method::from_bytes(method.as_bytes()).unwrap(), FLIGHT, "")
            .await;
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed")
        );
        assert_eq!(answer.headers[header::ALLOW], "GET,HEAD,PUT");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_or_not_it_tells_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data"))
        .env("ABIDE__SERVER__MAX_BODY_BYTES", "1KiB")
        .start();
    let client = server.client();
    let long = json!({ "rows": 1, "columns": "A", "more": "x".repeat(1024) });
    let told = client.put(FLIGHT, &long).await;
    assert_eq!(
        (told.status, told.code()),
        (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large")
    );

    let mut stream = tokio::net::TcpStream::connect(server.address())
        .await
        .unwrap();
    let chunk = format!("400\r\n{}\r\n", " ".repeat(0x400));
    let head = format!(
        "PUT {FLIGHT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    stream
        .write_all(format!("{head}{chunk}{chunk}0\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("body_too_large"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_client_that_disconnects_mid_request_affects_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    for part in [
        "PUT /fli",
        "PUT /flights/BA117/2026-12-01 HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\n{\"ro",
    ] {
        let mut stream = tokio::net::TcpStream::connect(server.address())
            .await
            .unwrap();
        stream.write_all(part.as_bytes()).await.unwrap();
        drop(stream);
    }
    assert_eq!(server.client().get(FLIGHT).await.code(), "no_seat_map");
    assert!(server.stop().success());
}

#[tokio::test]
async fn the_admin_listener_tells_health_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    server
        .client()
        .put(FLIGHT, &json!({ "rows": 1, "columns": "A" }))
        .await;
    let admin = server.admin_client();
    assert_eq!(admin.get("/healthz").await.body, json!({ "status": "ok" }));
    assert_eq!(
        admin.get("/readyz").await.body,
        json!({ "status": "ready" })
    );
    let metrics = admin.get("/metrics").await;
    let text = metrics.body.as_str().unwrap();
    for expected in [
        "# HELP abide_http_requests_total ",
        "# TYPE abide_http_requests_total counter",
        "abide_http_requests_total{method=\"PUT\",status=\"2xx\"} 1",
        "abide_http_request_seconds_bucket{method=\"PUT\",le=",
        "# HELP abide_log_commits_total ",
        "# HELP abide_objects_live ",
    ] {
        assert!(text.contains(expected), "no {expected:?} in:\n{text}");
    }
    for line in text.lines() {
        if let Some(named) = line.strip_prefix("# TYPE ") {
            let name = named.split(' ').next().unwrap();
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} has no HELP text"
            );
        }
    }
    let elsewhere = admin.get("/nothing").await;
    assert_eq!(
        (elsewhere.status, elsewhere.code()),
        (StatusCode::NOT_FOUND, "not_found")
    );
    let on_clients_port = server.client().get("/metrics").await;
    assert_eq!(
        on_clients_port.status,
        StatusCode::NOT_FOUND,
        "figures are not for clients"
    );
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let first = program(&data).start();
    let (status, said) = refused(program(&data).command());
    assert!(!status.success());
    assert!(said.contains("in use") && said.contains("data"), "{said}");
    let request = Request::get(first.client().url(FLIGHT))
        .body(Full::<Bytes>::default())
        .unwrap();
    assert_eq!(
        first.client().send(request).await.unwrap().code(),
        "no_seat_map",
        "the first is not disturbed"
    );
}

#[tokio::test]
async fn an_address_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = program(&dir.path().join("data")).start();
    let mut by_environment = std::process::Command::new(env!("CARGO_BIN_EXE_flight-seating"));
    by_environment
        .args(["serve", "--data"])
        .arg(dir.path().join("other"))
        .env("ABIDE__SERVER__LISTEN", first.address())
        .env("ABIDE__ADMIN__LISTEN", "off")
        .current_dir(dir.path());
    let (status, said) = refused(by_environment);
    assert!(!status.success());
    assert!(
        said.contains(first.address())
            && said.contains("server.listen")
            && said.contains("another process"),
        "{said}"
    );
}

#[test]
fn settings_that_do_not_exist_or_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for (name, value, expected) in [
        (
            "ABIDE__SERVER__PORT",
            "80",
            "ABIDE__SERVER__PORT is not a setting",
        ),
        (
            "ABIDE__SERVER__REQUEST_TIMEOUT",
            "soon",
            "expected a duration",
        ),
    ] {
        let with = program(&data).env(name, value);
        let (status, said) = refused(with.command());
        assert_eq!(status.code(), Some(1));
        assert!(said.contains(expected), "{said}");
    }
    std::fs::write(dir.path().join("abide.toml"), "[server]\nport = 80\n").unwrap();
    let (status, said) = refused(program(&data).command());
    assert_eq!(status.code(), Some(1));
    assert!(
        said.contains("`server.port` in abide.toml is not a setting"),
        "{said}"
    );
    assert!(!data.exists(), "nothing was touched");
}
