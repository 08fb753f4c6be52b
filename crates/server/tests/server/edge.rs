//! The gateway and a host's life, with routers of the tests' own.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{ask, code, connect, read_to_end, send};
use abide_server::Host;
use axum::{Router, body::Bytes, routing::get};
use http::{Method, StatusCode};
use tokio::sync::{Notify, Semaphore};

/// Short enough that a test which waits for it is quick; no assertion depends on how long it takes.
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_request_not_answered_in_time_gets_504_and_keeps_its_connection() {
    let router = Router::new()
        .route("/slow", get(pending::<()>))
        .route("/quick", get(async || "here"));
    let host = Host::open_in_memory()
        .configure(|c| c.server.request_timeout = SHORT)
        .router(|_| router);
    let host = host.start().await.unwrap();
    let slow = ask(host.addr(), Method::GET, "/slow").await;
    assert_eq!(
        (slow.status, code(&slow)),
        (StatusCode::GATEWAY_TIMEOUT, "request_timeout".to_owned())
    );
    // On a busy machine this may take too long as well, for once.
    abide_harness::until("a quick answer", async || {
        let quick = ask(host.addr(), Method::GET, "/quick").await;
        (quick.body == "here").then_some(())
    })
    .await;
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_panic_in_a_handler_is_500_for_its_client_and_nothing_for_others() {
    let router = Router::new()
        .route(
            "/panic",
            get(async || -> &'static str { panic!("a test's panic") }),
        )
        .route("/quick", get(async || "here"));
    let host = Host::open_in_memory()
        .router(|_| router)
        .start()
        .await
        .unwrap();
    let panicked = ask(host.addr(), Method::GET, "/panic").await;
    assert_eq!(
        (panicked.status, code(&panicked)),
        (StatusCode::INTERNAL_SERVER_ERROR, "internal".to_owned())
    );
    assert_eq!(
        ask(host.addr(), Method::GET, "/quick").await.status,
        StatusCode::OK
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_error_without_a_body_gets_one_and_an_error_with_a_body_keeps_it() {
    let router = Router::new()
        .route("/bare", get(async || StatusCode::IM_A_TEAPOT))
        .route(
            "/own",
            get(async || (StatusCode::IM_A_TEAPOT, "short and stout")),
        );
    let host = Host::open_in_memory()
        .router(|_| router)
        .start()
        .await
        .unwrap();
    let bare = ask(host.addr(), Method::GET, "/bare").await;
    assert_eq!(
        (bare.status, code(&bare)),
        (StatusCode::IM_A_TEAPOT, "bad_request".to_owned())
    );
    assert_eq!(
        ask(host.addr(), Method::GET, "/own").await.body,
        "short and stout"
    );
    let head = ask(host.addr(), Method::HEAD, "/nowhere").await;
    assert_eq!(
        (head.status, head.body.as_str()),
        (StatusCode::NOT_FOUND, "")
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_as_long_as_the_limit_passes_and_one_byte_more_does_not() {
    let router = Router::new().route("/", get(async |body: Bytes| body.len().to_string()));
    let host = Host::open_in_memory()
        .configure(|c| c.server.max_body_bytes = 3_000_000)
        .router(|_| router);
    let host = host.start().await.unwrap();
    let fits = send(host.addr(), Method::GET, "/", vec![0; 3_000_000]).await;
    assert_eq!(
        (fits.status, fits.body.as_str()),
        (StatusCode::OK, "3000000")
    );
    let over = send(host.addr(), Method::GET, "/", vec![0; 3_000_001]).await;
    assert_eq!(
        (over.status, code(&over)),
        (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large".to_owned())
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_send_a_request_in_time_loses_its_connection() {
    let host = Host::open_in_memory()
        .configure(|c| c.server.header_timeout = SHORT)
        .start()
        .await
        .unwrap();
    for beginning in ["", "G", "PRI * HT", "GET / HTTP/1.1\r\nhost:"] {
        let stream = connect(host.addr(), beginning).await;
        let said = read_to_end(stream).await;
        assert!(!said.contains("200"), "{beginning:?}: {said}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn connections_beyond_the_cap_wait_until_one_closes() {
    let first_is_gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&first_is_gone);
    let router = Router::new().route(
        "/",
        get(async move || seen.load(Ordering::SeqCst).to_string()),
    );
    let host = Host::open_in_memory()
        .configure(|c| c.server.max_connections = 1)
        .router(|_| router);
    let host = host.start().await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    // It is accepted before the second: the kernel's queue keeps its order.
    let first = connect(host.addr(), "").await;
    let second = tokio::spawn(read_to_end(connect(host.addr(), request).await));
    tokio::task::yield_now().await;
    first_is_gone.store(true, Ordering::SeqCst);
    drop(first);
    assert!(second.await.unwrap().ends_with("true"));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_lets_requests_in_flight_finish_and_says_so_on_readyz() {
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let router = {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        Router::new().route(
            "/",
            get(async move || {
                entered.notify_one();
                let _ = leave.acquire().await;
                "finished"
            }),
        )
    };
    let host = Host::open_in_memory()
        .router(|_| router)
        .start()
        .await
        .unwrap();
    let (addr, admin) = (host.addr(), host.admin_addr().unwrap());
    assert_eq!(
        ask(admin, Method::GET, "/readyz").await.status,
        StatusCode::OK
    );
    let in_flight = tokio::spawn(ask(addr, Method::GET, "/"));
    entered.notified().await;
    let end = tokio::spawn(host.shutdown());
    let not_ready = loop {
        let ready = ask(admin, Method::GET, "/readyz").await;
        if ready.status != StatusCode::OK {
            break ready;
        }
    };
    assert!(
        not_ready.body.contains("shutting_down"),
        "{}",
        not_ready.body
    );
    while tokio::net::TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    leave.add_permits(1);
    assert_eq!(in_flight.await.unwrap().body, "finished");
    end.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_does_not_wait_beyond_its_grace() {
    let entered = Arc::new(Notify::new());
    let router = {
        let entered = Arc::clone(&entered);
        Router::new().route(
            "/",
            get(async move || {
                entered.notify_one();
                pending::<()>().await;
            }),
        )
    };
    let host = Host::open_in_memory()
        .configure(|c| c.server.shutdown_grace = SHORT)
        .router(|_| router);
    let host = host.start().await.unwrap();
    let stream = connect(host.addr(), "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    entered.notified().await;
    host.shutdown().await.unwrap();
    assert_eq!(read_to_end(stream).await, "");
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_with_the_setting_s_name() {
    let first = Host::open_in_memory().start().await.unwrap();
    let taken = first.addr().to_string();
    let mut config = abide_server::Config::load(&abide_server::Sources {
        listen: Some(taken.clone()),
        ..abide_server::Sources::default()
    })
    .unwrap();
    config.admin.listen = None;
    let refused = Host::open_in_memory()
        .configure(|c| *c = config)
        .start()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(&taken) && refused.contains("server.listen"),
        "{refused}"
    );
    first.shutdown().await.unwrap();
}
