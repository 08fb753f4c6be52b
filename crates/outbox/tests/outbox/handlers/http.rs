use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    http::{HeaderValue, Method, header},
    server::AllowPrivate,
};
use abide::{
    outbox::handlers::{HttpCall, HttpDelivery},
    outbox::{Deliver, FailureKind, Polled, Submitted},
};
use abide_harness::{Nobody, Receiver, ReceiverAct, until};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::handlers::{KEY, attempt, failed, host, host_with};

async fn post(act: ReceiverAct) -> Result<Submitted, abide::outbox::Failure> {
    let (host, receiver) = (host().await, Receiver::start().await);
    receiver.script([act]);
    let call = HttpCall::post(receiver.url("/hook"));
    let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
    host.shutdown().await.unwrap();
    submitted
}

#[tokio::test]
async fn a_request_arrives_as_it_was_written_and_with_its_key() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let handler = HttpDelivery::new();
    let delivery = attempt(&host);
    let url = receiver.url("/orders?for=ada#not-sent");
    let calls = [
        HttpCall::post(&url)
            .json(&json!({ "seat": "14C" }))
            .unwrap(),
        HttpCall::new(Method::PUT, &url)
            .text("Grüße")
            .header("X-Tag", "1"),
        HttpCall::post(&url)
            .bytes([0, 255])
            .header("Content-Type", "image/png"),
        HttpCall::new(Method::DELETE, &url),
    ];
    for call in &calls {
        assert_eq!(handler.check(call), Ok(()));
        assert_eq!(handler.submit(&delivery, call).await, Ok(Submitted::Done));
    }
    let got = receiver.received();
    assert!(
        got.iter()
            .all(|request| request.header("idempotency-key") == KEY)
    );
    assert!(got.iter().all(|request| request.uri == "/orders?for=ada"));
    let told: Vec<_> = got
        .iter()
        .map(|request| {
            (
                request.method.as_str(),
                request.header("content-type"),
                &request.body[..],
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("POST", "application/json", br#"{"seat":"14C"}"#.as_slice()),
            ("PUT", "text/plain; charset=utf-8", "Grüße".as_bytes()),
            ("POST", "image/png", &[0, 255]),
            ("DELETE", "", &[]),
        ]
    );
    assert_eq!(got[1].header("x-tag"), "1");
    assert_eq!(
        handler.summary(&calls[0]),
        format!("POST {}", receiver.url("/orders"))
    );
    assert_eq!(
        handler.destination(&calls[0]),
        format!("http://{}", receiver.address())
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_response_status_decides_the_message_s_outcome() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let (handler, delivery) = (HttpDelivery::new(), attempt(&host));
    let call = HttpCall::post(receiver.url("/"));
    for status in [200, 201, 202, 204] {
        receiver.script([ReceiverAct::status(status)]);
        assert_eq!(
            handler.submit(&delivery, &call).await,
            Ok(Submitted::Done),
            "{status}"
        );
    }
    for (status, fate) in [
        (400, FailureKind::Permanent),
        (404, FailureKind::Permanent),
        (408, FailureKind::Refused),
        (422, FailureKind::Permanent),
        (425, FailureKind::Refused),
        (429, FailureKind::Throttled),
        (500, FailureKind::Temporary),
        (502, FailureKind::Temporary),
        (503, FailureKind::Temporary),
        (504, FailureKind::Temporary),
    ] {
        receiver.script([ReceiverAct::body(status, "so\n not")]);
        let failure = failed(handler.submit(&delivery, &call).await, fate, ": so not");
        assert!(
            failure.message().starts_with(&status.to_string()),
            "{failure:?}"
        );
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_asks_for_patience_gets_it_in_seconds_or_until_a_date() {
    let throttled = |act| async { failed(post(act).await, FailureKind::Throttled, "").after() };
    let hour = Some(Duration::from_hours(1));
    assert_eq!(
        throttled(ReceiverAct::status(429).retry_after(3_600)).await,
        hour
    );
    assert_eq!(
        throttled(ReceiverAct::status(503).retry_after(3_600)).await,
        hour
    );
    let far = ReceiverAct::status(429).header("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT");
    assert!(throttled(far).await.unwrap() > Duration::from_hours(24 * 365));
    let past = ReceiverAct::status(429).header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(throttled(past).await, Some(Duration::ZERO));
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_request_keeps_its_key() {
    let (host, receiver) = (host().await, Receiver::start().await);
    receiver.script([ReceiverAct::lost()]);
    let (handler, call) = (HttpDelivery::new(), HttpCall::post(receiver.url("/")));
    let first = attempt(&host);
    failed(
        handler.submit(&first, &call).await,
        FailureKind::Temporary,
        "the request failed",
    );
    let second = handler.submit(&first.again(true), &call).await;
    assert_eq!(second, Ok(Submitted::Done));
    let keys: Vec<_> = receiver
        .received()
        .iter()
        .map(|got| got.key().to_owned())
        .collect();
    assert_eq!(keys, [KEY, KEY]);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_says_nothing_is_unknown() {
    let receiver = Receiver::start().await;
    receiver.decide(|_| ReceiverAct::hang());
    let soon = Duration::from_millis(50);
    let host = host_with(|config| config.outbound.request_timeout = soon).await;
    let call = HttpCall::post(receiver.url("/"));
    // On a busy machine the time may be over before the request has left.
    let submitted = until("an attempt that gets there", async || {
        let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
        (!receiver.received().is_empty()).then_some(submitted)
    })
    .await;
    failed(submitted, FailureKind::Temporary, "no response within");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_without_end_holds_no_attempt_and_its_head_counts() {
    assert_eq!(post(ReceiverAct::endless(200)).await, Ok(Submitted::Done));
    let failure = failed(
        post(ReceiverAct::endless(500)).await,
        FailureKind::Temporary,
        "500",
    );
    assert!(failure.message().len() < 1_024, "{failure:?}");
}

/// Answers requests, which have no body, one after the other on each connection, and counts connections.
async fn serve(listener: TcpListener, connections: Arc<AtomicUsize>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let mut head = Vec::new();
            while let Ok(byte) = stream.read_u8().await {
                head.push(byte);
                if head.ends_with(b"\r\n\r\n") {
                    head.clear();
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthere";
                    stream.write_all(answer).await.unwrap();
                }
            }
        });
    }
}

#[tokio::test]
async fn deliveries_to_one_receiver_share_connections() {
    let host = host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = HttpCall::post(format!("http://{}/", listener.local_addr().unwrap()));
    let connections = Arc::<AtomicUsize>::default();
    tokio::spawn(serve(listener, Arc::clone(&connections)));
    for _ in 0..20 {
        let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
        assert_eq!(submitted, Ok(Submitted::Done));
    }
    // One, or a few if the client is slow to take one back.
    let connections = connections.load(Ordering::SeqCst);
    assert!(connections <= 5, "{connections}");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let receiver = Receiver::start().await;
    let elsewhere = receiver.url("/elsewhere?token=secret");
    let redirect = ReceiverAct::status(302).header("location", &elsewhere);
    failed(
        post(redirect).await,
        FailureKind::Permanent,
        // A query may be secret, and errors are shown.
        "/elsewhere, and redirects are not followed",
    );
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn a_forbidden_address_is_never_contacted() {
    let receiver = Receiver::start().await;
    let host = host_with(|config| config.outbound.allow_private = AllowPrivate::None).await;
    let call = HttpCall::post(receiver.url("/"));
    let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
    failed(submitted, FailureKind::Permanent, "outbound.allow_private");
    assert!(receiver.received().is_empty());
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_is_not_there_has_refused() {
    let host = host().await;
    let nobody = Nobody::new();
    let call = HttpCall::post(format!("http://{}/", nobody.address()));
    let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
    failed(submitted, FailureKind::Refused, "could not connect");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_node_with_too_much_to_do_has_sent_nothing() {
    let receiver = Receiver::start().await;
    receiver.script([ReceiverAct::hang()]);
    let host = host_with(|config| {
        config.outbound.max_in_flight = 1;
        config.outbound.max_queued = 0;
    })
    .await;
    let (handler, call) = (HttpDelivery::new(), HttpCall::post(receiver.url("/")));
    let delivery = attempt(&host);
    tokio::select! {
        hanging = handler.submit(&delivery, &call) => panic!("it hangs: {hanging:?}"),
        _ = receiver.wait_for(1) => {
            failed(handler.submit(&delivery, &call).await, FailureKind::NotSent, "too many requests");
        }
    }
    assert_eq!(receiver.received().len(), 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_operation_is_asked_about_until_it_ends() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let (handler, delivery) = (HttpDelivery::new(), attempt(&host));
    let call = HttpCall::post(receiver.url("/jobs"))
        .header("Authorization", "Bearer x")
        .text("do it");
    // A throttled submission that names an operation has begun it.
    for status in [202, 429, 503] {
        let answer = ReceiverAct::status(status)
            .header("operation-location", "/jobs/7?v=1")
            .retry_after(3);
        receiver.script([answer]);
        let accepted = Submitted::Accepted {
            operation: receiver.url("/jobs/7?v=1"),
            after: Some(Duration::from_secs(3)),
        };
        assert_eq!(
            handler.submit(&delivery, &call).await,
            Ok(accepted),
            "{status}"
        );
    }
    let operation = receiver.url("/jobs/7?v=1");
    let poll = || handler.poll(&delivery, &call, &operation);
    let running = |after| Ok(Polled::Running { after });
    let failed_with = |error: &str| {
        Ok(Polled::Failed {
            error: error.to_owned(),
            retry: false,
        })
    };
    for (answer, told) in [
        (
            ReceiverAct::body(200, r#"{"status":"NotStarted"}"#),
            running(None),
        ),
        (
            ReceiverAct::body(200, r#"{"status":"Running"}"#).retry_after(2),
            running(Some(Duration::from_secs(2))),
        ),
        (ReceiverAct::status(202), running(None)),
        (
            ReceiverAct::body(200, r#"{"status":"Succeeded"}"#),
            Ok(Polled::Done),
        ),
        (
            ReceiverAct::body(
                200,
                r#"{"status":"Failed","error":{"code":"NoSeat","message":"All taken."}}"#,
            ),
            failed_with("Failed: NoSeat: All taken."),
        ),
        (
            ReceiverAct::body(200, r#"{"status":"Canceled"}"#),
            failed_with("Canceled"),
        ),
    ] {
        receiver.script([answer]);
        assert_eq!(poll().await, told);
    }
    for (answer, kind, text) in [
        (
            ReceiverAct::status(429).retry_after(9),
            FailureKind::Throttled,
            "429",
        ),
        (ReceiverAct::status(503), FailureKind::Temporary, "503"),
        (
            ReceiverAct::status(404),
            FailureKind::Refused,
            "unknown to the receiver",
        ),
        (ReceiverAct::status(403), FailureKind::Permanent, "403"),
        (
            ReceiverAct::body(200, "<html>"),
            FailureKind::Refused,
            "no `status`: <html>",
        ),
        (
            ReceiverAct::endless(200),
            FailureKind::Refused,
            "is too long",
        ),
        (ReceiverAct::lost(), FailureKind::Temporary, ""),
    ] {
        receiver.script([answer]);
        failed(poll().await, kind, text);
    }
    let polls = receiver.received().split_off(3);
    for poll in polls {
        assert!(poll.method == "GET" && poll.uri == "/jobs/7?v=1");
        assert_eq!(poll.header("authorization"), "Bearer x");
        assert!(poll.body.is_empty() && poll.header("content-type").is_empty());
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_operation_that_cannot_be_asked_about_is_accepted_all_the_same() {
    let elsewhere = "http://ada:secret@127.0.0.1:1/jobs/7?token=secret";
    let answer = |status| ReceiverAct::status(status).header("operation-location", elsewhere);
    let failure = failed(
        post(answer(202)).await,
        FailureKind::Permanent,
        "it was accepted, but",
    );
    assert!(!failure.message().contains("secret"), "{failure:?}");
    for (status, fate) in [(429, FailureKind::Throttled), (500, FailureKind::Temporary)] {
        failed(post(answer(status)).await, fate, &status.to_string());
    }
}

#[tokio::test]
async fn an_operation_on_another_origin_is_polled_only_if_allowed() {
    let host = host().await;
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    let accepted = || ReceiverAct::status(202).header("operation-location", &other.url("/jobs/7"));
    receiver.decide({
        let accepted = accepted();
        move |_| accepted.clone()
    });
    other.decide(|_| ReceiverAct::body(200, r#"{"status":"Succeeded"}"#));
    let delivery = attempt(&host);
    let call = HttpCall::post(receiver.url("/jobs")).header("Authorization", "Bearer x");
    let strict = HttpDelivery::new();
    failed(
        strict.submit(&delivery, &call).await,
        FailureKind::Permanent,
        "its operation is at",
    );
    let polled = strict.poll(&delivery, &call, &other.url("/jobs/7")).await;
    failed(polled, FailureKind::Permanent, "its operation is at");
    assert!(other.received().is_empty());

    let trusting = HttpDelivery::new().operations_elsewhere();
    assert!(trusting.submit(&delivery, &call).await.is_ok());
    let polled = trusting.poll(&delivery, &call, &other.url("/jobs/7")).await;
    assert_eq!(polled, Ok(Polled::Done));
    assert_eq!(
        other.received()[0].header("authorization"),
        "",
        "not told to others"
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_location_is_an_operation_if_the_program_says_so() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let delivery = attempt(&host);
    let call = HttpCall::post(receiver.url("/jobs"));
    let located = ReceiverAct::status(202).header("location", "/jobs/7");
    receiver.script([located.clone(), located]);
    assert_eq!(
        HttpDelivery::new().submit(&delivery, &call).await,
        Ok(Submitted::Done)
    );
    let handler = HttpDelivery::new().location_operations();
    let operation = receiver.url("/jobs/7");
    let accepted = Submitted::Accepted {
        operation: operation.clone(),
        after: None,
    };
    assert_eq!(handler.submit(&delivery, &call).await, Ok(accepted));
    receiver.script([ReceiverAct::status(202), ReceiverAct::status(200)]);
    let polled = handler.poll(&delivery, &call, &operation).await;
    assert_eq!(polled, Ok(Polled::Running { after: None }));
    assert_eq!(
        handler.poll(&delivery, &call, &operation).await,
        Ok(Polled::Done)
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_secret_of_the_program_goes_to_its_own_place_only() {
    let host = host().await;
    let (friend, other) = (Receiver::start().await, Receiver::start().await);
    let secret = HeaderValue::from_static("Bearer secret");
    let agent = HeaderValue::from_static("seats/1.0");
    let handler = HttpDelivery::new()
        .header(header::USER_AGENT, agent)
        .header_for(
            &friend.url("/").parse().unwrap(),
            header::AUTHORIZATION,
            secret,
        );
    assert!(!format!("{handler:?}").contains("secret"));
    for receiver in [&friend, &other] {
        let call = HttpCall::post(receiver.url("/"));
        assert!(handler.submit(&attempt(&host), &call).await.is_ok());
    }
    let (to_friend, to_other) = (&friend.received()[0], &other.received()[0]);
    assert_eq!(to_friend.header("authorization"), "Bearer secret");
    assert_eq!(to_other.header("authorization"), "");
    assert_eq!(to_other.header("user-agent"), "seats/1.0");
    host.shutdown().await.unwrap();
}

#[test]
fn a_request_that_cannot_be_sent_is_refused_when_it_is_enqueued() {
    let handler = HttpDelivery::new();
    let to = |url: &str| HttpCall::post(url);
    let good = "https://example.com/hook";
    let many = (0..65).fold(to(good), |call, n| call.header(format!("x-{n}"), "x"));
    for (call, why) in [
        (to("nowhere"), "is not a URL"),
        (
            to("ftp://example.com/"),
            "does not begin with http:// or https://",
        ),
        (to("https://ada:secret@example.com/"), "belong in a header"),
        (
            to(&format!("https://example.com/{}", "x".repeat(9_000))),
            "at most 8192",
        ),
        (
            to(good).header("Host", "example.org"),
            "`Host` cannot be set",
        ),
        (to(good).header("content-length", "1"), "cannot be set"),
        (to(good).header("Idempotency-Key", "mine"), "cannot be set"),
        (to(good).header("two words", "x"), "not a valid header name"),
        (to(good).header("x", "a\r\nb: c"), "invalid characters"),
        (
            to(good).header("x", "y".repeat(20_000)),
            "at most 64 with 16384",
        ),
        (many, "at most 64 with 16384"),
        (
            HttpCall {
                method: "CONNECT".into(),
                ..to(good)
            },
            "not a valid method",
        ),
        (
            HttpCall {
                method: "G E T".into(),
                ..to(good)
            },
            "not a valid method",
        ),
        (
            serde_json::from_value(json!({ "url": good, "body": { "base64": "!" } })).unwrap(),
            "not valid base64",
        ),
    ] {
        let refused = handler.check(&call).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    let typo = serde_json::from_value::<HttpCall>(json!({ "url": good, "heders": {} }));
    assert!(typo.unwrap_err().to_string().contains("heders"));
}

#[tokio::test]
async fn a_receiver_still_working_after_a_lost_answer_is_asked_again() {
    let (host, receiver) = (host().await, Receiver::start().await);
    // The draft of `Idempotency-Key`, and this server's own calls over JSON, say 409 while the first request runs.
    receiver.script([ReceiverAct::status(409)]);
    let call = HttpCall::post(receiver.url("/"));
    let second = attempt(&host).again(true);
    let submitted = HttpDelivery::new().submit(&second, &call).await;
    failed(submitted, FailureKind::Temporary, "409");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_request_that_waited_too_long_for_its_turn_has_not_been_sent() {
    let receiver = Receiver::start().await;
    receiver.decide(|_| ReceiverAct::endless(200));
    let host = host_with(|config| {
        config.outbound.max_in_flight = 1;
        config.outbound.request_timeout = Duration::from_millis(300);
    })
    .await;
    let call = HttpCall::post(receiver.url("/posted"));
    let unread = until("an answer in time", async || {
        let request = abide::http::Request::get(receiver.url("/"));
        let request = request.body(abide::Body::empty()).unwrap();
        host.env().fetch(request).await.ok()
    })
    .await;
    let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
    let arrived = receiver.received();
    assert!(
        arrived.iter().all(|request| request.path() == "/"),
        "it was not sent"
    );
    failed(submitted, FailureKind::NotSent, "");
    drop(unread);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_receiver_to_which_no_connection_is_made_in_time_has_refused() {
    // It takes connections and says nothing, so TLS never begins and no request is sent.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host =
        host_with(|config| config.outbound.connect_timeout = Duration::from_millis(100)).await;
    let call = HttpCall::post(format!("https://{}/", listener.local_addr().unwrap()));
    let submitted = HttpDelivery::new().submit(&attempt(&host), &call).await;
    failed(submitted, FailureKind::Refused, "could not connect");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn any_success_that_names_an_operation_begins_it() {
    let created = ReceiverAct::status(201).header("operation-location", "/jobs/7");
    let submitted = post(created).await;
    assert!(
        matches!(submitted, Ok(Submitted::Accepted { .. })),
        "{submitted:?}"
    );
}

#[tokio::test]
async fn an_answer_that_broke_off_does_not_end_an_operation() {
    let host = host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jobs", listener.local_addr().unwrap());
    let cut = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4_096]).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"status\":\"Runn";
        stream.write_all(answer).await.unwrap();
    });
    let handler = HttpDelivery::new().location_operations();
    let polled = handler
        .poll(&attempt(&host), &HttpCall::post(&url), &format!("{url}/7"))
        .await;
    cut.await.unwrap();
    assert_ne!(polled, Ok(Polled::Done));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_location_that_leads_to_the_result_has_ended_its_operation() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let redirect = ReceiverAct::status(303).header("location", "/results/7");
    receiver.script([redirect]);
    let handler = HttpDelivery::new().location_operations();
    let call = HttpCall::post(receiver.url("/jobs"));
    let polled = handler
        .poll(&attempt(&host), &call, &receiver.url("/jobs/7"))
        .await;
    assert_eq!(polled, Ok(Polled::Done));
    host.shutdown().await.unwrap();
}
